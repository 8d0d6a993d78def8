"""Numbers for people."""

from __future__ import annotations

import pytest

from dissect.nats.units import count_text, duration_text, moment_text, size_text, time_text


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
def test_durations(duration_ns: int, text: str) -> None:
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
def test_sizes(size: int, text: str) -> None:
    assert size_text(size) == text


def test_times_of_any_size() -> None:
    assert time_text(1_700_000_000_123_456_789) == "2023-11-14T22:13:20.123456789Z"
    assert moment_text(1_700_000_000_123_456_789) == "2023-11-14 22:13:20.123"
    assert time_text(10**30).endswith(".000000000")


def test_counts() -> None:
    assert (count_text(1, "packet"), count_text(0, "packet")) == ("1 packet", "0 packets")
    assert count_text(2, "anomaly") == "2 anomalies"
