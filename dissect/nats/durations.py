"""Median and other quantiles of durations, in bounded memory: the one definition that every table, figure and
live view uses.

A quantile is the smallest duration that the given share of all durations does not exceed (nearest rank), as
`quantile_disc` of DuckDB and `percentile_disc` of Spark SQL define it. Up to `EXACT` durations it is exact.
Beyond that, durations are counted in buckets at most 1/64 as wide as the durations are long, as in
HdrHistogram (http://hdrhistogram.org), and a quantile is within 0.8 % of the true one.
"""

from __future__ import annotations

from collections import Counter

CLOCK_STEP_NS = 100_000_000
"""Packets are out of order by less: where times go back further, somebody set the clock."""

EXACT = 1000
"""As long as there are no more durations than this, quantiles are exact."""

ERROR = "0.8 %"
"""How far a quantile of more durations may be from the true one."""

_BITS = 6  # 64 buckets for each power of two: at most 64 * 64 buckets


def elapsed(duration_ns: int | None) -> int | None:
    """The duration between the times of two packets; None if it is unknown, or if the clock was set back in
    between. Packets that are slightly out of order count as if they came together."""
    if duration_ns is None or duration_ns < -CLOCK_STEP_NS:
        return None
    return max(0, duration_ns)


def width_of(duration_ns: int, bits: int = _BITS) -> int:
    """The width of the bucket for a duration, with 2**`bits` buckets for each power of two."""
    return 1 << max(0, duration_ns.bit_length() - bits - 1)


def bucket_of(duration_ns: int, bits: int = _BITS) -> int:
    """The smallest duration in the bucket for a duration; a negative duration counts as 0."""
    duration_ns = max(0, duration_ns)
    return duration_ns & -width_of(duration_ns, bits)


def _rank(count: int, percent: int) -> int:
    return max(1, -(-count * percent // 100))


class Durations:
    """Many durations, in ns."""

    __slots__ = ("_buckets", "_largest", "_values")

    def __init__(self) -> None:
        self._largest: int | None = None
        self._values: list[int] = []  # not yet counted in a bucket
        self._buckets: Counter[int] = Counter()

    def add(self, duration_ns: int) -> None:
        """Adds a duration; a negative one counts as 0."""
        self._values.append(max(0, duration_ns))
        if len(self._values) > EXACT:
            self._count()

    @property
    def count(self) -> int:
        """The number of durations."""
        return len(self._values) + self._buckets.total()

    @property
    def is_exact(self) -> bool:
        """Whether quantiles are exact; otherwise they are within 0.8 %."""
        return not self._buckets

    @property
    def largest(self) -> int | None:
        """The longest duration, always exact; None if there are none."""
        known = () if self._largest is None else (self._largest,)
        return max((*known, *self._values), default=None)

    def quantile(self, percent: int) -> int | None:
        """The smallest duration that `percent` of all do not exceed; None if there are none."""
        largest, rank = self.largest, _rank(self.count, percent)
        if largest is None:
            return None
        if self.is_exact:
            return sorted(self._values)[rank - 1]
        counted = self._buckets + Counter(map(bucket_of, self._values))
        for bucket in sorted(counted):
            rank -= counted[bucket]
            if rank <= 0:  # the middle of the bucket
                return min(bucket + (width_of(bucket) - 1) // 2, largest)
        return largest

    def _count(self) -> None:
        """Moves the values into the buckets."""
        self._largest = self.largest
        self._buckets.update(map(bucket_of, self._values))
        self._values = []
