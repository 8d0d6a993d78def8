"""S2 blocks and the checksum of their plaintext, as servers write them.

S2 is an extension of Snappy (github.com/klauspost/compress/s2; google/snappy: framing_format.txt). Where the
package `google-crc32c` (extra `s2`) is installed, it computes the checksums.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from functools import cache

MOST_PLAIN_BYTES = (
    4 << 20
)  # of one block (klauspost/compress s2/reader.go); servers write at most 1 MiB

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
_FOLD, _FOLD_TO = 290, (
    136,
    113,
    107,
    32,
    0,
)  # found by search: no exponent but the first is above 145
_MOST_TABLE_BITS = 1024  # half as much and twice as much take longer
_MASK_DELTA = 0xA282EAD8
_MOST_VARINT_BYTES = 5


class BlockError(ValueError):
    """The bytes are no S2 block."""


def decode_block(data: bytes) -> bytes:
    """The plaintext of one block. Raises BlockError; never makes more than `MOST_PLAIN_BYTES`."""
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


def _decode_elements(data: bytes, at: int, size: int, out: bytearray) -> None:
    end, distance = len(data), 0
    while at < end:
        tag = data[at]
        kind = tag & 3
        if kind == 0:  # a literal
            length = tag >> 2
            at += 1
            if length >= 60:
                width = length - 59
                length = int.from_bytes(data[at : at + width], "little")
                at += width
            length += 1
            if at + length > end:
                raise IndexError
            out += data[at : at + length]
            at += length
        else:
            if kind == 1:
                length = tag >> 2 & 7
                near = (tag & 0xE0) << 3 | data[at + 1]
                at += 2
                if near:
                    distance = near
                    length += 4
                else:  # the distance of the copy before
                    length, at = _repeat_length(length, data, at)
            elif kind == 2:
                distance = data[at + 1] | data[at + 2] << 8
                length = (tag >> 2) + 1
                at += 3
            else:
                if at + 5 > end:
                    raise IndexError
                distance = int.from_bytes(data[at + 1 : at + 5], "little")
                length = (tag >> 2) + 1
                at += 5
            start = len(out) - distance
            if start < 0 or not distance:
                raise BlockError("a copy from before the start of the block")
            if len(out) + length > size:
                raise BlockError("more bytes than the block announces")
            if distance >= length:
                out += out[start : start + length]
            else:  # a copy of bytes that it writes itself
                out += (out[start:] * (length // distance + 1))[:length]


def _repeat_length(code: int, data: bytes, at: int) -> tuple[int, int]:
    """The length of a copy with a repeated distance, and where the next element begins."""
    if code < 5:
        return code + 4, at
    width = code - 4
    if at + width > len(data):
        raise IndexError
    base = (8, 260, 65540)[width - 1]
    return base + int.from_bytes(data[at : at + width], "little"), at + width


@cache
def _crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError:
        return crc32c_in_python
    return value  # type: ignore[no-any-return]  # the package has no types


def crc32c_in_python(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4), by folding: 390 MB/s for 64 KiB, 90 for 1 KiB; tables alone do 25.

    The data is a polynomial, whose first bit has the highest power, and the CRC is its remainder. The CRC's
    polynomial divides x**290 + x**136 + x**113 + x**107 + x**32 + 1, so the others may replace the first of
    these terms without a change of the remainder. Squaring doubles all exponents. One operation on integers
    replaces thousands of terms.
    """
    size = 8 * len(data)
    if size <= _MOST_TABLE_BITS:
        return _remainder(data, 0xFFFFFFFF)
    number = int.from_bytes(data, "little") ^ 0xFFFFFFFF
    while size > _MOST_TABLE_BITS:
        scale = (size * 2 // 3 // _FOLD).bit_length() - 1
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
