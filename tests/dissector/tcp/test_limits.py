"""The limits that hold if the user sets none."""

from __future__ import annotations

from dissect.nats.tcp.limits import FlowLimits, Limits


def test_one_stream_may_hold_a_part_of_what_all_may() -> None:
    """And more than the largest TCP windows in use."""
    assert 8 << 20 < Limits().held_bytes <= FlowLimits().held_bytes // 4


def test_a_closed_flow_is_remembered_for_a_minute_and_a_silent_one_for_a_day() -> None:
    limits = FlowLimits()
    assert (limits.linger_ns, limits.idle_ns) == (60 * 10**9, 24 * 3600 * 10**9)
