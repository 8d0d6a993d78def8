"""What is too late, and what is forgotten."""

from __future__ import annotations

from natsync._engine.deadlines import Deadlines


def test_deadlines_forget_what_was_answered() -> None:
    deadlines = Deadlines()
    waiting = {b"2", b"3"}
    deadlines.add(b"1", 5.0, 0.0)
    deadlines.add(b"2", 5.0, 1.0)
    deadlines.add(b"3", 1.0, 2.0)
    assert deadlines.next(waiting.__contains__) == 3.0
    assert deadlines.pop(3.0) == [(b"3", 1.0)]
    assert deadlines.next(waiting.__contains__) == 6.0
    waiting.clear()
    assert deadlines.next(waiting.__contains__) == float("inf")
    assert not deadlines._queues
