"""Evidence from unique messages that helps to match others: smallest latencies, and anchors.

A latency is the time from the frame that brought a message to a server to a frame in which that server sent
it on, if the two are in different captures. An anchor is a message that a publisher sent and a line carried:
because a line keeps the order of a publisher's messages, those before the anchor on one side are before it on
the other. Among anchors with the same gaps before them, the first and the last suffice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

from ...schema.declaration import LayerItem, Work
from .facts import GAPS, Facts
from .hops import Hop, Line, SessionSide
from .items import ANCHORS, LATENCIES, Match, key_of

# Limits on pairs of captures and on anchors, which are held in memory. Beyond them, messages remain unproven.
_PAIRS = 1 << 16
_ANCHORS = 1 << 18

Pair = tuple[str, str]
GapCounts = tuple[int, int]


class Anchor(NamedTuple):
    """The numbers of the frames in which a message was published, and carried on a line."""

    published: int
    carried: int


class Interval(NamedTuple):
    """Consecutive messages of a publisher on a line: those after `start` and before `stop`. `is_whole` is
    true if no byte is missing between the two on either side."""

    start: Anchor
    stop: Anchor
    is_whole: bool


_BEGIN, _END = Anchor(0, 0), Anchor(1 << 63, 1 << 63)


class HopEvidence:
    """Collects evidence from unique messages; `items` returns it for LATENCIES and ANCHORS."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._latencies: dict[Pair, int] = {}
        self._anchors: dict[tuple[SessionSide, Line], dict[GapCounts, tuple[Anchor, Anchor]]] = {}
        self._count = 0

    def add(self, publication: Hop, matches: Sequence[Match]) -> None:
        """Adds a unique message and its hops. Hops of JetStream keep no order, so they are not anchors."""
        facts = self._facts
        if len(facts.taps) > 1:
            self._add_latencies(publication, [match.hop for match in matches])
        for hop, *_ in matches:
            if hop.place is None:
                anchor = Anchor(publication.number, hop.number)
                segment = (
                    facts.gaps_before(publication.side, publication.number),
                    facts.gaps_before(hop.side, hop.number),
                )
                self._anchor((publication.side, hop.line), segment, anchor)

    def _anchor(self, pair: tuple[SessionSide, Line], segment: GapCounts, anchor: Anchor) -> None:
        known = self._anchors.setdefault(pair, {})
        ends = known.get(segment)
        if ends is not None:
            known[segment] = min(ends[0], anchor), max(ends[1], anchor)
        elif self._count < _ANCHORS:
            self._count += 1
            known[segment] = anchor, anchor

    def _add_latencies(self, publication: Hop, hops: list[Hop]) -> None:
        facts = self._facts
        entries = facts.entries(publication, hops)
        for hop in hops:
            came = entries.get(facts.sender(hop) or "", [publication])
            if len(came) == 1 and came[0].tap != hop.tap:
                pair = came[0].tap, hop.tap
                latency = hop.ts_ns - came[0].ts_ns
                self._latencies[pair] = min(latency, self._latencies.get(pair, latency))

    def items(self) -> Iterator[LayerItem]:
        """The items with all evidence."""
        for (source, target), latency in self._latencies.items():
            yield LayerItem(LATENCIES, key_of(source, target), 0, "", 0, (source, target, latency))
        for (side, line), segments in self._anchors.items():
            for segment, (first, last) in segments.items():
                body = side, line, segment, tuple(first), tuple(last)
                yield LayerItem(ANCHORS, key_of(*side, *line), 0, "", 0, body)


def latencies(work: Work) -> dict[Pair, int]:
    """The smallest latency from each capture to each other one."""
    found: dict[Pair, int] = {}
    for item in work.first(LATENCIES, _PAIRS):
        source, target, latency = cast("tuple[str, str, int]", item.body)
        found[source, target] = min(latency, found.get((source, target), latency))
    return found


class Anchors:
    """The anchors of all pairs of a publisher and a line."""

    def __init__(self, items: Sequence[LayerItem] = ()) -> None:
        self._known: dict[tuple[SessionSide, Line], dict[GapCounts, tuple[Anchor, Anchor]]] = {}
        for item in items:
            side, line, segment, first, last = cast(
                "tuple[SessionSide, Line, GapCounts, tuple[int, int], tuple[int, int]]", item.body
            )
            known = self._known.setdefault((side, line), {})
            ends = known.get(segment, (Anchor(*first), Anchor(*last)))
            known[segment] = min(ends[0], Anchor(*first)), max(ends[1], Anchor(*last))

    @classmethod
    def of(cls, work: Work) -> Anchors:
        """The anchors in the items of ANCHORS; if there are too many, the first ones."""
        return cls(work.first(ANCHORS, _ANCHORS))

    def intervals(self, facts: Facts, side: SessionSide, line: Line) -> list[Interval]:
        """The intervals into which anchors and gaps cut the messages of a publisher on a line. Anchors that
        contradict each other prove nothing."""
        known = self._known.get((side, line), {})
        segments = sorted(known.items(), key=lambda each: each[1])
        whole = not facts.is_torn(side) and not facts.is_torn(line[:2])
        if whole or not segments:
            return [Interval(_BEGIN, _END, whole)]
        found = []
        before, gaps = _BEGIN, (0, 0)
        for segment, (first, last) in segments:
            if not before <= first or first.carried < before.carried:
                return [Interval(_BEGIN, _END, False)]
            is_counted = max(segment) < GAPS
            found.append(Interval(before, first, is_counted and gaps == segment))
            found.append(Interval(first, last, is_counted))
            before, gaps = last, segment
        after = len(facts.gaps.get(side, ())), len(facts.gaps.get(line[:2], ()))
        return [*found, Interval(before, _END, gaps == after and max(after) < GAPS)]
