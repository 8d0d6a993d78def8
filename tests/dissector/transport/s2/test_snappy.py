"""S2 blocks rewritten for a Snappy library: what it makes of them is what Python makes of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.s2.codec import BlockError, decode_in_python
from dissect.nats.transport.s2.snappy import decompress, repeat_length, snappy_block

from tests.dissector.fuzzing.layers import blocks

LITERAL = b"\x0cabcd"


@pytest.mark.parametrize(
    "elements, snappy",
    [
        (LITERAL, LITERAL),
        (LITERAL + b"\x01\x04\x01\x00", LITERAL + b"\x01\x04" + b"\x0e\x04\x00"),
        (LITERAL + b"\x01\x04\x00x\x05\x00", LITERAL + b"\x01\x04\x00x" + b"\x12\x04\x00"),
        (LITERAL + b"\x0e\x04\x00\x01\x00", LITERAL + b"\x0e\x04\x00" + b"\x0e\x04\x00"),
        (
            LITERAL + b"\x0f\x04\x00\x00\x00\x01\x00",
            LITERAL + b"\x0f\x04\x00\x00\x00" + b"\x0f\x04\x00\x00\x00",
        ),
        (
            LITERAL + b"\x01\x04\x15\x00\x79",  # 129 bytes
            LITERAL + b"\x01\x04" + b"\xfe\x04\x00" * 2 + b"\x02\x04\x00",
        ),
    ],
)
def test_a_repeated_distance_is_written_out(elements: bytes, snappy: bytes) -> None:
    assert snappy_block(b"\x7f" + elements, 1, 200) == b"\x7f" + snappy


@pytest.mark.parametrize("code, more, length", [(0, b"", 4), (4, b"", 8), (5, b"\x01", 9)])
def test_the_length_of_a_repeated_copy(code: int, more: bytes, length: int) -> None:
    assert repeat_length(code, b"xx" + more, 2) == (length, 2 + len(more))


def test_real_blocks_are_the_same() -> None:
    found = blocks()
    assert len(found) >= 20
    for block in found:
        plain = decode_in_python(block)
        at = next(at for at, byte in enumerate(block, 1) if byte < 0x80)
        assert decompress(block, at, len(plain)) == plain


@pytest.mark.parametrize(
    "elements",
    [
        b"\x01\x00",  # nothing to repeat
        LITERAL + b"\x01\x04\x1d\x00\xff\xff\xff",  # a copy of 16 MiB
        LITERAL + b"\x01",
        b"\xf0\xff",
    ],
)
def test_a_damaged_block_is_left_to_python(elements: bytes) -> None:
    assert decompress(b"\x10" + elements, 1, 16) is None


@given(
    st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=60).map(lambda data: bytes([len(data) - 1 << 2]) + data),
            st.tuples(st.integers(0, 7), st.integers(0, 40)).map(
                lambda pair: bytes([pair[0] << 2 | 1, pair[1]])
            ),
            st.binary(min_size=1, max_size=5),
        ),
        max_size=12,
    )
)
def test_any_elements_become_the_same(elements: list[bytes]) -> None:
    body = b"".join(elements)
    for size in range(200):
        try:
            plain = decode_in_python(bytes([size & 0x7F | 0x80, size >> 7]) + body)
        except BlockError:
            continue
        found = decompress(bytes([size & 0x7F | 0x80, size >> 7]) + body, 2, size)
        assert found in (plain, None)
