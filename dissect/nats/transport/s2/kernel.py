"""Decodes the elements of S2 blocks in machine code, which `numba` compiles from `decode_elements` (extra
`s2`).

The machine code is about ten times as fast as `pyarrow` with rewritten blocks. But `numba` takes more than
half a second to import, and some seconds to compile, once on a machine. So it is loaded only when a process
has decoded `LOADED_AFTER` bytes. The elements are those of Snappy (google/snappy: format_description.txt) and
a copy with the distance of the copy before it (github.com/klauspost/compress/s2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from .snappy import REPEAT_BASES

LOADED_AFTER = 64 << 20
"""The bytes of plaintext that a process decodes before it loads the machine code. This takes 1 s with
`pyarrow`, and 2 s in pure Python."""

_SHORT_LITERAL, _SHORT_COPY = 4, 16
"""A short element is copied as this many bytes, even if it has fewer; the next element overwrites the rest. A
loop of exactly the element's size runs at half the speed, because the processor cannot predict its end.
Copying literals as 16 bytes takes a third longer than as 4, because a copy often reads what the literal
before it has just written."""


class Kernel:
    """Decodes blocks in machine code, once there are so many that it pays. Forks and threads may share it."""

    def __init__(self, loaded_after: int = LOADED_AFTER) -> None:
        self._left = loaded_after
        self._decode: Callable[[bytes, int, int], bytes | None] = self._wait

    def __call__(self, block: bytes, at: int, size: int) -> bytes | None:
        """The plaintext of a block that announces `size` bytes, and whose elements begin at `at`. None: the
        machine code is not loaded, or the block is damaged."""
        return self._decode(block, at, size)

    def _wait(self, block: bytes, at: int, size: int) -> bytes | None:
        self._left -= size
        if self._left < 0:
            self._decode = load() or _nothing
        return None


def load() -> Callable[[bytes, int, int], bytes | None] | None:
    """A machine code function with the arguments and result of `Kernel.__call__`; None: `numba` is not
    installed."""
    try:
        import numba
        import numpy as np
    except ImportError:
        return None
    try:  # stores it for the next process
        compiled = numba.njit(cache=True, nogil=True)(decode_elements)
    except RuntimeError:  # there is no writable folder
        compiled = numba.njit(nogil=True)(decode_elements)
    decode = cast("Callable[[object, int, object], int]", compiled)

    def decode_block(block: bytes, at: int, size: int) -> bytes | None:
        out = np.empty(size, np.uint8)
        made = decode(np.frombuffer(block, np.uint8), at, out)
        return out.tobytes() if made == size else None

    return decode_block


def _nothing(block: bytes, at: int, size: int) -> None:
    """Decodes nothing, because `numba` is not installed."""


def decode_elements(block: bytes, at: int, out: bytearray) -> int:
    """Writes the plaintext of the elements from `at` on to `out`. Returns its size; -1: the block is damaged,
    or its plaintext does not fit in `out`. The machine code gets arrays of bytes instead of these types, and
    `& 0xFF` turns an element of an array into a signed number of 64 bits."""
    end, room = len(block), len(out)
    last_in, last_out = end - _SHORT_LITERAL, room - _SHORT_COPY
    made = distance = 0
    while at < end:
        tag = block[at] & 0xFF
        kind, size = tag & 3, (tag >> 2) + 1
        at += 1
        if kind == 0:  # a literal
            if size > 60:
                width = size - 60
                if at + width > end:
                    return -1
                size = 1
                for index in range(width):
                    size += (block[at + index] & 0xFF) << 8 * index
                at += width
            if size <= _SHORT_LITERAL and at <= last_in and made <= last_out:
                for index in range(_SHORT_LITERAL):
                    out[made + index] = block[at + index]
            elif at + size <= end and made + size <= room:
                out[made : made + size] = block[at : at + size]
            else:
                return -1
            at += size
            made += size
            continue
        width = 4 if kind == 3 else kind
        if at + width > end:
            return -1
        near = block[at] & 0xFF
        if kind == 1:
            near |= (tag & 0xE0) << 3
            size = (tag >> 2 & 7) + 4
        else:
            near |= (block[at + 1] & 0xFF) << 8
            if kind == 3:
                near |= (block[at + 2] & 0xFF) << 16 | (block[at + 3] & 0xFF) << 24
        at += width
        if near or kind != 1:
            distance = near
        elif size > 8:  # the same distance as in the copy before, and a length that follows
            width = size - 8
            if at + width > end:
                return -1
            size = REPEAT_BASES[width - 1]
            for index in range(width):
                size += (block[at + index] & 0xFF) << 8 * index
            at += width
        start = made - distance
        if distance == 0 or start < 0 or made + size > room:
            return -1
        if size <= _SHORT_COPY <= distance and made <= last_out:
            for index in range(_SHORT_COPY):
                out[made + index] = out[start + index]
        else:
            for index in range(size):
                out[made + index] = out[start + index]
        made += size
    return made
