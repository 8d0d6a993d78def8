"""`ObjectReader`: the content of an object as a file, checked while it is read.

Chunks come from an ordered consumer, in order across lost connections. The last one is only given
when the whole has the size and SHA-256 that the object's description says: who reads to the end has
what was put.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator

from ..errors import fresh
from ..jetstream import OrderedMessages
from ..jetstream.api import API
from ..jetstream.watching import next_if_any
from .errors import DigestMismatchError, ObjectStoreError, TruncatedObjectError
from .info import ObjectInfo, read_digest
from .naming import stream_name

__all__ = ["ObjectReader"]


class ObjectReader(io.RawIOBase):
    """The content of an object: a binary file for reading, which cannot seek. Made by `ObjectStore.get`.

    A read waits for the next chunk for as long as the context says (NextMsgTimeoutError). Raises
    TruncatedObjectError where chunks are missing, DigestMismatchError where the content is not what
    was put, ConnectionClosedError. Close it, or read to the end; a `with` block closes it.
    """

    def __init__(
        self, api: API, store: str, info: ObjectInfo, messages: OrderedMessages | None
    ) -> None:
        super().__init__()
        self.info = info
        """The description of the object; of what a link leads to."""
        self._store = store
        self._messages = messages
        self._api = api
        self._expected = read_digest(store, info.name, info.digest) if info.digest else b""
        self._sha256 = hashlib.sha256()
        self._chunks = self._size = 0
        self._rest = memoryview(b"")
        self._done = False
        self._failure: ObjectStoreError | None = None

    def chunks(self) -> Iterator[bytes]:
        """The content in the chunks that it was stored in: faster than `read`. Not after a `read`
        that has left part of a chunk."""
        while chunk := self._next_chunk():
            yield chunk

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Fills `buffer` with what there is of the current chunk, or of the next one; returns how
        much, 0 at the end."""
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]  # any buffer, as io has it
        if not self._rest:
            self._rest = memoryview(self._next_chunk())
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def readall(self) -> bytes:
        """All the rest."""
        rest = bytes(self._rest)
        self._rest = memoryview(b"")
        return b"".join([rest, *self.chunks()])

    def _next_chunk(self) -> bytes:
        """The next chunk; empty at the end."""
        if self.closed:
            raise ValueError("read of a closed object")
        if self._failure:  # a later read is not at the end either
            raise fresh(self._failure)
        if self._done:
            return b""
        info = self.info
        if self._messages is None or self._chunks == 0 and self._messages.num_pending == 0:
            self._finish()
            return b""
        api, stream = self._api, stream_name(self._store)
        msg = next_if_any(api, stream, self._messages, api.timeout)
        if msg is None:  # the object was replaced or deleted, after it was opened
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
        """Checks what has come, at the end of it."""
        self._done = True
        self._stop()
        info = self.info
        if self._chunks < info.chunks or self._size < info.size:
            self._failure = TruncatedObjectError(
                self._store, info.name, self._chunks, info.chunks, self._size, info.size
            )
        wrong = self._expected and self._sha256.digest() != self._expected
        if not self._failure and (wrong or self._size != info.size):
            self._failure = DigestMismatchError(self._store, info.name)
        if self._failure:
            raise fresh(self._failure)

    def _stop(self) -> None:
        messages, self._messages = self._messages, None
        if messages:
            messages.stop()

    def close(self) -> None:
        """Ends it."""
        self._stop()
        super().close()

    def __repr__(self) -> str:
        return f"ObjectReader({self.info.name!r}, {self.info.size} bytes)"
