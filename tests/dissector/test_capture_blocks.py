"""Blocks: bytes as they come, and what is said when they stop coming."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissect.nats.capture.blocks import BLOCK, Blocks, gunzip, pieces_of


def cut(data: bytes, size: int) -> Iterator[bytes]:
    return (data[at : at + size] for at in range(0, len(data), size))


def test_no_more_is_read_than_is_needed() -> None:
    asked = []

    def pieces() -> Iterator[bytes]:
        for piece in (b"abc", b"def", b"ghi"):
            asked.append(piece)
            yield piece

    blocks = Blocks(pieces())
    assert blocks.fill(2)
    assert (blocks.data, asked) == (b"abc", [b"abc"])
    assert blocks.fill(3)
    assert asked == [b"abc"]
    blocks.at = 2
    assert blocks.fill(4)
    assert (blocks.data, blocks.at, blocks.position) == (b"cdef", 0, 2)


def test_the_end_leaves_what_there_was() -> None:
    blocks = Blocks(iter([b"abc"]))
    blocks.at = 0
    assert not blocks.fill(4)
    assert (blocks.data, blocks.fault) == (b"abc", "")
    assert not blocks.fill(4)


def test_a_file_is_read_to_its_end_and_closed() -> None:
    file = io.BytesIO(bytes(BLOCK + 5))
    assert [len(piece) for piece in pieces_of(file)] == [BLOCK, 5]
    assert file.closed


def test_a_file_is_closed_with_its_pieces() -> None:
    file = io.BytesIO(b"abc")
    pieces = pieces_of(file)
    next(pieces)
    pieces.close()
    assert file.closed


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OSError(5, "Input/output error"), "it cannot be read further (Input/output error)"),
        (OSError("odd"), "it cannot be read further (odd)"),
    ],
)
def test_a_medium_that_fails_is_named(error: OSError, fault: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise error

    blocks = Blocks(pieces())
    assert not blocks.fill(4)
    assert (blocks.data, blocks.fault) == (b"abc", fault)


@settings(deadline=None)
@given(st.binary(max_size=500), st.integers(1, 50))
def test_gzip_is_unpacked_however_it_is_cut(data: bytes, size: int) -> None:
    packed = gzip.compress(data[:100]) + gzip.compress(data[100:]) + bytes(9)
    assert b"".join(gunzip(cut(packed, size))) == data


def test_gzip_unpacks_a_block_at_a_time() -> None:
    sizes = [len(piece) for piece in gunzip(iter([gzip.compress(bytes(5 * BLOCK))]))]
    assert max(sizes) <= BLOCK
    assert sum(sizes) == 5 * BLOCK


@pytest.mark.parametrize("kept", [2, 15, -9, -1])
def test_gzip_that_ends_early_is_named(kept: int) -> None:
    blocks = Blocks(gunzip(iter([gzip.compress(b"abc" * 100)[:kept]])))
    assert not blocks.fill(1000)
    assert blocks.fault == "the gzip data ends early"


def test_gzip_that_is_damaged_keeps_what_was_before() -> None:
    blocks = Blocks(gunzip(iter([gzip.compress(b"abc" * 100) + b"garbage"])))
    assert not blocks.fill(1000)
    assert blocks.data == b"abc" * 100
    assert blocks.fault == "the gzip data is damaged"
