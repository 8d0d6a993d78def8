"""Bins of time become wider with the time; their numbers do not depend on the order."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.report.bounded.time_bins import LIMIT, TimeBins

TIMES = st.lists(st.integers(0, 10**19), min_size=1, max_size=40)
SECOND = 10**9


def filled(times: list[int]) -> TimeBins[str]:
    bins: TimeBins[str] = TimeBins()
    for ts_ns in times:
        bins.add(ts_ns, "x")
    return bins


def test_the_width_fits_the_time() -> None:
    assert filled([0]).width_ns == 10**6
    assert filled([0, SECOND]).width_ns == 2 * 10**6
    assert filled([0, 60 * SECOND]).width_ns == 200 * 10**6
    assert filled([0, 86_400 * SECOND]).width_ns == 600 * SECOND


@given(TIMES)
def test_every_number_is_in_the_bin_of_its_time(times: list[int]) -> None:
    bins = filled(times)
    starts = [start for start, _ in bins.bins]
    assert sum(numbers["x"] for _, numbers in bins.bins) == len(times)
    assert {ts_ns // bins.width_ns * bins.width_ns for ts_ns in times} == set(starts)
    assert (starts[-1] - starts[0]) // bins.width_ns < LIMIT


@given(TIMES, st.randoms())
def test_order_and_parts_do_not_matter(times: list[int], chance: random.Random) -> None:
    whole = filled(times)
    mixed = times[:]
    chance.shuffle(mixed)
    cut = chance.randrange(len(mixed) + 1)
    parts = filled(mixed[:cut])
    parts.merge(filled(mixed[cut:]))
    assert (parts.width_ns, parts.bins) == (whole.width_ns, whole.bins)


def test_the_highest_number_of_each_bin() -> None:
    bins: TimeBins[str] = TimeBins(max)
    for ts_ns, number in ((0, 3), (1, 7), (2, 5), (10**12, 1)):
        bins.add(ts_ns, "waiting", number)
    assert bins.series("waiting")[1] == [7, 1]
    assert bins.keys == ["waiting"]
