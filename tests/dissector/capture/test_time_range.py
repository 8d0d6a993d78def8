"""Packets of a span of time: which ones, and with their own numbers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.capture.time_range import TimeRange, check_bounds, time_bound
from dissect.nats.options import Options
from dissect.nats.types import Packets

TIMES = st.lists(st.integers(0, 20), min_size=1, max_size=30)
BOUND = st.none() | st.integers(0, 20)


def runs(times: list[int]) -> list[Packets]:
    places = [(ts_ns, at, at + 1, 1) for at, ts_ns in enumerate(times)]
    half = len(places) // 2
    return [
        Packets("c", 1, b"x" * len(times), first + 1, some)
        for first, some in ((0, places[:half]), (half, places[half:]))
        if some
    ]


@given(TIMES, BOUND, BOUND)
def test_exactly_those_inside_with_their_numbers(
    times: list[int], from_ns: int | None, until_ns: int | None
) -> None:
    window = TimeRange(from_ns, until_ns)
    found = [(packet.number, packet.ts_ns) for run in window.of(runs(times)) for packet in run]
    low = 0 if from_ns is None else from_ns
    high = 21 if until_ns is None else until_ns
    assert found == [(at, ts) for at, ts in enumerate(times, 1) if low <= ts < high]
    assert window.is_all == (from_ns is None and until_ns is None)
    assert all(run.places for run in window.of(runs(times)))


@given(TIMES, BOUND, BOUND)
def test_what_it_does_not_meet_has_nothing_inside(
    times: list[int], from_ns: int | None, until_ns: int | None
) -> None:
    window = TimeRange(from_ns, until_ns)
    if not window.meets(min(times), max(times)):
        assert not any(map(window.holds, times))


def test_times_as_users_write_them() -> None:
    assert time_bound("1.5") == (1_500_000_000, True)
    assert time_bound("90") == (90 * 10**9, True)
    assert time_bound("@1.5") == (1_500_000_000, False)
    assert time_bound("1970-01-01T00:00:02Z") == (2 * 10**9, False)
    for text in ("", "-1", "soon", "1.5s"):
        with pytest.raises(ValueError, match="is not a time such as 2026-11-21T02:01:43Z"):
            time_bound(text)


def test_a_range_in_which_nothing_can_be_is_refused() -> None:
    one, two, then = time_bound("1"), time_bound("2"), time_bound("2026-11-21")
    for bounds in ((one, two), (one, None), (None, one), (two, then), (then, one), (None, None)):
        check_bounds(*bounds)
        assert Options(from_time=bounds[0], until_time=bounds[1]).from_time == bounds[0]
    for begin, end in ((two, one), (one, one), (then, then)):
        with pytest.raises(ValueError, match="is not before"):
            check_bounds(begin, end)
        with pytest.raises(ValueError, match="is not before"):
            Options(from_time=begin, until_time=end)
