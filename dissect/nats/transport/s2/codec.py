"""S2 blocks and the checksum of their plaintext, as servers write them.

S2 is an extension of Snappy (github.com/klauspost/compress/s2; google/snappy: framing_format.txt). With the
extra `s2`, `numba` compiles machine code that decodes blocks, once there are many, and `google-crc32c`
computes the checksums. Until then, `pyarrow` decodes blocks. Pure Python spends 250 ns on an element, a third
of this on copying its bytes, and a fifth of the total time on checksums.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable
from functools import cache

from .kernel import Kernel
from .snappy import decompress, repeat_length

MOST_PLAIN_BYTES = 4 << 20
"""The largest plaintext of one block (klauspost/compress s2/reader.go); servers write at most 1 MiB."""

_POLYNOMIAL = 0x82F63B78  # CRC-32C, bits reversed
# The exponents of a multiple of the polynomial, found by search. It has only six terms, and all exponents but
# the first are so small that one fold removes almost as many bits as the first exponent.
_FOLD, _FOLD_TO = 1285, (40, 38, 19, 8, 0)
_MOST_TABLE_BITS = 1536  # 1400 and 2048 are as fast, 2600 takes longer
_MASK_DELTA = 0xA282EAD8
_KERNEL = Kernel()
_MOST_VARINT_BYTES = 5


class BlockError(ValueError):
    """The bytes are not an S2 block."""


def decode_block(data: bytes) -> bytes:
    """The plaintext of one block, at most `MOST_PLAIN_BYTES`. Raises BlockError."""
    size, at = _plain_bytes(data)
    for decode in (_KERNEL, decompress):
        plain = decode(data, at, size)
        if plain is not None:
            return plain
    return decode_in_python(data)


def decode_in_python(data: bytes) -> bytes:
    """The same as `decode_block`, in pure Python."""
    size, at = _plain_bytes(data)
    try:
        out = _decode_elements(data, at, size)
    except IndexError:
        raise BlockError("the block ends in the middle of an element") from None
    if len(out) != size:
        raise BlockError(f"the block has {len(out)} bytes of the {size} that it announces")
    return bytes(out)


def masked_checksum(plain: bytes) -> int:
    """The masked CRC-32C of a block's plaintext, as it is in a chunk (framing_format.txt, section 3)."""
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


# By tag: the bytes of a short literal, else 0; the length of a copy; the high bits of the distance of a copy
# of the first kind.
_LITERALS = tuple((tag >> 2) + 1 if tag & 3 == 0 and tag < 240 else 0 for tag in range(256))
_LENGTHS = tuple((tag >> 2 & 7) + 4 if tag & 3 == 1 else (tag >> 2) + 1 for tag in range(256))
_HIGH_BITS = tuple((tag & 0xE0) << 3 for tag in range(256))
# The size of the plaintext is checked after this many bytes of a block: copies make at most 22 times as much.
_MEASURED_BYTES = 1 << 16


def _decode_elements(data: bytes, at: int, size: int) -> bytearray:
    """The plaintext of the elements from `at` on. Most of them are short literals, with one or more copies
    after each. `known` is an earlier `len(out)`: a copy with a distance up to `known` certainly begins within
    the plaintext, and does not need the current `len(out)`."""
    out, known, distance, end = bytearray(), 0, 0, len(data)
    literals, lengths, high_bits = _LITERALS, _LENGTHS, _HIGH_BITS
    while at < end:
        stop = min(at + _MEASURED_BYTES, end)
        if len(out) > size:
            raise BlockError("more bytes than the block announces")
        while at < stop:
            tag = data[at]
            if count := literals[tag]:
                begin = at + 1
                at = begin + count
                out += data[begin:at]
                if at >= stop:
                    break
                tag = data[at]
            kind = tag & 3
            length = lengths[tag]
            if kind == 1:
                if near := high_bits[tag] | data[at + 1]:
                    distance = near
                    at += 2
                else:  # the same distance as in the copy before
                    length, at = repeat_length(length - 4, data, at + 2)
            elif kind == 2:
                distance = data[at + 1] | data[at + 2] << 8
                at += 3
            elif kind == 3:
                distance = int.from_bytes(data[at + 1 : at + 5], "little")
                at += 5
            else:  # a literal after a literal, or a long one
                begin, at = _literal(data, at)
                out += data[begin:at]
                continue
            if length < distance <= known:
                out += out[-distance : length - distance]
            else:
                known = len(out)
                out += _copied(out, distance, length, size)
    if at > end:
        raise IndexError
    return out


def _literal(data: bytes, at: int) -> tuple[int, int]:
    """Where the bytes of a literal begin and end."""
    count = data[at] >> 2
    at += 1
    if count < 60:
        return at, at + count + 1
    begin = at + count - 59
    return begin, begin + int.from_bytes(data[at:begin], "little") + 1


def _copied(out: bytearray, distance: int, length: int, size: int) -> bytearray:
    """The bytes that a copy adds, after all checks. A copy may repeat bytes that it adds itself."""
    start = len(out) - distance
    if not 0 <= start < len(out):
        raise BlockError("a copy from before the start of the block")
    if len(out) + length > size:
        raise BlockError("more bytes than the block announces")
    if distance >= length:
        return out[start : start + length]
    return (out[start:] * (length // distance + 1))[:length]


@cache
def _crc32c() -> Callable[[bytes], int]:
    try:
        from google_crc32c import value
    except ImportError:
        return crc32c_in_python
    return value  # type: ignore[no-any-return]  # the package has no types


def crc32c_in_python(data: bytes) -> int:
    """CRC-32C (RFC 3720, appendix B.4), by folding: 430 MB/s for 64 KiB, 260 for 8 KiB, 80 for 1 KiB; tables
    alone reach 25.

    The data is a polynomial, whose first bit has the highest power, and the CRC is its remainder. The CRC's
    polynomial divides x**1285 + x**40 + x**38 + x**19 + x**8 + 1, so the other terms can replace the first
    one without changing the remainder. Squaring doubles all exponents. One operation on integers replaces
    thousands of terms.
    """
    size = 8 * len(data)
    if size <= _MOST_TABLE_BITS:
        return _remainder(data, 0xFFFFFFFF)
    number = int.from_bytes(data, "little") ^ 0xFFFFFFFF
    while size > _MOST_TABLE_BITS:
        scale = (size // _FOLD).bit_length() - 1
        if scale and size - (_FOLD << scale) < _FOLD << scale - 1:
            scale -= 1  # a fold of half the size removes more bits
        taken = min((_FOLD - _FOLD_TO[0]) << scale, size - (_FOLD << scale)) & ~7
        first = number & ((1 << taken) - 1)
        number >>= taken
        for power in _FOLD_TO:
            number ^= first << (((_FOLD - power) << scale) - taken)
        size -= taken
    return _remainder(number.to_bytes(size >> 3, "little"), 0)


def _remainder(data: bytes, crc: int) -> int:
    """The CRC after some data, by tables for 16 bits. As arrays, they stay in the processor's cache."""
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
    """For all values of 16 bits: what they become after a shift by 32 bits, and after a shift by 16 bits."""
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
