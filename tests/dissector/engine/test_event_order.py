"""The frames after a gap take their place among those of the other direction."""

from __future__ import annotations

from collections import defaultdict

import pytest

from dissect.nats import frames

from tests.support.paths import CAPTURES


@pytest.mark.parametrize("late", [0, 1000])
def test_frames_after_a_gap_are_merged_as_long_as_few_wait(
    late: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissect.nats.engine.event_order._LATE_FRAMES", late)
    times = defaultdict(list)
    for row in frames([str(CAPTURES / "damaged-loss-reorder.pcap")]):
        times[row.session].append((row.number, row.ts_ns))
    merged = [sorted(some) == sorted(some, key=lambda one: one[1]) for some in times.values()]
    assert all(merged) is (late > 0)
