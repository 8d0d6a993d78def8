"""The differences between the clocks of several captures, proven by messages that pass between them.

A message cannot arrive before it was sent. If the source's clock is ahead of the target's by `ahead`,
messages in this direction seem faster by `ahead`, and messages in the other direction slower. So `ahead` is
at least minus the smallest latency in this direction, and at most the smallest latency in the other. As in
NTP, the correction is the middle between these bounds, and the error is half their distance. If only one
direction is known, negative latencies prove only the smallest possible correction, and the error is unknown.
Clocks without negative latencies are not corrected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from .evidence import Pair
from .hops import Hop


class Correction(NamedTuple):
    """The nanoseconds to add to the times of a capture, and their largest error; None if it is unknown."""

    ns: int
    error_ns: int | None


class _Bounds(NamedTuple):
    """The bounds on how far one clock is ahead of another; None if there is no bound."""

    least: int | None
    most: int | None

    @property
    def is_contradiction(self) -> bool:
        """Whether no value is within both bounds, because the difference between the clocks changed."""
        return self.least is not None and self.most is not None and self.least > self.most

    def error(self, ahead: int) -> int | None:
        """The largest error of a value; None if it is unknown."""
        if self.least is None or self.most is None:
            return None
        return max(abs(self.most - ahead), abs(ahead - self.least))

    def chosen(self) -> int:
        """The value to correct by: 0 if that is within the bounds."""
        least, most = self.least, self.most
        if (least is None or least <= 0) and (most is None or most >= 0):
            return 0
        if least is None or most is None:
            return least if least is not None else most or 0
        middle = (least + most) // 2
        if self.is_contradiction and abs(middle) <= least - most:
            return 0  # the contradiction is greater than the correction
        return middle


@dataclass(slots=True)
class Clocks:
    """The corrections of the captures' clocks. A capture without one is right as far as the messages show.
    `latencies` has the smallest latency from capture to capture, by uncorrected times."""

    corrections: dict[str, Correction]
    latencies: Mapping[Pair, int]

    @classmethod
    def of(cls, latencies: Mapping[Pair, int]) -> Clocks:
        """Corrects clocks as far as these latencies prove. Each step joins two groups of captures with known
        differences: it corrects the smaller group or, if they are equal, the second one by name."""
        ahead = {tap: 0 for pair in latencies for tap in pair}
        error: dict[str, int | None] = {}
        groups = {tap: {tap} for tap in ahead}
        for one, other in _best_first(latencies):
            mine, theirs = groups[one], groups[other]
            if mine is theirs:
                continue
            if (len(mine), min(theirs)) < (len(theirs), min(mine)):
                mine, theirs = theirs, mine
            bounds = _between(theirs, mine, latencies, ahead)
            shift = bounds.chosen()
            if shift:
                for tap in theirs:
                    ahead[tap] += shift
                    error[tap] = _sum(error.get(tap, 0), bounds.error(shift))
            mine |= theirs
            for tap in theirs:
                groups[tap] = mine
        return cls(
            {tap: Correction(-by, error.get(tap, 0)) for tap, by in ahead.items() if by}, latencies
        )

    def correction(self, tap: str) -> Correction | None:
        """The correction of a capture; None if it has none."""
        return self.corrections.get(tap)

    def time(self, hop: Hop) -> int:
        """The corrected time of a frame."""
        correction = self.corrections.get(hop.tap)
        return hop.ts_ns + correction.ns if correction else hop.ts_ns

    def error(self, one: str, other: str) -> int | None:
        """The largest error in the difference of corrected times of two captures; None if it is unknown."""
        if one == other:
            return 0
        shift = self._shift(other) - self._shift(one)
        there, back = self.latencies.get((one, other)), self.latencies.get((other, one))
        if there is None or back is None:
            return None
        return max(abs(there + shift), abs(back - shift))

    def _shift(self, tap: str) -> int:
        correction = self.corrections.get(tap)
        return correction.ns if correction else 0


def _best_first(latencies: Mapping[Pair, int]) -> list[Pair]:
    """Pairs of captures, each once: those with the most certain difference first."""

    def doubt(pair: Pair) -> tuple[bool, int, Pair]:
        back = latencies.get(pair[::-1])
        return back is None, abs(latencies.get(pair, 0) + (back or 0)), pair

    pairs = {min(pair, pair[::-1]) for pair in latencies}
    known = [pair if pair in latencies else pair[::-1] for pair in pairs]
    return sorted(known, key=doubt)


def _between(
    theirs: Iterable[str], mine: Iterable[str], latencies: Mapping[Pair, int], ahead: dict[str, int]
) -> _Bounds:
    """How far the clocks of the captures in `theirs` are ahead of those in `mine`."""
    least: int | None = None
    most: int | None = None
    mine = set(mine)
    others = set(theirs)
    for (source, target), latency in latencies.items():
        right = latency + ahead[source] - ahead[target]
        if source in others and target in mine:
            least = -right if least is None else max(least, -right)
        elif source in mine and target in others:
            most = right if most is None else min(most, right)
    return _Bounds(least, most)


def _sum(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other
