"""S2 blocks element by element, their limits, and the checksum."""

from __future__ import annotations

import builtins
import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.s2 import codec as s2_codec
from dissect.nats.transport.s2 import snappy as s2_snappy
from dissect.nats.transport.s2.codec import (
    MOST_PLAIN_BYTES,
    BlockError,
    crc32c_in_python,
    decode_block,
    decode_in_python,
    masked_checksum,
)
from dissect.nats.transport.s2.kernel import Kernel


def literal(data: bytes) -> bytes:
    size = len(data) - 1
    if size < 60:
        return bytes([size << 2]) + data
    width = (size.bit_length() + 7) // 8
    return bytes([59 + width << 2]) + size.to_bytes(width, "little") + data


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


@pytest.mark.parametrize(
    "elements, plain",
    [
        (literal(b"abc"), b"abc"),
        (literal(b"x" * 60), b"x" * 60),
        (literal(b"x" * 61), b"x" * 61),
        (literal(b"y" * 300), b"y" * 300),
        (literal(b"z" * 70_000), b"z" * 70_000),
        (literal(b"abcd") + b"\x01\x04", b"abcdabcd"),
        (literal(b"ab") + b"\x19\x02", b"ab" + b"ababababab"),
        (literal(b"abcd") + b"\x0e\x04\x00", b"abcdabcd"),
        (literal(b"abcd") + b"\x0f\x04\x00\x00\x00", b"abcdabcd"),
        (literal(b"abcd") + b"\x01\x04" + b"\x01\x00", b"abcdabcd" + b"abcd"),
        (literal(b"ab") + b"\x01\x02" + b"\x11\x00", b"ab" * 7),
        (literal(b"ab") + b"\x01\x02" + b"\x15\x00\x00", b"ab" * 7),
        (literal(b"ab") + b"\x01\x02" + b"\x19\x00\x00\x00", b"ab" * 133),
        (literal(b"ab") + b"\x01\x02" + b"\x1d\x00\x00\x00\x00", b"ab" * 32773),
    ],
)
def test_each_kind_of_element_is_decoded(elements: bytes, plain: bytes) -> None:
    assert decode_block(varint(len(plain)) + elements) == plain
    assert decode_in_python(varint(len(plain)) + elements) == plain


@pytest.mark.parametrize(
    "block, reason",
    [
        (b"", "no length"),
        (b"\x80" * 6, "no length"),
        (varint(MOST_PLAIN_BYTES + 1), "announces"),
        (b"\x05" + literal(b"abc"), "3 bytes of the 5"),
        (b"\x02" + literal(b"abc"), "3 bytes of the 2"),
        (b"\x08" + b"\x01\x04", "before the start"),
        (b"\x08" + literal(b"abcd") + b"\x01\x05", "before the start"),
        (b"\x08" + literal(b"abcd") + b"\x01\x00", "before the start"),
        (b"\x07" + literal(b"abcd") + b"\x01\x04", "more bytes"),
        (b"\x08" + literal(b"abcd") + b"\x01", "middle of an element"),
        (b"\x08" + literal(b"abcd") + b"\x02\x04", "middle of an element"),
        (b"\x08" + literal(b"abcd") + b"\x03\x04\x00", "middle of an element"),
        (b"\x08" + literal(b"abcd") + b"\x01\x04\x15\x00", "middle of an element"),
        (b"\x08\x0cabc", "middle of an element"),
    ],
)
def test_what_is_no_block(block: bytes, reason: str) -> None:
    with pytest.raises(BlockError, match=reason):
        decode_block(block)
    with pytest.raises(BlockError, match=reason):
        decode_in_python(block)


@pytest.mark.parametrize("before", range(60, 70))
def test_a_block_of_many_elements(before: int) -> None:
    """Elements of every kind on both sides of the point where the plaintext is measured."""
    elements, plain = literal(b"x" * before), b"x" * before
    for number in range(8_000):
        text = b"%04d," % number
        elements += literal(text) + b"\x05\x0a" + b"\x0e\x41\x00"
        plain += text
        plain += plain[-10:-5]
        plain += plain[-65:-61]
    assert len(elements) > 65_536
    assert decode_in_python(varint(len(plain)) + elements) == plain
    with pytest.raises(BlockError, match="more bytes"):
        decode_in_python(varint(len(plain) // 2) + elements)


def test_a_bomb_is_not_inflated() -> None:
    """Copies that make 22 times as much as they take, in a block that announces little."""
    block = varint(300) + literal(b"x" * 200) + b"\xfe\x40\x00" * 1_000_000
    tracemalloc.start()
    try:
        with pytest.raises(BlockError, match="more bytes"):
            decode_in_python(block)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@given(st.binary(max_size=200))
def test_any_bytes_are_a_block_or_an_error(data: bytes) -> None:
    try:
        assert len(decode_block(data)) <= MOST_PLAIN_BYTES
    except BlockError:
        pass


@given(st.binary(max_size=300))
def test_tables_and_the_library_agree(data: bytes) -> None:
    google_crc32c = pytest.importorskip("google_crc32c")
    assert crc32c_in_python(data) == google_crc32c.value(data)


def test_the_checksum_of_rfc_3720() -> None:
    """Appendix B.4."""
    assert crc32c_in_python(bytes(32)) == 0x8A9136AA
    assert crc32c_in_python(b"\xff" * 32) == 0x62A8AB43
    assert crc32c_in_python(b"123456789") == 0xE3069283


@pytest.mark.parametrize("size", [127, 128, 129, 130, 200, 1_000, 4_097, 65_536, 300_001])
def test_a_crc_of_many_bytes_is_that_of_its_parts(size: int) -> None:
    """Bytes that are folded, against bytes that tables take one after the other."""
    data = random.Random(size).randbytes(size)
    crc = 0xFFFFFFFF
    for at in range(0, size, 100):
        crc = s2_codec._remainder(data[at : at + 100], crc) ^ 0xFFFFFFFF
    assert crc32c_in_python(data) == crc ^ 0xFFFFFFFF


def test_the_libraries_are_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    block = varint(8) + literal(b"abcd") + b"\x01\x04"
    expected = masked_checksum(b"plain")
    whole = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name in ("google_crc32c", "numba", "pyarrow"):
            raise ImportError(name)
        return whole(name, *args, **kwargs)

    caches = s2_codec._crc32c, s2_snappy._library
    for each in caches:
        each.cache_clear()
    monkeypatch.setattr(builtins, "__import__", without)
    monkeypatch.setattr(s2_codec, "_KERNEL", Kernel(0))
    assert masked_checksum(b"plain") == expected
    assert [decode_block(block) for _ in range(2)] == [b"abcdabcd"] * 2
    assert s2_snappy._library() is None
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()
