"""`ObjectReader`: the content of an object as a file, checked while it is read; and files that appear under
their names only when they have all of it.

Chunks come from an ordered consumer, in order across lost connections. The last chunk is returned only
if the content has the size and the SHA-256 of the object's description. So a reader that reaches the end
has the content that was put.
"""

from __future__ import annotations

import hashlib
import io
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ..errors import fresh
from ..jetstream.api import API
from ..jetstream.errors import StreamNotFoundError
from ..jetstream.ordered_reader import OrderedMessages
from ..jetstream.watching import next_if_any
from .errors import (
    DigestMismatchError,
    ObjectStoreError,
    StoreNotFoundError,
    TruncatedObjectError,
)
from .info import ObjectInfo, read_digest
from .naming import stream_name

__all__ = ["ObjectReader", "whole_file"]


class ObjectReader(io.RawIOBase):
    """The content of an object: a binary file for reading, which cannot seek. Made by `ObjectStore.get`.

    A read waits for the next chunk, at most for the timeout of the JetStream context (NextMsgTimeoutError).
    Raises TruncatedObjectError if chunks are missing, DigestMismatchError if the content differs from what
    was put, StoreNotFoundError, ConnectionClosedError. Close it, or read to the end; a `with` block does.
    """

    def __init__(
        self, api: API, bucket: str, info: ObjectInfo, messages: OrderedMessages | None
    ) -> None:
        super().__init__()
        self.info = info
        """The description of the object; for a link, that of its target."""
        self._bucket = bucket
        self._messages = messages
        self._api = api
        self._expected = read_digest(bucket, info.name, info.digest) if info.digest else b""
        self._sha256 = hashlib.sha256()
        self._chunks = self._size = 0
        self._rest = memoryview(b"")
        self._done = False
        self._failure: ObjectStoreError | None = None

    def chunks(self) -> Iterator[bytes]:
        """The content in the chunks in which it was stored, which is faster than `read`. Not allowed
        after a `read` that has returned only a part of a chunk."""
        while chunk := self._next_chunk():
            yield chunk

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Copies the rest of the current chunk, or the next one, into `buffer`; returns the number of
        bytes, 0 at the end."""
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # any buffer, as io has it
        if not self._rest:
            self._rest = memoryview(self._next_chunk())
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def readall(self) -> bytes:
        """The rest of the content."""
        rest = bytes(self._rest)
        self._rest = memoryview(b"")
        return b"".join([rest, *self.chunks()])

    def _next_chunk(self) -> bytes:
        """The next chunk that is not empty; empty at the end of the content."""
        if self.closed:
            raise ValueError("read of a closed object")
        if self._failure:  # so that a later read does not report the end either
            raise fresh(self._failure)
        chunk = b""
        while not (chunk or self._done):
            chunk = self._take_chunk()
        return chunk

    def _take_chunk(self) -> bytes:
        """The next chunk, which may be empty, also before the end of the content."""
        info = self.info
        if self._messages is None or self._chunks == 0 and self._messages.num_pending == 0:
            self._finish()
            return b""
        api, stream = self._api, stream_name(self._bucket)
        try:
            msg = next_if_any(api, stream, self._messages, api.timeout)
        except StreamNotFoundError as error:
            raise StoreNotFoundError(self._bucket) from error
        if msg is None:  # the object was replaced or deleted after it was opened
            self._finish()
            return b""
        chunk = msg.data
        self._chunks += 1
        self._size += len(chunk)
        self._sha256.update(chunk)
        if self._chunks >= info.chunks or msg.metadata.num_pending == 0:
            self._finish()
        return chunk

    def _finish(self) -> None:
        """Checks the received content at its end."""
        self._done = True
        self._stop()
        info = self.info
        if self._chunks < info.chunks or self._size < info.size:
            self._failure = TruncatedObjectError(
                self._bucket, info.name, self._chunks, info.chunks, self._size, info.size
            )
        wrong = self._expected and self._sha256.digest() != self._expected
        if not self._failure and (wrong or self._size != info.size):
            self._failure = DigestMismatchError(self._bucket, info.name)
        if self._failure:
            raise fresh(self._failure)

    def _stop(self) -> None:
        messages, self._messages = self._messages, None
        if messages:
            messages.stop()

    def close(self) -> None:
        """Ends the reading."""
        self._stop()
        super().close()

    def __repr__(self) -> str:
        return f"ObjectReader({self.info.name!r}, {self.info.size} bytes)"


@contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write to, which replaces the one at `path` when the block ends, and is removed if the block
    raises.

    The new file has the permissions of the old one, or those that `open` gives. A symbolic link stays and
    leads to the new file. A device, pipe or other special file is opened and written, since it cannot be
    replaced.
    """
    target = os.path.realpath(path)
    exists = os.path.exists(target)
    if exists and not os.path.isfile(target):
        with open(target, "wb") as file:
            yield file
        return
    partial = os.path.join(os.path.dirname(target), f".natsync-{secrets.token_hex(8)}")
    try:
        new = open(partial, "xb")
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # not the temporary name
    try:
        with new as file:
            if exists:
                shutil.copymode(target, partial)
            yield file
        os.replace(partial, target)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise
