"""Connecting: addresses in turn, names, and a resolver that blocks."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from time import monotonic

import pytest

from natsync._engine.dialer import Dialer
from natsync._engine.loop import Loop
from natsync._engine.transport import resolve
from natsync.errors import ConnectionClosedError

from tests.engine.test_loop import TIMEOUT, nothing, run
from tests.support.fake_server import Background


def test_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sink:
        port = sink.getsockname()[1]

        def body(loop: Loop) -> None:
            until = monotonic() + TIMEOUT
            Dialer(loop).dial(
                Dialer(loop).look_up("localhost", port, until, nothing), until, nothing
            )
            assert loop.write(memoryview(b"hello")) == 5
            while (data := loop.read(100)) is None:
                assert loop.wait(until)
            assert data == b"HELLO"
            loop.drop()
            loop.drop()
            assert (loop.read(100), loop.write(memoryview(b"x"))) == (None, 0)

        call = Background(lambda: run(body))
        far, _ = sink.accept()
        with far:
            far.settimeout(TIMEOUT)
            far.sendall(far.recv(100).upper())
            assert far.recv(100) == b""
        call.result()


def test_the_next_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = resolve("127.0.0.1", closed.getsockname()[1], numeric=True)
    with socket.create_server(("127.0.0.1", 0)) as sink:
        alive = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)
        run(lambda loop: Dialer(loop).dial(dead + alive, monotonic() + TIMEOUT, nothing))
        sink.accept()[0].close()
    with pytest.raises(ConnectionRefusedError):
        run(lambda loop: Dialer(loop).dial(dead + dead, monotonic() + TIMEOUT, nothing))


def test_a_name_nobody_has() -> None:
    with pytest.raises(socket.gaierror):
        run(lambda loop: _look_up(loop, "no.such.host.invalid"))


def _look_up(loop: Loop, host: str) -> None:
    Dialer(loop).look_up(host, 1, monotonic() + TIMEOUT, nothing)


@pytest.fixture
def slow_resolver(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The system's resolver blocks until this is set."""
    answered = threading.Event()

    def getaddrinfo(*args: object, **options: object) -> list[object]:
        if not options.get("flags"):
            assert answered.wait(TIMEOUT)
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    return answered


def test_a_resolver_that_blocks_is_left_alone(slow_resolver: threading.Event) -> None:
    start = monotonic()
    with pytest.raises(TimeoutError):
        run(lambda loop: _look_up_until(loop, start + 0.05, nothing))
    assert monotonic() - start < TIMEOUT / 2
    slow_resolver.set()


def test_a_wake_up_reaches_who_waits_for_the_resolver(slow_resolver: threading.Event) -> None:
    def check() -> None:
        raise ConnectionClosedError

    def body(loop: Loop) -> None:
        loop.wake()
        _look_up_until(loop, monotonic() + TIMEOUT, check)

    with pytest.raises(ConnectionClosedError):
        run(body)
    slow_resolver.set()


def _look_up_until(loop: Loop, until: float, check: Callable[[], None]) -> None:
    Dialer(loop).look_up("slow", 1, until, check)
