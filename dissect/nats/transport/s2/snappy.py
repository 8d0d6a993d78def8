"""Rewrites S2 blocks as Snappy blocks, which `pyarrow` decompresses twice as fast as pure Python.

S2 adds one element to Snappy: a copy with the distance of the copy before it, which becomes an ordinary copy
here (google/snappy: format_description.txt; github.com/klauspost/compress/s2). Most extras and all workers of
Spark have `pyarrow`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

# The low bits of a tag: a literal, or a copy whose distance takes one, two or four bytes.
_LITERAL, _COPY_1, _COPY_2, _COPY_4 = range(4)
_FIRST_LONG_LITERAL = 60 << 2  # tags from here on are followed by a length
_MOST_COPY_BYTES = 64
_LONGEST_STEP = 61
REPEAT_BASES = (8, 260, 65540)
"""The length of a long copy with a repeated distance is one of these numbers, plus the number in the one, two
or three bytes that follow."""


def _step(tag: int) -> int:
    """The size of an element by its tag; 0: the tag alone does not show it."""
    kind = tag & 3
    if kind == _LITERAL:
        return (tag >> 2) + 2 if tag < _FIRST_LONG_LITERAL else 0
    if kind == _COPY_1:
        return 2 if tag & 0xE0 else 0  # if the high bits are 0, it may repeat a distance
    return 3 if kind == _COPY_2 else 5


_STEPS = bytes(map(_step, range(256)))


def decompress(block: bytes, at: int, size: int) -> bytes | None:
    """The plaintext of a block that announces `size` bytes, and whose elements begin at `at`. None: there is
    no library, or the block is damaged."""
    decompress_raw = _library()
    if decompress_raw is None:
        return None
    try:
        return decompress_raw(snappy_block(block, at, size), size)
    except (IndexError, OSError):
        return None


def snappy_block(block: bytes, at: int, size: int) -> bytes:
    """The same block without repeated distances. Raises IndexError if there is no distance to repeat, the
    block ends in the middle of an element, or copies make more than `size` bytes; other damage is left to
    the library."""
    steps = block.translate(_STEPS) + bytes(_LONGEST_STEP)
    end, begun = len(block), 0
    # The last two elements, one of which is a copy: an encoder never writes two short literals in a row.
    latest = before = at
    pieces = []
    while True:
        while step := steps[at]:
            before, latest = latest, at
            at += step
        if at >= end:
            break
        tag = block[at]
        if tag & 3 == _LITERAL:
            before, latest = latest, at
            width = (tag >> 2) - 59
            at += width + 2 + int.from_bytes(block[at + 1 : at + 1 + width], "little")
            if at > end:
                raise IndexError
        elif block[at + 1]:
            before, latest = latest, at
            at += 2
        else:
            pieces.append(block[begun:at])
            length, at = repeat_length(tag >> 2, block, at + 2)
            latest = before = latest if block[latest] & 3 else before
            size -= length
            if size < 0:
                raise IndexError
            pieces.append(_copies(block, latest, length))
            begun = at
    pieces.append(block[begun:])
    return b"".join(pieces)


def repeat_length(code: int, block: bytes, at: int) -> tuple[int, int]:
    """The length of a copy with a repeated distance, and where the next element begins. Raises IndexError if
    the block ends too early."""
    if code < 5:
        return code + 4, at
    width = code - 4
    if at + width > len(block):
        raise IndexError
    return REPEAT_BASES[width - 1] + int.from_bytes(block[at : at + width], "little"), at + width


def _copies(block: bytes, at: int, length: int) -> bytes:
    """Copies of `length` bytes with the distance of the copy at `at`."""
    kind = block[at] & 3
    if kind == _LITERAL:
        raise IndexError
    if kind == _COPY_1:
        kind, distance = _COPY_2, bytes([block[at + 1], block[at] >> 5])
    else:
        distance = block[at + 1 : at + (3 if kind == _COPY_2 else 5)]
    whole, rest = divmod(length, _MOST_COPY_BYTES)
    longest = bytes([_MOST_COPY_BYTES - 1 << 2 | kind]) + distance
    return longest * whole + (bytes([rest - 1 << 2 | kind]) + distance if rest else b"")


@cache
def _library() -> Callable[[bytes, int], bytes] | None:
    """The function of `pyarrow` that decompresses a block to its announced size; it raises OSError. None:
    there is none."""
    try:
        from pyarrow import Codec
    except ImportError:
        return None
    if not Codec.is_available("snappy"):
        return None
    codec = Codec("snappy")
    return lambda block, size: codec.decompress(block, size, asbytes=True)
