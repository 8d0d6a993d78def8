"""When flows must be checked."""

from __future__ import annotations

import random

from dissect.nats.tcp.deadlines import Deadlines
from dissect.nats.tcp.flow import Flow
from dissect.nats.types import NEVER_NS


def flow(name: str) -> Flow:
    times = {"first_ns": 0, "last_ns": 0, "midstream": False, "accepted": False}
    return Flow(id=name, key=b"", capture="", sides=(), **times)  # type: ignore[arg-type]  # by name


def test_flows_come_when_their_time_is_over_in_its_order() -> None:
    deadlines = Deadlines()
    one, two, three = map(flow, "123")
    deadlines.add(one, [30])
    deadlines.add(two, [10, 40])
    deadlines.add(three, [20])
    assert list(deadlines) == [one, two, three] and deadlines.next_ns == 10
    assert list(deadlines.due(10)) == [] and list(deadlines.due(30)) == [two, three]
    assert deadlines.times() == {one: [30], two: [40], three: []} and deadlines.next_ns == 30
    deadlines.remove(one)
    assert list(deadlines.due(99)) == [two] and deadlines.next_ns == NEVER_NS
    deadlines.clear()
    assert len(deadlines) == 0 == len(deadlines.times())


def test_a_time_may_be_added_while_flows_come() -> None:
    deadlines = Deadlines()
    one = flow("1")
    deadlines.add(one, [10])
    for count, _ in enumerate(deadlines.due(100)):
        deadlines.check(one, 11 + count)
    assert count == 89 and deadlines.next_ns == 100


def test_a_flow_that_is_checked_often_keeps_its_first_time() -> None:
    deadlines = Deadlines()
    numbers = random.Random(1)
    flows = [flow(str(number)) for number in range(5)]
    first: dict[Flow, int] = {}
    for each in flows:
        deadlines.add(each, [])
    for _ in range(1000):
        each, time = numbers.choice(flows), numbers.randrange(10**9)
        first[each] = min(first.get(each, time), time)
        deadlines.check(each, time)
    times = deadlines.times()
    assert {each: min(times[each]) for each in flows} == first
    assert sum(map(len, times.values())) <= 64 + 2 * len(flows) + 1
