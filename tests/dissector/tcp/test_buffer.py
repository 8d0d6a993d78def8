"""Bytes that wait: runs without a gap, and how they compare with another copy."""

from __future__ import annotations

from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tcp.buffer import Piece, Run, compare_bytes
from dissect.nats.types import Item

from tests.support.segments import oddities, segment


def piece(start: int, data: bytes) -> Piece:
    return Piece(start, start + len(data), data, segment(start, data))


def run(*texts: bytes) -> Run:
    made = Run(piece(10, texts[0]))
    for text in texts[1:]:
        made.append(piece(made.end, text))
    return made


def test_a_run_is_as_long_as_its_pieces() -> None:
    made = run(b"ab", b"cde")
    assert (made.start, made.end) == (10, 15)


def test_a_run_that_is_moved_takes_its_pieces_along() -> None:
    made = run(b"ab", b"cde")
    made.move(-10)
    assert (made.start, made.end) == (0, 5)
    assert [(each.start, each.end) for each in made.pieces] == [(0, 2), (2, 5)]


def test_only_the_pieces_that_differ_are_named() -> None:
    items: list[Item] = []
    run(b"ab", b"cd", b"ef", b"gh").compare(12, 11, segment(11, b"bcXefZ"), items)
    assert oddities(items) == [(Anomaly.OVERLAP_DIFFERS, 12, 2), (Anomaly.OVERLAP_DIFFERS, 16, 1)]


def test_bytes_that_do_not_meet_do_not_differ() -> None:
    items: list[Item] = []
    compare_bytes(10, b"ab", 12, segment(12, b"XY"), items)
    compare_bytes(14, b"ab", 12, segment(12, b"XY"), items)
    compare_bytes(12, b"XY", 12, segment(12, b"XY"), items)
    assert items == []
    compare_bytes(12, b"Xy", 12, segment(12, b"XY"), items)
    assert oddities(items) == [(Anomaly.OVERLAP_DIFFERS, 12, 2)]
