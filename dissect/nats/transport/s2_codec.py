"""S2 blocks and the checksum of their plaintext, as servers write them.

S2 is an extension of Snappy (github.com/klauspost/compress/s2; google/snappy: framing_format.txt). Where the
packages of the extra `s2` are installed, `cramjam` decompresses and `google-crc32c` computes the checksums;
`pyarrow` can take the place of the former. Python alone spends four fifths of its time on decompression.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from functools import cache

from .s2_snappy import decompress, repeat_length

MOST_PLAIN_BYTES = 4 << 20
"""Of one block (klauspost/compress s2/reader.go); servers write at most 1 MiB."""

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
# Found by search among the multiples of the polynomial: six terms, all but the first of which are so small
# that a fold takes almost as many bits as its first exponent.
_FOLD, _FOLD_TO = 1285, (40, 38, 19, 8, 0)
_MOST_TABLE_BITS = 1536  # 1400 and 2048 are as fast, 2600 takes longer
_MASK_DELTA = 0xA282EAD8
_MOST_VARINT_BYTES = 5


class BlockError(ValueError):
    """The bytes are no S2 block."""


def decode_block(data: bytes) -> bytes:
    """The plaintext of one block. Raises BlockError; never makes more than `MOST_PLAIN_BYTES`."""
    size, at = _plain_bytes(data)
    plain = decompress(data, at, size)
    return decode_in_python(data) if plain is None else plain


def decode_in_python(data: bytes) -> bytes:
    """The same without a library."""
    size, at = _plain_bytes(data)
    out = bytearray()
    try:
        _decode_elements(data, at, size, out)
    except IndexError:
        raise BlockError("the block ends in the middle of an element") from None
    if len(out) != size:
        raise BlockError(f"the block has {len(out)} bytes of the {size} that it announces")
    return bytes(out)


def masked_checksum(plain: bytes) -> int:
    """The masked CRC-32C of a block's plaintext, as a chunk carries it (framing_format.txt, section 3)."""
    crc = _crc32c()(plain)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def _plain_bytes(data: bytes) -> tuple[int, int]:
    """The size that a block announces, and where its elements begin."""
    size = 0
    for at, byte in enumerate(data[:_MOST_VARINT_BYTES]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            if size > MOST_PLAIN_BYTES:
                raise BlockError(f"the block announces {size} bytes")
            return size, at + 1
    raise BlockError("the block has no length")


# By tag, the length of a copy, and the high bits of the distance of a copy of the first kind.
_LENGTHS = tuple((tag >> 2 & 7) + 4 if tag & 3 == 1 else (tag >> 2) + 1 for tag in range(256))
_HIGH_BITS = tuple((tag & 0xE0) << 3 for tag in range(256))


def _decode_elements(data: bytes, at: int, size: int, out: bytearray) -> None:
    end, distance = len(data), 0
    while at < end:
        tag = data[at]
        kind = tag & 3
        if kind == 0:  # a literal
            stop = at + (tag >> 2) + 2
            if tag >= 240:
                width = (tag >> 2) - 59
                at += width
                stop = at + 2 + int.from_bytes(data[at - width + 1 : at + 1], "little")
            if stop > end:
                raise IndexError
            out += data[at + 1 : stop]
            at = stop
        else:
            length = _LENGTHS[tag]
            if kind == 1:
                near = _HIGH_BITS[tag] | data[at + 1]
                at += 2
                if near:
                    distance = near
                else:  # the distance of the copy before
                    length, at = repeat_length(length - 4, data, at)
            elif kind == 2:
                distance = data[at + 1] | data[at + 2] << 8
                at += 3
            else:
                if at + 5 > end:
                    raise IndexError
                distance = int.from_bytes(data[at + 1 : at + 5], "little")
                at += 5
            here = len(out)
            start = here - distance
            if not 0 <= start < here:
                raise BlockError("a copy from before the start of the block")
            if here + length > size:
                raise BlockError("more bytes than the block announces")
            if distance >= length:
                out += out[start : start + length]
            else:  # a copy of bytes that it writes itself
                out += (out[start:] * (length // distance + 1))[:length]


@cache
def _crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError:
        return crc32c_in_python
    return value  # type: ignore[no-any-return]  # the package has no types


def crc32c_in_python(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4), by folding: 430 MB/s for 64 KiB, 260 for 8 KiB, 80 for 1 KiB; tables
    alone do 25.

    The data is a polynomial, whose first bit has the highest power, and the CRC is its remainder. The CRC's
    polynomial divides x**1285 + x**40 + x**38 + x**19 + x**8 + 1, so the others may replace the first of
    these terms without a change of the remainder. Squaring doubles all exponents. One operation on integers
    replaces thousands of terms.
    """
    size = 8 * len(data)
    if size <= _MOST_TABLE_BITS:
        return _remainder(data, 0xFFFFFFFF)
    number = int.from_bytes(data, "little") ^ 0xFFFFFFFF
    while size > _MOST_TABLE_BITS:
        scale = (size // _FOLD).bit_length() - 1
        if (
            scale and size - (_FOLD << scale) < _FOLD << scale - 1
        ):  # then half of it takes more bits
            scale -= 1
        taken = min((_FOLD - _FOLD_TO[0]) << scale, size - (_FOLD << scale)) & ~7
        first = number & ((1 << taken) - 1)
        number >>= taken
        for power in _FOLD_TO:
            number ^= first << (((_FOLD - power) << scale) - taken)
        size -= taken
    return _remainder(number.to_bytes(size >> 3, "little"), 0)


def _remainder(data: bytes, crc: int) -> int:
    """The CRC after some data, by tables of 16 bits. As arrays they stay in the processor's cache."""
    first, second = _tables()
    whole = len(data) & ~3
    words = array("I", data[:whole])
    if sys.byteorder == "big":
        words.byteswap()
    for word in words:
        crc ^= word
        crc = first[crc & 0xFFFF] ^ second[crc >> 16]
    for byte in data[whole:]:
        crc = second[(crc ^ byte) << 8 & 0xFF00] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


@cache
def _tables() -> tuple[array[int], array[int]]:
    """What 16 bits become when 32 or 16 bits are shifted out after them."""
    byte = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        byte.append(value)
    second = []
    for value in range(1 << 16):
        value = byte[value & 0xFF] ^ value >> 8
        second.append(byte[value & 0xFF] ^ value >> 8)
    first = [second[value & 0xFFFF] ^ value >> 16 for value in second]
    return array("I", first), array("I", second)
