"""Values of options and arguments."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from click import BadParameter

from natsync.commands.values import (
    age,
    checked,
    chunk_size,
    count,
    duration,
    durations,
    header,
    pair,
    pairs,
    payload_size,
    seconds,
    sequence,
    texts,
    time,
    whole,
)
from natsync.kv.naming import check_key


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (seconds, "0.5", 0.5),
        (count, "3", 3),
        (count, "5000000000", 5_000_000_000),
        (whole, "0", 0),
        (sequence, "18446744073709551615", 2**64 - 1),
        (payload_size, "8000000", 8_000_000),
        (age, "31536000", 31_536_000.0),
        (header, "Name: a:b", ("Name", "a:b")),
        (header, "Name:", ("Name", "")),
    ],
)
def test_good_arguments_become_values(read: type, text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [(seconds, "0"), (seconds, "inf"), (count, "0"), (count, "1.5"), (whole, "-1")]
    + [(sequence, "0"), (sequence, "18446744073709551616"), (count, "9223372036854775808")]
    + [(chunk_size, "0"), (payload_size, "2147483648"), (age, "0"), (age, "1e10"), (age, "nan")]
    + [(header, "name"), (header, ":value"), (duration, "soon"), (duration, "5 m")]
    + [(duration, "400000d"), (duration, "9" * 400), (durations, "1s,"), (pair, "k"), (pair, "=v")]
    + [(pairs, "k=v,l"), (time, "noon"), (time, "0001-01-01T00:00:00+10:00"), (time, "")],
)
def test_bad_arguments_are_refused(read: type, text: str) -> None:
    with pytest.raises(BadParameter):
        read(text)


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("90s", 90), ("1h30m", 5400), ("1.5ms", 0.0015), ("7d", 604800)]
)
def test_durations_are_seconds_or_have_units(text: str, value: float) -> None:
    assert duration(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2026-11-22T12:00:00Z", 0),
        ("2026-11-22t12:00:00.5z", 500_000),
        ("2026-11-22T12:00:00.123456789Z", 123_456),
        ("2026-11-22T14:00:00.000001+02:00", 1),
    ],
)
def test_times_are_iso_8601_in_any_zone(text: str, microsecond: int) -> None:
    assert time(text) == datetime(2026, 11, 22, 12, 0, 0, microsecond, timezone.utc)


def test_a_time_without_a_zone_is_local() -> None:
    assert time("2026-11-22") == datetime(2026, 11, 22).astimezone()


def test_lists_are_separated_by_commas() -> None:
    assert (texts("a,,b"), texts("")) == (["a", "b"], [])
    assert durations("1s,2m") == (1, 120)
    assert pairs("a=b,c=d=e") == (("a", "b"), ("c", "d=e"))


def test_checks_of_names_become_errors_of_arguments() -> None:
    assert checked(check_key)("a.b") == "a.b"
    with pytest.raises(BadParameter, match="has an empty token"):
        checked(check_key)("a..b")
