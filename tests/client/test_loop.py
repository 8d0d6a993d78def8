"""The loop's waits and wake-ups, and the outbox: order, back-pressure, closing."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

from natsync.errors import ConnectionClosedError, OutboundBufferLimitError
from natsync.loop import Loop, Outbox
from natsync.transport import WakePair, resolve

from tests.support.fake_server import Background

TIMEOUT = 10.0


def run(body: Callable[[Loop], None]) -> None:
    """Runs `body` on a loop's thread; what it raises is raised here."""
    errors: list[BaseException] = []

    def guarded() -> None:
        try:
            body(loop)
        except BaseException as error:
            errors.append(error)

    loop = Loop("loop-test", guarded)
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


def test_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def body(loop: Loop) -> None:
            until = monotonic() + TIMEOUT
            loop.dial(loop.look_up("localhost", port, until, nothing), until, nothing)
            assert loop.write(memoryview(b"hello")) == 5
            while (data := loop.read()) is None:
                assert loop.wait(until)
            assert data == b"HELLO"
            loop.drop()
            loop.drop()
            assert (loop.read(), loop.write(memoryview(b"x"))) == (None, 0)

        call = Background(lambda: run(body))
        far, _ = listener.accept()
        with far:
            far.settimeout(TIMEOUT)
            far.sendall(far.recv(100).upper())
            assert far.recv(100) == b""
        call.result()


def test_the_next_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = resolve("127.0.0.1", closed.getsockname()[1], numeric=True)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        alive = resolve("127.0.0.1", listener.getsockname()[1], numeric=True)
        run(lambda loop: loop.dial(dead + alive, monotonic() + TIMEOUT, nothing))
        listener.accept()[0].close()
    with pytest.raises(ConnectionRefusedError):
        run(lambda loop: loop.dial(dead + dead, monotonic() + TIMEOUT, nothing))


def test_a_name_nobody_has() -> None:
    with pytest.raises(socket.gaierror):
        run(lambda loop: _look_up(loop, "no.such.host.invalid"))


def _look_up(loop: Loop, host: str) -> None:
    loop.look_up(host, 1, monotonic() + TIMEOUT, nothing)


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
    loop.look_up("slow", 1, until, check)


def new_outbox(limit: int = 10, timeout: float = TIMEOUT) -> tuple[Outbox, list[int]]:
    woken: list[int] = []
    return Outbox(lambda: woken.append(1), limit, timeout), woken


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


def test_the_outbox_keeps_order_and_wakes_for_each() -> None:
    outbox, woken = new_outbox()
    outbox.put(b"a")
    outbox.put(b"b")
    assert len(woken) == 2  # an interrupt may have kept the first from it
    outbox.order(nothing)
    assert outbox.take() == [b"a", b"b", nothing]
    assert outbox.take() == []
    outbox.put(b"c")
    assert outbox.take() == [b"c"]


def test_one_may_be_over_the_limit_the_next_waits_for_room() -> None:
    outbox, _ = new_outbox()
    outbox.put(bytes(50))
    call = Background(lambda: outbox.put(b"next"))
    assert outbox.take() == [bytes(50)]
    call.result()
    assert outbox.take() == [b"next"]


def test_orders_never_wait() -> None:
    outbox, _ = new_outbox()
    outbox.put(bytes(50))
    outbox.order(nothing)
    assert outbox.take() == [bytes(50), nothing]


def test_no_room_in_time() -> None:
    outbox, _ = new_outbox(timeout=0.02)
    outbox.put(bytes(50))
    with pytest.raises(OutboundBufferLimitError) as caught:
        outbox.put(b"x")
    assert (caught.value.limit, caught.value.timeout) == (10, 0.02)
    assert outbox.take() == [bytes(50)]


def test_closing_refuses_and_frees_those_who_wait() -> None:
    outbox, woken = new_outbox()
    outbox.put(bytes(50))
    calls = [Background(lambda: outbox.put(b"x")) for _ in range(3)]
    outbox.close(lambda: ConnectionClosedError("first"), last=nothing)
    outbox.close(lambda: ConnectionClosedError("second"))
    for call in calls:
        with pytest.raises(ConnectionClosedError, match="first"):
            call.result()
    with pytest.raises(ConnectionClosedError, match="first"):
        outbox.put(b"x")
    with pytest.raises(ConnectionClosedError, match="first"):
        outbox.order(nothing)
    assert outbox.take() == [bytes(50), nothing]
    assert len(woken) == 2


def test_nothing_is_lost_between_many_writers_and_one_reader() -> None:
    outbox, _ = new_outbox(limit=500)

    def write(writer: int) -> None:
        for number in range(2000):
            outbox.put(b"%d %d;" % (writer, number))

    calls = [Background(partial(write, writer)) for writer in range(4)]
    taken: list[bytes] = []
    until = monotonic() + TIMEOUT
    while len(taken) < 8000 and monotonic() < until:
        taken += [item for item in outbox.take() if isinstance(item, bytes)]
    for call in calls:
        call.result()
    for writer in range(4):
        numbers = [int(item[2:-1]) for item in taken if item.startswith(b"%d " % writer)]
        assert numbers == list(range(2000))
