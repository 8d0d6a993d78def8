"""The out-of-order buffer of reassembly: bytes that wait for earlier ones, sorted by stream position."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from itertools import islice
from operator import attrgetter
from typing import NamedTuple

from ..schema.anomalies import Anomaly
from ..types import DAMAGED, Item, Oddity, Segment

end_of = attrgetter("end")
_AT_ONCE_NS = 1_000_000  # shorter than any time-out of a retransmission


class Piece(NamedTuple):
    """Waiting bytes of `segment` between the positions `start` and `end`. `payload` has the captured ones."""

    start: int
    end: int
    payload: bytes
    segment: Segment

    def part(self, start: int, end: int) -> Piece:
        """The bytes between two positions."""
        data = self.payload[start - self.start : end - self.start]
        return Piece(start, end, data, self.segment)


class Run:
    """Waiting bytes without a gap."""

    __slots__ = ("start", "end", "pieces")

    def __init__(self, piece: Piece) -> None:
        self.start = piece.start
        self.end = piece.end
        self.pieces = [piece]

    @classmethod
    def of(cls, pieces: list[Piece]) -> Run:
        """A run of these pieces, which follow one another."""
        run = cls(pieces[0])
        run.pieces, run.end = pieces, pieces[-1].end
        return run

    def without(self, piece: Piece) -> list[Run]:
        """The runs that are left without one of the pieces."""
        at = bisect_right(self.pieces, piece.start, key=end_of)
        return [Run.of(part) for part in (self.pieces[:at], self.pieces[at + 1 :]) if part]

    def use_damaged(self, items: list[Item]) -> None:
        """Makes the first piece, which is damaged, one like others, and reports this."""
        piece = self.pieces[0]
        segment = replace(piece.segment, flags=piece.segment.flags & ~DAMAGED)
        report(Anomaly.BAD_CHECKSUM, piece.start, piece.end, segment, items)
        self.pieces[0] = piece._replace(segment=segment)

    def append(self, piece: Piece) -> None:
        """Adds the piece that follows the last one."""
        self.pieces.append(piece)
        self.end = piece.end

    def move(self, by: int) -> None:
        """Shifts all positions by `by`. Called when the start of the stream becomes known."""
        self.start += by
        self.end += by
        self.pieces = [
            piece._replace(start=piece.start + by, end=piece.end + by) for piece in self.pieces
        ]

    def at(self, position: int) -> Piece:
        """The piece that has the byte at a position."""
        return self.pieces[bisect_right(self.pieces, position, key=end_of)]

    def compare(self, start: int, origin: int, segment: Segment, items: list[Item]) -> None:
        """Reports where a segment at position `origin` differs from these bytes, from position `start` on."""
        captured = origin + len(segment.payload)
        index = bisect_right(self.pieces, start, key=end_of)
        while index < len(self.pieces) and self.pieces[index].start < captured:
            compare_bytes(
                self.pieces[index].start, self.pieces[index].payload, origin, segment, items
            )
            index += 1


def damaged_between(runs: list[Run], start: int, end: int) -> list[Piece]:
    """The damaged pieces that have bytes between two positions."""
    found: list[Piece] = []
    for run in islice(runs, bisect_right(runs, start, key=end_of), None):
        if run.start >= end:
            break
        for piece in islice(run.pieces, bisect_right(run.pieces, start, key=end_of), None):
            if piece.start >= end:
                break
            if piece.segment.flags & DAMAGED:
                found.append(piece)
    return found


def is_copy(segment: Segment, first: Segment) -> bool:
    """Whether a segment with bytes that `first` has, or that come before its bytes, is no retransmission: a
    mirror made a copy of the packet. A copy is on another path, or it is the same packet again, with the same
    checksum, sooner than its sender would repeat it."""
    if segment.path != first.path:
        return True
    same = segment.seq == first.seq and segment.checksum == first.checksum is not None
    return same and 0 <= segment.ts_ns - first.ts_ns < _AT_ONCE_NS


def report(anomaly: Anomaly, start: int, end: int, segment: Segment, items: list[Item]) -> None:
    """Adds an oddity about the bytes from `start` to `end`, which `segment` showed."""
    items.append(
        Oddity(segment.ts_ns, segment.number, segment.capture, start, end - start, anomaly)
    )


def compare_bytes(at: int, known: bytes, origin: int, segment: Segment, items: list[Item]) -> None:
    """Reports where a segment at position `origin` differs from the bytes `known`, which begin at `at`."""
    start = max(at, origin)
    end = min(at + len(known), origin + len(segment.payload))
    if (
        start < end
        and known[start - at : end - at] != segment.payload[start - origin : end - origin]
    ):
        report(Anomaly.OVERLAP_DIFFERS, start, end, segment, items)
