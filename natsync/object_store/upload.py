"""Uploads: the chunks of an object, many of them in flight; a failed upload leaves no chunks
behind."""

from __future__ import annotations

import errno
import hashlib
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from typing import BinaryIO, cast

from ..jetstream.api import API
from ..jetstream.errors import NoStreamResponseError
from ..jetstream.publishing import PubAck, read_ack
from ..message import Data

__all__ = ["Content", "Source", "chunks_of", "upload"]

Source = Data | BinaryIO | Iterable[bytes]
"""The content that a caller passes: bytes, a file open for reading, or pieces of any size."""

IN_FLIGHT = 4 << 20
"""Bytes in flight: with two chunks the connection would idle, with all of them memory would fill up."""


class Content:
    """The result of an upload: the number of chunks and bytes, and the SHA-256."""

    def __init__(self) -> None:
        self.chunks = 0
        self.size = 0
        self._sha256 = hashlib.sha256()

    def add(self, chunk: Data) -> None:
        """Counts a chunk."""
        self.chunks += 1
        self.size += len(chunk)
        self._sha256.update(chunk)

    @property
    def sha256(self) -> bytes:
        """The digest of the chunks up to now."""
        return self._sha256.digest()


def upload(api: API, subject: str, source: Source, chunk_size: int) -> Content:
    """Stores the chunks of `source` on `subject`, and returns when the stream has all of them. No chunk is
    larger than the server's `max_payload`, which may be less than the default size.

    Raises the errors of publishing, RequestTimeoutError for a chunk that is not confirmed in time, and the
    errors of reading `source`. Some chunks may be stored then.
    """
    content = Content()
    chunk_size = max(1, min(chunk_size, api.core.server_info.max_payload))
    most = max(2, IN_FLIGHT // chunk_size)
    window = api.core.open_window(most, _read)
    sent: deque[Future[PubAck]] = deque()
    try:
        for chunk in chunks_of(source, chunk_size):
            content.add(chunk)
            sent.append(window.request(subject, chunk, timeout=api.timeout))
            while sent and sent[0].done():
                sent.popleft().result()
        while sent:
            sent.popleft().result()
    except BaseException:
        # Chunks in flight would be stored after the purge.
        window.wait(api.timeout)
        raise
    return content


def _read(subject: str, payload: bytes | None) -> PubAck:
    if payload is None:
        raise NoStreamResponseError(subject)
    return read_ack(payload, subject)


def chunks_of(source: Source, size: int) -> Iterator[bytes]:
    """The content in chunks of `size` bytes; the last one may be shorter. Empty content has no chunks."""
    if isinstance(source, (bytes, bytearray, memoryview)):
        view = _flat(source)
        for start in range(0, len(view), size):
            yield bytes(view[start : start + size])
    elif isinstance(source, str):
        raise TypeError("an object's content is bytes, not str: encode it, e.g. data.encode()")
    elif hasattr(source, "read"):
        yield from _chunks_of_file(cast(BinaryIO, source), size)
    elif hasattr(source, "__iter__"):
        yield from _chunks_of_pieces(source, size)
    else:
        raise TypeError(f"an object's content is bytes, not {type(source).__name__}")


def _flat(data: Data) -> memoryview:
    """The bytes of `data`, copied only if they do not lie one after the other."""
    view = memoryview(data)
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


def _chunks_of_file(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Full chunks, also from a pipe or socket, whose reads return less than requested. Raises BlockingIOError
    where a file that does not block has no bytes yet."""
    rest = b""
    while (piece := file.read(size - len(rest))) != b"":
        if piece is None:  # not the end of the file
            raise BlockingIOError(errno.EAGAIN, "the file has no bytes yet, and does not block")
        if not isinstance(piece, (bytes, bytearray)):
            raise TypeError("the file must be open for bytes, not for text")
        rest = rest + piece if rest else piece
        if len(rest) == size:
            yield rest
            rest = b""
    if rest:
        yield rest


def _chunks_of_pieces(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    rest = bytearray()
    for piece in pieces:
        if not isinstance(piece, (bytes, bytearray, memoryview)):
            raise TypeError(f"an object's content is bytes, not {type(piece).__name__}")
        view = _flat(piece)
        missing = size - len(rest) if rest else 0
        rest += view[:missing]
        if len(rest) == size:
            yield bytes(rest)
            rest.clear()
        for start in range(missing, len(view) - size + 1, size):
            yield bytes(view[start : start + size])
        left = max(0, len(view) - missing)
        rest += view[len(view) - left % size :]
        del view  # a buffer with a view cannot change its size, and the source may use it again
    if rest:
        yield bytes(rest)
