"""Schedules as headers."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from natsync import OptionError
from natsync.jetstream import Schedule
from natsync.jetstream.schedule import format_ttl

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("when", "pattern"),
    [
        (NOON, "@at 2026-01-02T12:00:00Z"),
        (90, "@every 90000ms"),
        (1.5, "@every 1500ms"),
        ("@daily", "@daily"),
        ("0 30 14 * * *", "0 30 14 * * *"),
    ],
)
def test_a_schedule_takes_a_time_an_interval_or_a_pattern(
    when: datetime | float | str, pattern: str
) -> None:
    assert Schedule(when, "t").headers() == [
        ("Nats-Schedule", pattern),
        ("Nats-Schedule-Target", "t"),
    ]


def test_every_part_has_its_header() -> None:
    full = Schedule("@hourly", "t", ttl=60, source="s", time_zone="Europe/Oslo", rollup=True)
    assert full.headers()[2:] == [
        ("Nats-Schedule-TTL", "60"),
        ("Nats-Schedule-Source", "s"),
        ("Nats-Schedule-Time-Zone", "Europe/Oslo"),
        ("Nats-Schedule-Rollup", "sub"),
    ]


def test_times_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="time zone"):
        Schedule(datetime(2026, 1, 1), "t").headers()
    with pytest.raises(OptionError, match="at least 1 second"):
        Schedule(0.5, "t").headers()
    with pytest.raises(OptionError, match="less than 272 years"):
        Schedule(float("inf"), "t").headers()
    with pytest.raises(TypeError, match="target must be str"):
        Schedule(NOON, b"t").headers()  # type: ignore[arg-type]  # on purpose
    for ttl in (0, 0.99, 1 << 40):
        with pytest.raises(OptionError):
            format_ttl(ttl)
