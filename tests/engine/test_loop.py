"""The loop's waits and wake-ups, and who drives."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

from natsync._engine.dialer import Dialer
from natsync._engine.loop import _LOOK, Loop
from natsync._engine.poller import Poller
from natsync._engine.transport import WakePair, resolve
from natsync._engine.waiter import Guest

from tests.support.faults import abort_on_close
from tests.support.waiting import eventually

TIMEOUT = 10.0


def run(body: Callable[[Loop], None]) -> None:
    """Runs `body` on a loop's thread; what it raises is raised here."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            body(loop)
        except BaseException as error:
            errors.append(error)

    loop = Loop("loop-test", guarded, threading.RLock())
    loop.start()
    assert loop.join(monotonic() + TIMEOUT)
    for error in errors:
        raise error
    loop.wake()  # harmless once it has ended


def nothing() -> None:
    pass


def test_a_wait_ends_at_its_deadline() -> None:
    def body(loop: Loop) -> None:
        until = monotonic() + 0.02
        assert not loop.wait(until)
        assert monotonic() >= until - 0.001

    run(body)


def test_a_wake_up_is_not_lost_whenever_it_comes() -> None:
    def body(loop: Loop) -> None:
        for _ in range(200):
            waker = threading.Thread(target=loop.wake)
            waker.start()
            assert not loop.wait(monotonic() + TIMEOUT)
            waker.join()
        loop.wake()
        loop.wake()
        start = monotonic()
        loop.wait(start + TIMEOUT)
        assert monotonic() < start + TIMEOUT / 2

    run(body)


def test_a_wake_up_that_is_taken_back() -> None:
    def body(loop: Loop) -> None:
        loop.calm()
        loop.wake()
        loop.calm()
        until = monotonic() + 0.02
        loop.wait(until)
        assert monotonic() >= until - 0.001
        loop.wake()
        begun = monotonic()
        loop.wait(begun + TIMEOUT)
        assert monotonic() < begun + TIMEOUT

    run(body)


def test_an_interrupted_wake_up_leaves_the_next_one_to_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(_: WakePair) -> None:
        raise KeyboardInterrupt

    def body(loop: Loop) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(WakePair, "wake", interrupted)
            with pytest.raises(KeyboardInterrupt):
                loop.wake()
        loop.wake()
        begun = monotonic()
        loop.wait(begun + TIMEOUT)
        assert monotonic() - begun < TIMEOUT / 2

    run(body)


class Torn:
    """A poller in which an interrupt comes before or behind the first change."""

    def __init__(self, poller: Poller, late: bool) -> None:
        self._poller = poller
        self._late = late
        self.poll, self.close = poller.poll, poller.close
        self.register, self.unregister = poller.register, poller.unregister

    def modify(self, fd: int, mask: int) -> None:
        self.modify = self._poller.modify  # type: ignore[method-assign]  # from now on
        if self._late:
            self._poller.modify(fd, mask)
        raise KeyboardInterrupt


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_while_what_to_wait_for_is_changed(late: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sink:
        (address,) = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)

        def body(loop: Loop) -> None:
            until = monotonic() + TIMEOUT
            Dialer(loop).dial([address], until, nothing)
            assert not loop.wait(0.0)
            loop._poller = Torn(loop._poller, late)
            with pytest.raises(KeyboardInterrupt):
                loop.watch(True, True)
            assert not loop.wait(0.0)  # again as it was: not for room to write
            assert loop.wait(until, writing=True)

        run(body)
        sink.accept()[0].close()


def test_nothing_is_waited_for_behind_an_interrupt() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sink:
        (address,) = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)

        def body(loop: Loop) -> None:
            Dialer(loop).dial([address], monotonic() + TIMEOUT, nothing)
            assert not loop.wait(0.0)
            loop._poller = Torn(loop._poller, False)
            with pytest.raises(KeyboardInterrupt):
                loop.watch(True, True)
            far, _ = sink.accept()
            abort_on_close(far)
            far.close()
            assert not loop.wait(monotonic() + 0.05, reading=False)  # the end is none of it
            assert loop.wait(monotonic() + TIMEOUT)

        run(body)


