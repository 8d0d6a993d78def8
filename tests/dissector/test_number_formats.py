"""Numbers for people."""

from __future__ import annotations

import pytest

from dissect.nats.number_formats import (
    count_text,
    duration_of,
    duration_text,
    moment_text,
    size_of,
    size_text,
    time_of,
    time_text,
    verb_text,
    whole_of,
)


@pytest.mark.parametrize(
    "duration_ns, text",
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (56_000, "56.0 us"),
        (1_234_567, "1.23 ms"),
        (999_999_999, "1000 ms"),
        (2_120_637_000, "2.12 s"),
        (59_999_999_999, "60.0 s"),
        (61_000_000_000, "1 min 01 s"),
        (7_500_000_000_000, "2 h 05 min"),
        (90_000 * 10**9, "1 d 01 h"),
        (-1_500_000, "-1.50 ms"),
        (-61 * 10**9, "-1 min 01 s"),
    ],
)
def test_durations_are_short_and_have_a_unit(duration_ns: int, text: str) -> None:
    assert duration_text(duration_ns) == text


@pytest.mark.parametrize(
    "size, text",
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (20_901, "20.9 kB"),
        (999_600, "1.00 MB"),
        (1 << 30, "1.07 GB"),
        (10**21, "1000 EB"),
    ],
)
def test_sizes_have_three_digits_and_a_unit(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_of_any_size() -> None:
    assert time_text(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert moment_text(1_700_000_000_123_456_789) == "2023-11-14 22:13:20.123"
    assert time_text(10**30).endswith(".000000000")


@pytest.mark.parametrize(
    "text, size",
    [
        ("4096", 4096),
        ("64k", 1 << 16),
        ("128M", 1 << 27),
        ("1GiB", 1 << 30),
        (" 2 mb", 1 << 21),
        ("", -1),
        ("4x", -1),
    ],
)
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    if size >= 0:
        assert size_of(text) == size
    else:
        with pytest.raises(ValueError, match="is not a size such as 64M"):
            size_of(text)


@pytest.mark.parametrize(
    "text",
    [
        "2023-11-14T22:13:20.123456789Z",
        "2023-11-14 22:13:20.123456789",
        "2023-11-14T23:13:20.123456789+01:00",
        "@1700000000.123456789",
    ],
)
def test_times_as_people_write_them(text: str) -> None:
    assert time_of(text) == 1_700_000_000_123_456_789


def test_less_of_a_time() -> None:
    day_ns = 1_699_920_000 * 10**9
    assert time_of("2023-11-14") == day_ns
    assert time_of("2023-11-14T01") == time_of("2023-11-14 02+01:00") == day_ns + 3600 * 10**9
    assert time_of("2023-11-14T00:01Z") == day_ns + 60 * 10**9
    assert time_text(time_of("2023-11-14 00:00:00.5")) == "2023-11-14T00:00:00.500000000Z"


@pytest.mark.parametrize(
    "text", ["", "now", "2023-13-01", "2023-11-14T25:00", "1700000000", "@", "2023-11-14.5", "@1Z"]
)
def test_what_is_no_time(text: str) -> None:
    with pytest.raises(ValueError):
        time_of(text)


def test_a_count_has_its_noun_and_its_verb() -> None:
    assert (count_text(1, "packet"), count_text(0, "packet")) == ("1 packet", "0 packets")
    assert count_text(2, "anomaly") == "2 anomalies"
    assert [verb_text(count, "was", "were") for count in (0, 1, 2)] == ["were", "was", "were"]


def test_a_duration_is_read_in_seconds() -> None:
    for text, seconds in {
        "30": 30.0,
        "1.5": 1.5,
        " 30s ": 30.0,
        "500 ms": 0.5,
        "5m": 300.0,
        "5min": 300.0,
        "2h": 7200.0,
        "1d": 86400.0,
        "20us": 2e-5,
        "1e3": 1000.0,
    }.items():
        assert duration_of(text) == pytest.approx(seconds, rel=1e-12), text
    for text in ("", "s", "5 weeks", "1:30", "nan", "inf", "1,5s", "5 S"):
        with pytest.raises(ValueError):
            duration_of(text)


def test_a_whole_number_is_read_from_decimal_digits() -> None:
    assert [whole_of(text) for text in ("0", " 12 ")] == [0, 12]
    for text in ("", "-1", "1.0", "1_000", "\u0663", "0x10"):
        with pytest.raises(ValueError, match="is not a whole number"):
            whole_of(text)
