"""Events, and locks that a fork leaves taken."""

from __future__ import annotations

import threading

from natsync._engine.waiter import Event, set_free

from tests.support.fake_server import Background


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
