"""Compressed files -> their contents, piece by piece: gzip, zstd, xz, bzip2.

Follows RFC 1952 and RFC 8878. A file of any format may have several members, frames or streams. Each piece of
the contents is at most one block, however well the data is compressed. Windows larger than the formats' own
tools accept are refused. The unpackers raise PackedError at damage or an early end, after they have yielded
all contents before it.
"""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import Protocol

from ..errors import imported
from .reader import BLOCK, Blocks, PackedError

Unpack = Callable[[Iterator[bytes]], Iterator[bytes]]

_GZIP = 31  # zlib's `wbits` for a gzip header
# The window that `zstd -d` accepts by default; `xz -9` needs half of it.
_LARGEST_WINDOW = 1 << 27

# Captures of real servers compress to between a half and a tenth of their size; messages of zeros compress to
# 1/125 with gzip and to 1/380 with xz. A file that expands further was made to waste time and memory.
LARGEST_RATIO = 500
ALWAYS_EXPANDED = 16 << 20

_ZSTD_FRAME = b"\x28\xb5\x2f\xfd"
_ZSTD_FIELDS = (0, 2, 4, 8)  # sizes of the content size field; the dictionary ID has 0, 1, 2 or 4
_ZSTD_LARGEST = 1 << 17
_RLE, _RESERVED = 1, 3


def gunzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The contents of a gzip file of one or more members."""
    inflater = zlib.decompressobj(_GZIP)
    fresh = True
    for piece in pieces:
        while piece:
            if fresh and not (piece := piece.lstrip(b"\0")):  # padding after a member
                break
            try:
                data = inflater.decompress(piece, BLOCK)
            except zlib.error as error:
                raise PackedError("the gzip data is damaged") from error
            fresh = inflater.eof
            piece = inflater.unconsumed_tail
            if fresh:
                piece = inflater.unused_data
                inflater = zlib.decompressobj(_GZIP)
            if data:
                yield data
    if not fresh:
        raise PackedError("the gzip data ends early")


def bounded(
    pieces: Iterator[bytes], taken: Callable[[], int], most: int | None = None
) -> Iterator[bytes]:
    """Yields the contents up to a limit, and raises PackedError if there is more: `most` bytes or, if that is
    None, the larger of `ALWAYS_EXPANDED` and `LARGEST_RATIO` times the compressed bytes `taken` so far.
    """
    size = 0
    for piece in pieces:
        left = (max(ALWAYS_EXPANDED, LARGEST_RATIO * taken()) if most is None else most) - size
        size += len(piece)
        if len(piece) > left:
            if left > 0:
                yield piece[:left]
            limit = f"{most} bytes" if most is not None else f"{LARGEST_RATIO} times its size"
            raise PackedError(f"the file expands to more than {limit} (see --max-expanded)")
        yield piece


class _Unpacker(Protocol):
    """The methods that the unpackers of xz and bzip2 share."""

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...


def unxz(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The contents of an xz file of one or more streams."""
    return _streams(pieces, "xz", lambda: lzma.LZMADecompressor(memlimit=_LARGEST_WINDOW))


def bunzip2(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The contents of a bzip2 file of one or more streams."""
    return _streams(pieces, "bzip2", bz2.BZ2Decompressor)


def _streams(pieces: Iterator[bytes], name: str, fresh: Callable[[], _Unpacker]) -> Iterator[bytes]:
    unpacker: _Unpacker | None = None
    for piece in pieces:
        while piece or (unpacker and not unpacker.needs_input):
            if unpacker is None:
                piece = piece.lstrip(b"\0")  # padding after a stream
                if not piece:
                    break
                unpacker = fresh()
            try:
                data = unpacker.decompress(piece, BLOCK)
            except (OSError, lzma.LZMAError) as error:
                raise PackedError(f"the {name} data is damaged") from error
            piece = b""
            if unpacker.eof:
                piece, unpacker = unpacker.unused_data, None
            if data:
                yield data
    if unpacker is not None:
        raise PackedError(f"the {name} data ends early")


def unzstd(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The contents of a zstd file of one or more frames. Raises MissingLibrary without the library.

    The library neither reports a frame that ends early nor limits the output of a call. So it gets one zstd
    block at a time, which expands to at most 128 KiB.
    """
    zstandard = imported("zstandard", "zstd")
    maker = zstandard.ZstdDecompressor(max_window_size=_LARGEST_WINDOW)
    source = Blocks(pieces)
    while source.fill(1):
        magic = _take(source, 4)
        if magic != _ZSTD_FRAME:
            if magic[1:] != b"\x2a\x4d\x18" or magic[0] >> 4 != 5:
                raise PackedError("the zstd data is damaged")
            _skip(source, int.from_bytes(_take(source, 4), "little"))
            continue
        frame = maker.decompressobj()
        try:
            for part in _frame_parts(source, magic):
                data = frame.decompress(part)
                if data:
                    yield data
        except zstandard.ZstdError as error:
            large = "memory" in str(error)
            what = "needs more memory than zstd itself accepts" if large else "is damaged"
            raise PackedError(f"the zstd data {what}") from error
    if source.fault:
        raise PackedError(source.fault)


def _frame_parts(source: Blocks, magic: bytes) -> Iterator[bytes]:
    """The parts of a frame: its header, each of its blocks, and its checksum."""
    descriptor = _take(source, 1)
    flags = descriptor[0]
    single = flags >> 5 & 1
    size = _ZSTD_FIELDS[flags >> 6] or single
    yield magic + descriptor + _take(source, 1 - single + (0, 1, 2, 4)[flags & 3] + size)
    last = 0
    while not last:
        head = _take(source, 3)
        number = int.from_bytes(head, "little")
        last, kind, size = number & 1, number >> 1 & 3, number >> 3
        if kind == _RESERVED or size > _ZSTD_LARGEST:
            raise PackedError("the zstd data is damaged")
        yield head + _take(source, 1 if kind == _RLE else size)
    if flags & 4:  # a checksum
        yield _take(source, 4)


def _take(source: Blocks, count: int) -> bytes:
    if not source.fill(count):
        raise PackedError(source.fault or "the zstd data ends early")
    start = source.at
    source.at += count
    return source.data[start : source.at]


def _skip(source: Blocks, count: int) -> None:
    """Skips a skippable frame of any size."""
    while count:
        source.fill(1)
        step = min(count, BLOCK)
        _take(source, step)
        count -= step


# First bytes of a file -> the name of the format, and the function that unpacks it.
FORMATS: dict[bytes, tuple[str, Unpack]] = {
    b"\x1f\x8b": ("gzip", gunzip),
    _ZSTD_FRAME: ("zstd", unzstd),
    b"\xfd7zXZ\0": ("xz", unxz),
    b"BZh": ("bzip2", bunzip2),
}
