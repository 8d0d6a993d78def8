"""Durations as a histogram with logarithmic buckets: percentiles to within 2 %, in a few kB.

The buckets are those of HdrHistogram (http://hdrhistogram.org): 32 for each power of two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

_BITS = 5
_PART = 1 << _BITS


def bucket(duration_ns: int) -> int:
    """The number of the bucket for a duration; a negative duration counts as 0."""
    duration_ns = max(0, duration_ns)
    shift = max(0, duration_ns.bit_length() - 1 - _BITS)
    return (shift << _BITS) + (duration_ns >> shift)


def lowest(number: int) -> int:
    """The smallest duration in a bucket, in nanoseconds."""
    if number < 2 * _PART:
        return number
    shift = (number >> _BITS) - 1
    return (number - (shift << _BITS)) << shift


def middle(number: int) -> int:
    """The duration that represents a bucket."""
    return (lowest(number) + lowest(number + 1)) // 2


def percentile(buckets: Mapping[int, int], part: float) -> int | None:
    """The duration that a part (0 to 1) of the durations does not exceed; None if there are none."""
    left = part * sum(buckets.values())
    for number in sorted(buckets):
        left -= buckets[number]
        if left <= 0:
            return middle(number)
    return None


class Histogram:
    """Durations in nanoseconds."""

    def __init__(self) -> None:
        self.buckets: Counter[int] = Counter()
        self.longest_ns = 0

    @property
    def count(self) -> int:
        """The number of durations."""
        return self.buckets.total()

    weight = count

    def add(self, duration_ns: int) -> None:
        """Adds a duration."""
        self.buckets[bucket(duration_ns)] += 1
        self.longest_ns = max(self.longest_ns, duration_ns)

    def merge(self, other: Histogram) -> None:
        """Adds the durations of another one."""
        self.buckets.update(other.buckets)
        self.longest_ns = max(self.longest_ns, other.longest_ns)

    def percentile(self, part: float) -> int | None:
        """The duration that a part (0 to 1) of the durations does not exceed; None if there are none."""
        found = percentile(self.buckets, part)
        return None if found is None else min(found, self.longest_ns)
