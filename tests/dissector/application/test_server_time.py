"""Times that servers write."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.application.server_time import clock_ns, time_ns

S = 10**9


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1970-01-01T00:00:01Z", S),
        ("1970-01-01T00:00:01.5Z", S * 3 // 2),
        ("2026-11-21T02:01:48.005320001Z", 1795226508_005320001),
        ("1970-01-01T01:00:00+01:00", 0),
        ("1969-12-31T23:30:00.000000001-00:30", 1),
        ("0001-01-01T00:00:00Z", -62135596800 * S),
    ],
)
def test_a_time_is_read_to_the_nanosecond(text: str, ns: int) -> None:
    assert time_ns(text) == ns


@pytest.mark.parametrize(
    "text",
    ["", "now", "2026-02-30T00:00:00Z", "1970-01-01T00:00:01", "٢٠٢٦-11-21T02:01:48Z", "x" * 99],
)
def test_what_is_no_time_is_none(text: str) -> None:
    assert time_ns(text) is None and clock_ns(text, 0) is None


@given(st.datetimes(datetime(1970, 1, 2), datetime(9999, 1, 1)))
def test_times_are_those_of_the_calendar(moment: datetime) -> None:
    moment = moment.replace(microsecond=0)
    ns = round(moment.replace(tzinfo=timezone.utc).timestamp()) * S
    assert time_ns(f"{moment.isoformat()}Z") == ns


def test_a_clock_that_is_ahead_is_positive() -> None:
    assert clock_ns("1970-01-01T00:00:05Z", 3 * S) == 2 * S
    assert clock_ns("1970-01-01T00:00:05Z", 6 * S) == -S


def test_no_time_says_nothing_of_a_clock() -> None:
    assert clock_ns("0001-01-01T00:00:00Z", S) is None
