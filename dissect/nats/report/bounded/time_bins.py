"""Numbers by key over time, in at most `LIMIT` bins, which become wider as the time span grows.

Each width divides the next one, and bins begin at multiples of their width since the epoch, so the bins do
not depend on the order in which numbers are added.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import chain, count
from operator import add
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

LIMIT = 600
"""The most bins: more would be thinner than two pixels on most screens."""

_MS = 10**6
_SECOND = 10**9
_DAY = 86_400 * _SECOND
_FIXED = (
    *(_MS * width for width in (1, 2, 10, 20, 100, 200)),
    *(_SECOND * width for width in (1, 2, 10, 20, 60, 120, 600, 1200, 3600, 7200, 21_600)),
)


def _wider(width_ns: int) -> int:
    days = (_DAY * int(10**power) for power in count())
    return next(width for width in chain(_FIXED, days) if width > width_ns)


class TimeBins(Generic[Key]):
    """Numbers by time and key. `combine` makes one number of two in the same bin: their sum, or `max`."""

    def __init__(self, combine: Callable[[int, int], int] = add) -> None:
        self._combine = combine
        self._bins: dict[int, dict[Key, int]] = {}
        self._first = self._last = 0
        self.width_ns = _FIXED[0]

    def add(self, ts_ns: int, key: Key, number: int = 1) -> None:
        """Adds a number."""
        place = ts_ns // self.width_ns
        found = self._bins.get(place)
        if found is None:
            found = self._new(ts_ns)
        old = found.get(key)
        found[key] = number if old is None else self._combine(old, number)

    def merge(self, other: TimeBins[Key]) -> None:
        """Adds the numbers of another one."""
        while self.width_ns < other.width_ns:
            self._widen()
        for place, numbers in other._bins.items():
            for key, number in numbers.items():
                self.add(place * other.width_ns, key, number)

    def renamed(self, name: Callable[[Key], Key]) -> TimeBins[Key]:
        """The same numbers under other keys; those that get the same key are combined."""
        made: TimeBins[Key] = TimeBins(self._combine)
        made.width_ns = self.width_ns
        for start_ns, numbers in self.bins:
            for key, number in numbers.items():
                made.add(start_ns, name(key), number)
        return made

    @property
    def bins(self) -> list[tuple[int, dict[Key, int]]]:
        """The bins that are not empty, in order: the time at which each begins, and its numbers."""
        return [(place * self.width_ns, self._bins[place]) for place in sorted(self._bins)]

    def series(self, key: Key) -> tuple[list[int], list[int]]:
        """The bins that have a number for the key: the times at which they begin, and the numbers."""
        found = [(start, numbers[key]) for start, numbers in self.bins if key in numbers]
        return [start for start, _ in found], [number for _, number in found]

    @property
    def keys(self) -> list[Key]:
        """All keys, in order."""
        return sorted({key for numbers in self._bins.values() for key in numbers}, key=str)

    def _new(self, ts_ns: int) -> dict[Key, int]:
        if not self._bins:
            self._first = self._last = ts_ns
        self._first, self._last = min(self._first, ts_ns), max(self._last, ts_ns)
        while self._last // self.width_ns - self._first // self.width_ns >= LIMIT:
            self._widen()
        return self._bins.setdefault(ts_ns // self.width_ns, {})

    def _widen(self) -> None:
        old, self._bins = self._bins, {}
        factor = _wider(self.width_ns) // self.width_ns
        self.width_ns *= factor
        for place, numbers in old.items():
            into = self._bins.setdefault(place // factor, {})
            for key, number in numbers.items():
                into[key] = self._combine(into[key], number) if key in into else number
