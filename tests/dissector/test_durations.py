"""Quantiles: exact for some, near for many, in bounded memory."""

from __future__ import annotations

import pickle
import random

from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.durations import Durations, bucket_of, width_of


def test_nearest_rank_of_a_few() -> None:
    durations = Durations()
    assert durations.quantile(50) is None
    for value in (5, 1, 9):
        durations.add(value)
    assert [durations.quantile(percent) for percent in (1, 50, 67, 99, 100)] == [
        1,
        5,
        9,
        9,
        9,
    ]
    assert (durations.count, durations.largest) == (3, 9)


def test_many_are_near_and_take_little_memory() -> None:
    rng = random.Random(1)
    durations, values = Durations(), []
    for _ in range(20_000):
        value = round(10 ** rng.uniform(2, 10))
        durations.add(value)
        values.append(value)
    values.sort()
    for percent in (1, 50, 99):
        exact = values[len(values) * percent // 100 - 1]
        found = durations.quantile(percent)
        assert found is not None and abs(found - exact) <= exact * 0.008
    assert len(pickle.dumps(durations)) < 2 * len(values)


def test_zero_and_the_largest_number() -> None:
    durations = Durations()
    for _ in range(1100):
        durations.add(0)
    durations.add(1 << 63)
    assert durations.quantile(50) == 0 and durations.quantile(100) == 1 << 63


DURATIONS = st.integers(0, 1 << 62)


@given(DURATIONS)
def test_a_duration_is_in_its_bucket(duration_ns: int) -> None:
    low = bucket_of(duration_ns)
    assert low <= duration_ns < low + width_of(duration_ns)
    assert bucket_of(low) == low and width_of(low) == width_of(duration_ns)
    middle = low + (width_of(low) - 1) // 2
    assert abs(middle - duration_ns) <= duration_ns * 0.008


@given(st.lists(DURATIONS, min_size=1), st.integers(1, 100))
def test_few_are_exact(durations_ns: list[int], percent: int) -> None:
    durations = Durations()
    for duration_ns in durations_ns:
        durations.add(duration_ns)
    ranked = sorted(durations_ns)
    expected = next(
        each for place, each in enumerate(ranked, 1) if place * 100 >= percent * len(ranked)
    )
    assert durations.is_exact and durations.quantile(percent) == expected


def test_none_and_negative_ones() -> None:
    durations = Durations()
    assert durations.quantile(50) is durations.largest is None
    durations.add(-5)
    assert durations.quantile(50) == durations.largest == 0
