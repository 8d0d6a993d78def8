"""What is too late, what is forgotten, and what it costs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from natsync._engine.deadlines import Deadlines


def test_deadlines_forget_what_was_answered() -> None:
    deadlines = Deadlines()
    waiting = {b"2", b"3"}
    deadlines.add(b"1", 5.0, 0.0)
    deadlines.add(b"2", 5.0, 1.0)
    assert deadlines.next(waiting.__contains__) == 5.0, "at most, not to look whether 1 waits"
    deadlines.add(b"3", 1.0, 2.0)
    assert deadlines.next(waiting.__contains__) == 3.0
    assert deadlines.late(3.0, waiting.__contains__) == (b"3", 1.0)
    waiting.remove(b"3")
    assert deadlines.late(3.0, waiting.__contains__) is None
    assert deadlines.next(waiting.__contains__) == 6.0
    waiting.clear()
    assert deadlines.late(6.0, waiting.__contains__) is None
    assert deadlines.next(waiting.__contains__) == float("inf")
    assert not (deadlines._added or deadlines._heap or deadlines._queue)


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans())), st.integers(0, 12))
def test_each_is_late_once_and_the_earliest_first(asked: list[tuple[int, bool]], now: int) -> None:
    deadlines = Deadlines()
    waiting: dict[bytes, float] = {}
    for number, (timeout, answered) in enumerate(asked):
        token = b"%d" % number
        deadlines.add(token, float(timeout), 1.0)
        if not answered:
            waiting[token] = float(timeout)
        assert deadlines.next(waiting.__contains__) <= min(waiting.values(), default=9.0) + 1.0
    expected = {token: timeout for token, timeout in waiting.items() if timeout + 1 <= now}
    found = []
    while late := deadlines.late(float(now), waiting.__contains__):
        assert deadlines.late(float(now), waiting.__contains__) == late
        found.append(late)
        del waiting[late[0]]
        assert deadlines.next(waiting.__contains__) <= min(waiting.values(), default=9.0) + 1.0
    assert dict(found) == expected
    later = [timeout for timeout in waiting.values()]
    assert deadlines.next(waiting.__contains__) == min(later, default=float("inf")) + 1.0
    assert [timeout for _, timeout in found] == sorted(timeout for _, timeout in found)


def test_a_look_costs_the_same_beside_many_with_different_timeouts() -> None:
    deadlines = Deadlines()
    asked: list[bytes] = []

    def waits(token: bytes) -> bool:
        asked.append(token)
        return True

    for number in range(16_000):
        deadlines.add(b"%d" % number, 100.0 + number, 0.0)
    assert deadlines.next(waits) == 100.0
    deadlines.late(0.0, waits)
    asked.clear()
    assert deadlines.next(waits) == 100.0 and deadlines.late(0.0, waits) is None
    assert len(asked) == 1


def test_those_that_are_over_are_forgotten_beside_one_that_waits() -> None:
    deadlines = Deadlines()
    waiting = {b"first"}
    deadlines.add(b"first", 1.0, 0.0)
    for number in range(20_000):
        token = b"%d" % number
        waiting.add(token)
        deadlines.add(token, 100.0, 0.0)
        deadlines.next(waiting.__contains__)
        waiting.discard(token)
    assert len(deadlines._added) + len(deadlines._heap) + len(deadlines._queue) < 3000
