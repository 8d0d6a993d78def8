"""Median and other quantiles of durations, in bounded memory.

Up to a thousand durations are kept exactly. Beyond that, they are counted in buckets at most 1/64 as wide as
their durations are long, so a quantile is at most 1.6 % below the true one.
"""

from __future__ import annotations

_EXACT = 1000
_BITS = 6  # 64 buckets for each power of two: at most 64 * 64 buckets


class Durations:
    """Many durations, in ns."""

    __slots__ = ("_largest", "_values", "_buckets")

    def __init__(self) -> None:
        self._largest: int | None = None
        self._values: list[int] = []  # not yet counted in a bucket
        self._buckets: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Adds a duration, which is not negative."""
        values = self._values
        values.append(duration_ns)
        if len(values) > _EXACT:
            self._count()

    @property
    def count(self) -> int:
        """The number of durations."""
        return len(self._values) + sum(self._buckets.values())

    @property
    def largest(self) -> int | None:
        """The longest duration; None if there are none."""
        known = () if self._largest is None else (self._largest,)
        return max((*known, *self._values), default=None)

    def quantile(self, percent: int) -> int | None:
        """The duration that `percent` of all do not exceed (nearest rank); None if there are none."""
        if self._buckets:
            self._count()
        rank = max(1, -(-self.count * percent // 100))
        if self._values:
            return sorted(self._values)[rank - 1]
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return bucket
        return self._largest

    def _count(self) -> None:
        """Moves the values into the buckets."""
        buckets, self._largest = self._buckets, self.largest
        for value in self._values:
            shift = max(0, value.bit_length() - _BITS - 1)
            bucket = value >> shift << shift
            buckets[bucket] = buckets.get(bucket, 0) + 1
        self._values = []
