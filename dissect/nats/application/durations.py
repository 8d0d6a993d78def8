"""Median and other quantiles of durations, in bounded memory.

The first thousand durations are kept as they are; beyond that they are counted in buckets whose width is
1/64 of their size, so a quantile is at most 1.6 % below the duration that it stands for.
"""

from __future__ import annotations

_EXACT = 1000
_BITS = 6  # 64 buckets for each power of two: at most 64 * 64 of them


class Durations:
    """Durations in ns, in the order in which they come."""

    __slots__ = ("count", "largest", "_values", "_buckets")

    def __init__(self) -> None:
        self.count = 0
        self.largest: int | None = None
        self._values: list[int] = []
        self._buckets: dict[int, int] = {}

    def add(self, duration_ns: int) -> None:
        """Takes one more, 0 or longer."""
        self.count += 1
        if self.largest is None or duration_ns > self.largest:
            self.largest = duration_ns
        if self.count <= _EXACT:
            self._values.append(duration_ns)
            return
        if self._values:
            for value in self._values:
                self._put(value)
            self._values = []
        self._put(duration_ns)

    def quantile(self, percent: int) -> int | None:
        """The duration that this share is not longer than (nearest rank); None if there are none."""
        if not self.count:
            return None
        rank = max(1, -(-self.count * percent // 100))
        if self._values:
            return sorted(self._values)[rank - 1]
        for bucket in sorted(self._buckets):
            rank -= self._buckets[bucket]
            if rank <= 0:
                return bucket
        return self.largest

    def _put(self, duration_ns: int) -> None:
        shift = max(0, duration_ns.bit_length() - _BITS - 1)
        bucket = duration_ns >> shift << shift
        self._buckets[bucket] = self._buckets.get(bucket, 0) + 1