def test_a_guest_drives_while_the_own_thread_has_nothing_to_do() -> None:
    parked, guest = threading.Event(), Guest()

    def body(loop: Loop) -> None:
        assert not loop.take_seat(guest)  # the own thread does
        parked.set()
        loop.wait_idle(monotonic() + TIMEOUT, False, True)
        assert not loop.take_seat(guest)

    loop = Loop("loop-test", lambda: body(loop), threading.RLock())
    loop.start()
    assert parked.wait(TIMEOUT)
    until = monotonic() + TIMEOUT
    while not loop.take_seat(guest) and monotonic() < until:
        pass
    assert not loop.take_seat(Guest())
    loop.wake()
    assert not loop.wait(until)  # the wake-up reaches who drives
    loop.release(guest)
    loop.release(guest)
    loop.wake()
    assert loop.join(until)


def test_parking_ends_in_time_also_while_a_guest_drives() -> None:
    parked, guest = threading.Event(), Guest()
    ended: list[float] = []

    def body(loop: Loop) -> None:
        parked.set()
        loop.wait_idle(monotonic() + 0.02, False, True)
        ended.append(monotonic())

    loop = Loop("loop-test", lambda: body(loop), threading.RLock())
    loop.start()
    assert parked.wait(TIMEOUT)
    while not (claimed := loop.take_seat(guest)) and not ended:
        pass
    released = monotonic()
    loop.release(guest)
    assert loop.join(monotonic() + TIMEOUT)
    assert not claimed or ended[0] >= released


def parking() -> tuple[Loop, threading.Event]:
    """A loop whose own thread is parked for long, and what says when it is no more."""
    ended = threading.Event()

    def body(loop: Loop) -> None:
        loop.wait_idle(monotonic() + TIMEOUT, False, True)
        ended.set()

    loop = Loop("loop-test", lambda: body(loop), threading.RLock())
    loop.start()
    eventually(lambda: not loop._seat)
    return loop, ended


def test_the_own_thread_shuts_its_gate_where_a_guest_has_not_yet() -> None:
    loop, ended = parking()
    guest = Guest()
    loop._seat["holder"] = guest
    loop.wake()
    until = monotonic() + TIMEOUT
    assert loop._gate
    while loop._gate.poll(0) and monotonic() < until:
        pass
    assert not loop._gate.poll(0) and not ended.is_set()
    assert loop.take_seat(guest)
    loop.release(guest)  # the byte is still there
    assert ended.wait(TIMEOUT) and loop.join(monotonic() + TIMEOUT)


class Visited:
    """A gate: each `poll` is a visit of guests, on the same thread, so that nothing depends on who is
    faster."""

    def __init__(self, loop: Loop, *visits: Callable[[], object]) -> None:
        assert loop._gate
        self._visits = [*visits]
        self._gate = loop._gate
        self.modify, self.close = self._gate.modify, self._gate.close
        self.register, self.unregister = self._gate.register, self._gate.unregister
        self.waited: list[float] = []
        loop._gate = self

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.waited.append(timeout)
        self._visits.pop(0)()
        return []


def park_here(*visits: Callable[[Loop], object]) -> tuple[Loop, list[float]]:
    """Parks this thread as the I/O thread after it has sent much, with visits while it sleeps."""
    loop = Loop("loop-test", nothing, threading.RLock())
    gate = Visited(loop, *(partial(visit, loop) for visit in visits))
    assert loop.wait_idle(monotonic() + TIMEOUT, False, True, True) == 0.0
    loop.start()
    assert loop.join(monotonic() + TIMEOUT)
    return loop, gate.waited


def test_the_own_thread_keeps_out_while_guests_come() -> None:
    def come_and_go(loop: Loop) -> None:
        guest = Guest()
        assert loop.aloof and loop.take_seat(guest)
        loop.release(guest)

    loop, waited = park_here(come_and_go, come_and_go, lambda _: None)
    assert waited == [_LOOK] * 3 and not loop.aloof


def test_a_guest_that_stays_is_told_to_look() -> None:
    guest = Guest()

    def leave(loop: Loop) -> None:
        assert loop.awake and not loop.aloof
        loop.release(guest)

    _, waited = park_here(lambda loop: loop.take_seat(guest), lambda _: None, leave)
    assert waited[:2] == [_LOOK] * 2 and waited[2] > _LOOK


def test_what_is_a_crowd(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("natsync._engine.loop.monotonic", lambda: now)
    loop, guest = Loop("loop-test", lambda: None, threading.RLock()), Guest()
    loop._seat.clear()

    def meet(guests: int) -> bool:
        for _ in range(guests):
            assert loop.take_seat(guest)
            loop.release(guest)
        return loop._is_crowded()

    assert not meet(15)
    assert meet(1) and loop.awake  # by the last of them
    now += 0.005
    assert not meet(8)
    assert meet(8)
    loop.start()
    assert loop.join(monotonic() + TIMEOUT)
