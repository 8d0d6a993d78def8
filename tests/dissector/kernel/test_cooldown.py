"""A connection that is taken back soon waits longer each time."""

from __future__ import annotations

from typing import cast

from dissect.nats.kernel.cooldown import WORTH, Cooldown
from dissect.nats.tcp.flow import Flow, Side


class FakeSide:
    packets = WORTH // 2


class FakeFlow:
    over = False
    sides = (FakeSide(), FakeSide())


def waits(cooldown: Cooldown, flow: Flow) -> int:
    count = 1
    while not cooldown.passes(flow, 1):
        count += 1
    return count


def test_waits_double_until_a_hand_over_is_worth_it() -> None:
    cooldown, flow = Cooldown(), cast(Flow, FakeFlow())
    assert cooldown.passes(flow, 1)
    found = []
    for _ in range(12):
        cooldown.note(flow, 3)
        found.append(waits(cooldown, flow))
    assert found == sorted(found)
    assert found[1] > found[0] > 8
    assert found[-1] < 5000
    cooldown.note(flow, 1000)
    assert waits(cooldown, flow) == 1
    cooldown.note(flow, 3)
    assert waits(cooldown, flow) < found[-1]


def test_a_connection_must_have_lasted_before_it_is_handed_over() -> None:
    cooldown, flow = Cooldown(WORTH + 1), cast(Flow, FakeFlow())
    assert not cooldown.passes(flow, 1)
    sides = FakeSide(), FakeSide()
    sides[0].packets += 1
    flow.sides = cast(tuple[Side, Side], sides)
    assert cooldown.passes(flow, 1)


def test_a_few_packets_are_not_worth_a_hand_over() -> None:
    cooldown, flow = Cooldown(), cast(Flow, FakeFlow())
    cooldown.note(flow, 40)  # they take as long as the hand-over
    assert waits(cooldown, flow) > 40


def test_a_flow_that_cannot_be_handed_over_is_asked_less_often() -> None:
    cooldown, flow = Cooldown(), cast(Flow, FakeFlow())
    cooldown.refuse(flow)
    first = waits(cooldown, flow)
    cooldown.refuse(flow)
    assert waits(cooldown, flow) > first


def test_flows_that_are_over_are_forgotten() -> None:
    cooldown = Cooldown()
    for _ in range(1 << 15):
        flow = FakeFlow()
        flow.over = True
        cooldown.note(cast(Flow, flow), 1)
    kept = cast(Flow, FakeFlow())
    cooldown.note(kept, 1)
    assert not cooldown.passes(kept, 1)
