"""Durations in logarithmic buckets: percentiles to within 2 %."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.report.bounded.durations import Histogram, bucket, lowest, middle

DURATIONS = st.integers(0, 1 << 62)


@given(DURATIONS)
def test_a_duration_is_in_its_bucket(duration_ns: int) -> None:
    number = bucket(duration_ns)
    assert lowest(number) <= duration_ns < lowest(number + 1)
    assert abs(middle(number) - duration_ns) <= duration_ns / 50


@given(st.lists(DURATIONS, min_size=1), st.sampled_from([0.5, 0.9, 0.99, 1.0]))
def test_percentiles(durations: list[int], part: float) -> None:
    found = Histogram()
    for duration_ns in durations:
        found.add(duration_ns)
    ranked = sorted(durations)
    exact = ranked[max(0, -(-int(part * 1000) * len(ranked) // 1000) - 1)]
    estimate = found.percentile(part)
    assert estimate is not None and estimate <= ranked[-1]
    assert estimate == pytest.approx(exact, rel=0.02, abs=1) or estimate in ranked


@given(st.lists(DURATIONS), st.lists(DURATIONS))
def test_merged_parts_are_the_whole(some: list[int], others: list[int]) -> None:
    one, other, whole = Histogram(), Histogram(), Histogram()
    for into, durations in ((one, some), (other, others), (whole, [*some, *others])):
        for duration_ns in durations:
            into.add(duration_ns)
    one.merge(other)
    assert (one.buckets, one.longest_ns) == (whole.buckets, whole.longest_ns)


def test_none_and_negative_ones() -> None:
    found = Histogram()
    assert found.percentile(0.5) is None
    found.add(-5)
    assert found.percentile(0.5) == 0
