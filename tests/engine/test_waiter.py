"""Waiting: by moving bytes, or by sleeping."""

from __future__ import annotations

import threading
from collections.abc import Callable

from natsync._engine.waiter import Event, Waiter, set_free

from tests.support.driving import idle
from tests.support.fake_server import Background


def test_who_waits_moves_the_bytes_itself() -> None:
    def drive(done: Callable[[], object], until: float) -> None:
        assert not done()
        waiter.settle(5)
        assert done()

    waiter: Waiter[int] = Waiter(drive)
    assert waiter.wait(10) == 5


def test_somebody_else_moves_them() -> None:
    waiter: Waiter[int] = Waiter(idle)
    call = Background(lambda: waiter.wait(10))
    waiter.settle(7)
    assert call.result() == 7
    assert Waiter[int](idle).wait(0) is None


def test_a_flag_lets_all_go_until_it_is_cleared() -> None:
    flag = Event()
    assert not flag.wait(0)
    calls = [Background(lambda: flag.wait(10)) for _ in range(3)]
    flag.set()
    assert [call.result() for call in calls] == [True] * 3
    assert flag.is_set and flag.wait(0)
    flag.clear()
    assert not flag.wait(0.01)


def test_a_lock_that_a_lost_thread_holds_is_set_free() -> None:
    lock = threading.RLock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    set_free(lock)
    assert lock.acquire(timeout=10)
    lock.release()
