"""Blocks: bytes as they come, and the error when they stop coming."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from dissect.nats.capture.reader import BLOCK, Blocks, PackedError, pieces_of
from dissect.nats.capture.report import FileReport


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


def test_bytes_put_before_the_next_ones_take_no_place() -> None:
    blocks = Blocks(iter([b"abc", b"def"]), 100)
    assert blocks.fill(2) and blocks.position == 100
    blocks.at += 2
    blocks.put_before(b"12345")
    assert blocks.position == 97 and blocks.fill(9)
    assert blocks.data[blocks.at :] == b"12345cdef"
    blocks.at += 5
    assert blocks.position == 102


def test_the_end_leaves_what_there_was() -> None:
    blocks = Blocks(iter([b"abc"]))
    blocks.at = 0
    assert not blocks.fill(4)
    assert (blocks.data, blocks.fault) == (b"abc", "")
    assert not blocks.fill(4)


def test_a_file_is_read_to_its_end_and_closed() -> None:
    file = io.BytesIO(bytes(BLOCK + 5))
    report = FileReport("t", "t")
    read = [(len(piece), report.position) for piece in pieces_of(file, report)]
    assert read == [(BLOCK, BLOCK), (5, BLOCK + 5)]
    assert file.closed


def test_a_file_is_closed_with_its_pieces() -> None:
    file = io.BytesIO(b"abc")
    pieces = pieces_of(file, FileReport("t", "t"))
    next(pieces)
    pieces.close()
    assert file.closed


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        (OSError(5, "Input/output error"), "it cannot be read further (Input/output error)"),
        (OSError("odd"), "it cannot be read further (odd)"),
        (PackedError("the gzip data is damaged"), "the gzip data is damaged"),
    ],
)
def test_a_medium_that_fails_is_named(error: Exception, fault: str) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"abc"
        raise error

    blocks = Blocks(pieces())
    assert not blocks.fill(4)
    assert (blocks.data, blocks.fault) == (b"abc", fault)
