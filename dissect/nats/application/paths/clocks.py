"""The differences between the clocks of several captures, proven by messages that pass between them.

A message cannot come before it was sent. Of the clocks of two captures, the one where messages come from is
ahead by `ahead` if the smallest latency is shorter than it really is by that: so `ahead` is at least minus
the smallest latency in this direction, and at most the smallest latency in the other one. As NTP does, the
middle of the two is taken, and half of what lies between them is the error. If only one direction is known,
negative latencies prove no more than the smallest correction, and the error is unknown. Clocks for which no
latency is negative are left alone.
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
    """Between which values a clock is ahead of another one; None where nothing limits it."""

    least: int | None
    most: int | None

    @property
    def is_contradiction(self) -> bool:
        """Whether no value fits: the clocks did not keep their distance."""
        return self.least is not None and self.most is not None and self.least > self.most

    def error(self, ahead: int) -> int | None:
        """How far a value may be off."""
        if self.least is None or self.most is None:
            return None
        return max(abs(self.most - ahead), abs(ahead - self.least))

    def chosen(self) -> int:
        """The correction: 0 if it fits."""
        least, most = self.least, self.most
        if (least is None or least <= 0) and (most is None or most >= 0):
            return 0
        if least is None or most is None:
            return least if least is not None else most or 0
        middle = (least + most) // 2
        if self.is_contradiction and abs(middle) <= least - most:
            return 0  # the contradiction is greater than what it would correct
        return middle


@dataclass(slots=True)
class Clocks:
    """The corrections of captures; those without one are right as far as the captures show. `latencies` are
    the smallest ones from capture to capture, by their uncorrected times."""

    corrections: dict[str, Correction]
    latencies: Mapping[Pair, int]

    @classmethod
    def of(cls, latencies: Mapping[Pair, int]) -> Clocks:
        """The clocks that these latencies prove. Of two captures the second one by name is corrected, or
        the smaller group of those whose distances are known already."""
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
            {tap: Correction(-by, error.get(tap, 0)) for tap, by in ahead.items() if by},
            latencies,
        )

    def correction(self, tap: str) -> Correction | None:
        """The correction of a capture; None if it has none."""
        return self.corrections.get(tap)

    def time(self, hop: Hop) -> int:
        """The time of a frame, corrected."""
        correction = self.corrections.get(hop.tap)
        return hop.ts_ns + correction.ns if correction else hop.ts_ns

    def error(self, one: str, other: str) -> int | None:
        """How far the corrected times of two captures may be apart wrongly; None if nobody knows."""
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
    """Pairs of captures, each once: first those of which most is known."""

    def doubt(pair: Pair) -> tuple[bool, int, Pair]:
        back = latencies.get(pair[::-1])
        return back is None, abs(latencies.get(pair, 0) + (back or 0)), pair

    pairs = {min(pair, pair[::-1]) for pair in latencies}
    known = [pair if pair in latencies else pair[::-1] for pair in pairs]
    return sorted(known, key=doubt)


def _between(
    theirs: Iterable[str],
    mine: Iterable[str],
    latencies: Mapping[Pair, int],
    ahead: dict[str, int],
) -> _Bounds:
    """How far the clocks of a group are ahead of those of another one."""
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
