"""The loop's waits and wake-ups."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from time import monotonic

import pytest

from natsync._engine.dialer import Dialer
from natsync._engine.loop import Loop
from natsync._engine.poller import Poller
from natsync._engine.transport import Transport, WakePair, resolve

from tests.support.faults import abort_on_close

TIMEOUT = 10.0


def run(body: Callable[[Loop], None]) -> None:
    """Runs `body` on a loop's thread; what it raises is raised here."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            body(loop)
        except BaseException as error:
            errors.append(error)

    loop = Loop("loop-test", threading.RLock())
    thread = threading.Thread(target=guarded)
    thread.start()
    thread.join(TIMEOUT)
    assert not thread.is_alive()
    loop.drop()
    loop.close()
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
    """A poller in which an interrupt comes before or after the first change."""

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


def test_nothing_is_waited_for_after_an_interrupt() -> None:
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


def test_a_transport_that_has_lost_its_descriptor_can_be_dropped() -> None:
    """As where TLS could not begin."""

    def body(loop: Loop) -> None:
        near, far = socket.socketpair()
        with far:
            loop.transport = Transport(near)
            loop.wait(monotonic())
            descriptor = near.detach()
            loop.drop()
            os.close(descriptor)
        assert loop.transport is None

    run(body)
