"""Machine code for S2 blocks: it makes of them what Python makes of them, and stays in its arrays."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.s2 import codec as s2_codec
from dissect.nats.transport.s2.codec import BlockError, decode_block, decode_in_python
from dissect.nats.transport.s2.kernel import Kernel, decode_elements, load

from tests.dissector.fuzzing.layers import blocks

numba = pytest.importorskip("numba")

ELEMENT = st.one_of(
    st.binary(min_size=1, max_size=60).map(lambda data: bytes([len(data) - 1 << 2]) + data),
    st.binary(min_size=61, max_size=90).map(lambda data: bytes([60 << 2, len(data) - 1]) + data),
    st.tuples(st.integers(0, 7), st.integers(0, 90)).map(
        lambda pair: bytes([pair[0] << 2 | 1, pair[1]])
    ),
    st.tuples(st.integers(0, 63), st.integers(0, 300)).map(
        lambda pair: bytes([pair[0] << 2 | 2]) + pair[1].to_bytes(2, "little")
    ),
    st.tuples(st.integers(0, 63), st.integers(0, 300)).map(
        lambda pair: bytes([pair[0] << 2 | 3]) + pair[1].to_bytes(4, "little")
    ),
    st.binary(min_size=1, max_size=5),
)
Decode = Callable[[bytes, int, int], bytes | None]


def interpreted(block: bytes, at: int, size: int) -> bytes | None:
    """The same function, as Python runs it: out of range is an IndexError."""
    out = bytearray(size)
    return bytes(out) if decode_elements(block, at, out) == size else None


@pytest.fixture(scope="module")
def checked() -> Decode:
    """The machine code, which raises IndexError if it leaves an array."""
    np = pytest.importorskip("numpy")
    decode = numba.njit(boundscheck=True)(decode_elements)

    def decode_checked(block: bytes, at: int, size: int) -> bytes | None:
        out = np.empty(size, np.uint8)
        made = decode(np.frombuffer(block, np.uint8), at, out)
        return out.tobytes() if made == size else None

    return decode_checked


def expected(block: bytes) -> bytes | None:
    try:
        return decode_in_python(block)
    except BlockError:
        return None


def check(decode: Decode, block: bytes) -> None:
    try:
        size, at = s2_codec._plain_bytes(block)
    except BlockError:
        return
    assert decode(block, at, size) == expected(block)


def test_the_kernel_decodes_blocks_of_captures_as_python_does(checked: Decode) -> None:
    compiled = load()
    assert compiled
    for block in blocks():
        for decode in (compiled, checked, interpreted):
            check(decode, block)
            assert expected(block)


@given(st.lists(ELEMENT, max_size=12), st.integers(0, 2000))
def test_the_kernel_treats_any_elements_as_python_does(
    checked: Decode, elements: list[bytes], size: int
) -> None:
    body = b"".join(elements)
    out = bytearray(1 << 20)
    whole = decode_elements(body, 0, out)
    for each in {size, max(whole, 0)}:
        block = bytes([each & 0x7F | 0x80, each >> 7 & 0x7F | 0x80, each >> 14]) + body
        check(checked, block)
        check(interpreted, block)


def test_damaged_blocks_stay_within_their_arrays(checked: Decode) -> None:
    rng = random.Random(4)
    for _ in range(20_000):
        block = bytearray(rng.choice(blocks()))
        for _ in range(rng.randrange(1, 4)):
            block[rng.randrange(len(block))] = rng.choice((0, 1, 0xFF, rng.randrange(256)))
        check(checked, bytes(block[: rng.choice((len(block), rng.randrange(len(block)))) or 1]))


def test_it_is_loaded_when_a_process_has_decoded_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    block = b"\x08\x0cabcd\x01\x04"
    kernel = Kernel(loaded_after=20)
    monkeypatch.setattr(s2_codec, "_KERNEL", kernel)
    found = []
    for _ in range(4):
        found.append(kernel(block, 1, 8))
        assert decode_block(block) == b"abcdabcd"
    assert found == [None, None, b"abcdabcd", b"abcdabcd"]
    assert kernel(block[:-1], 1, 8) is None
    with pytest.raises(BlockError, match="in the middle of an element"):
        decode_block(block[:-1])


def test_without_a_folder_for_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = numba.njit

    def njit(*functions: Any, cache: bool = False, **options: Any) -> Any:
        """Modules that numba imports when it first compiles use `njit` in other ways, too."""
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return whole(*functions, **options)

    monkeypatch.setattr(numba, "njit", njit)
    decode = load()
    assert decode and decode(b"\x08\x0cabcd\x01\x04", 1, 8) == b"abcdabcd"
