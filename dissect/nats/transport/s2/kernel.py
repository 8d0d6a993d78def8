"""The elements of S2 blocks, decoded by machine code, which `numba` makes of `decode_elements` (extra `s2`).

The machine code is about ten times as fast as `pyarrow` with rewritten blocks. But `numba` takes more than
half a second to import, and some seconds to compile, once on a machine; so it is loaded when a process has
decoded `LOADED_AFTER` bytes. The elements are those of Snappy (google/snappy: format_description.txt) and a
copy with the distance of the copy before it (github.com/klauspost/compress/s2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from .snappy import REPEAT_BASES

LOADED_AFTER = 64 << 20
"""Of plaintext, in one process. Without the kernel this takes 1 s with `pyarrow`, else 2 s."""

_SHORT_LITERAL, _SHORT_COPY = 4, 16
"""A short element is copied with so many bytes although it may have fewer, which the next element overwrites:
the processor cannot guess the end of a loop of its own size (half the speed). Literals of 16 take a third
longer than those of 4, because a copy often reads what the literal before it has just written."""


class Kernel:
    """Decodes blocks from the moment on when machine code pays. Forks and threads may share it."""

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
    """A function like `Kernel`'s call, in machine code; None: `numba` is not installed."""
    try:
        import numba
        import numpy as np
    except ImportError:
        return None
    try:  # to keep it for the next process
        compiled = numba.njit(cache=True, nogil=True)(decode_elements)
    except RuntimeError:  # no folder that can be written
        compiled = numba.njit(nogil=True)(decode_elements)
    decode = cast("Callable[[object, int, object], int]", compiled)

    def decode_block(block: bytes, at: int, size: int) -> bytes | None:
        out = np.empty(size, np.uint8)
        made = decode(np.frombuffer(block, np.uint8), at, out)
        return out.tobytes() if made == size else None

    return decode_block


def _nothing(block: bytes, at: int, size: int) -> None:
    """There is no `numba`."""


def decode_elements(block: bytes, at: int, out: bytearray) -> int:
    """Writes the plaintext of the elements from `at` on to `out`. Returns how many bytes that makes; -1: the
    block is damaged, or makes more than `out` holds. The machine code has arrays of bytes instead of these
    types; `& 0xFF` makes an element of them a signed number of 64 bits."""
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
        elif size > 8:  # the distance of the copy before, and a length that follows
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
