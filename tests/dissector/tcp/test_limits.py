"""The limits that hold if the user sets none."""

from __future__ import annotations

from typing import Any

import pytest

from dissect.nats.tcp.limits import FlowLimits, Limits


def test_one_stream_may_hold_a_part_of_what_all_may() -> None:
    """And more than the largest TCP windows in use."""
    assert 8 << 20 < Limits().held_bytes <= FlowLimits().held_bytes // 4


def test_a_closed_flow_is_remembered_for_a_minute_and_a_silent_one_for_a_day() -> None:
    limits = FlowLimits()
    assert (limits.linger_ns, limits.idle_ns) == (60 * 10**9, 24 * 3600 * 10**9)


@pytest.mark.parametrize("wrong", [None, "5", 1.5, True, float("nan")])
def test_a_limit_is_a_whole_number(wrong: Any) -> None:
    for make, name in ((Limits, "held_bytes"), (Limits, "patience_ns"), (FlowLimits, "idle_ns")):
        with pytest.raises(TypeError, match=f"^{name} must be an int, not "):
            make(**{name: wrong})


def test_a_limit_is_not_negative_and_a_flow_is_always_kept() -> None:
    with pytest.raises(ValueError, match="^held_bytes must be 0 or more, not -1$"):
        Limits(held_bytes=-1)
    with pytest.raises(ValueError, match="^linger_ns must be 0 or more, not -1$"):
        FlowLimits(linger_ns=-1)
    with pytest.raises(ValueError, match="^max_flows must be 1 or more, not 0$"):
        FlowLimits(max_flows=0)
