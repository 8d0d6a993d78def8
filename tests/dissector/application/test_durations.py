"""Quantiles: exact for some, near for many, in bounded memory."""

from __future__ import annotations

import pickle
import random

from dissect.nats.application.durations import Durations


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
        assert found is not None and exact * 0.983 <= found <= exact
    assert len(pickle.dumps(durations)) < 2 * len(values)


def test_zero_and_the_largest_number() -> None:
    durations = Durations()
    for _ in range(1100):
        durations.add(0)
    durations.add(1 << 63)
    assert durations.quantile(50) == 0 and durations.quantile(100) == 1 << 63
