"""Bins of time: how wide they are, and where they begin."""

from __future__ import annotations

import pytest

from dissect.nats.questions.ask import ask
from dissect.nats.questions.bins import LIMIT, WIDTHS

from tests.support.audit import frame
from tests.support.report import engine_over

DAY = 86_400 * 10**9


def test_each_width_divides_the_next_one() -> None:
    assert [*WIDTHS] == sorted(WIDTHS)
    assert all(wide % narrow == 0 for narrow, wide in zip(WIDTHS, WIDTHS[1:]))
    assert WIDTHS[-1] * LIMIT > 1 << 64


@pytest.mark.parametrize(
    "times, width_ns, starts",
    [
        ([5, 6], 10**6, [0]),
        ([0, 599_999_999], 10**6, [0, 599 * 10**6]),
        ([0, 600_000_000], 2 * 10**6, [0, 600 * 10**6]),
        ([-1, 10**6], 10**6, [-(10**6), 10**6]),
        ([0, 600 * DAY], 10 * DAY, [0, 600 * DAY]),
        ([-(8 * 10**18), 8 * 10**18], 1000 * DAY, None),
    ],
)
def test_bins_are_as_wide_as_the_time_needs(
    times: list[int], width_ns: int, starts: list[int] | None
) -> None:
    frames = [frame(number, ts_ns=ts_ns, payload_bytes=1) for number, ts_ns in enumerate(times)]
    with engine_over(frames) as engine:
        rows = ask(engine, "traffic")
    assert {row.width_ns for row in rows} == {width_ns}
    assert sum(row.count for row in rows) == len(times)
    assert starts is None or [row.bin_ns for row in rows] == starts
