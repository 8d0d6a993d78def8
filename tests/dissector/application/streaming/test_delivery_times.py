"""Times of deliveries to several inboxes."""

from __future__ import annotations

import pytest

from dissect.nats.application.streaming import delivery_times
from dissect.nats.application.streaming.delivery_times import DeliveryTimes


def test_each_inbox_has_its_own_time_and_none_the_latest() -> None:
    times = DeliveryTimes()
    times.add("orders", 1, "a", 10)
    times.add("orders", 1, "b", 20)
    assert ("orders", 1) in times and ("orders", 2) not in times
    assert [times.take("orders", 1, inbox) for inbox in ("a", "b", "", "a")] == [10, 20, 20, None]
    assert ("orders", 1) not in times


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery_times, "_DELIVERIES", 2)
    times = DeliveryTimes()
    for sequence in (1, 2):
        times.add("orders", sequence, "a", sequence)
    assert ("orders", 1) not in times and times.take("orders", 2, "a") == 2
