"""Who moves the bytes of an open connection, and who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.channel import Channel
from natsync._engine.loop import Loop
from natsync._engine.seat import _BURST, _LOOK, _WHILE, Seat, Waiter
from natsync._engine.transport import WakePair
from natsync._engine.waiter import Guest
from natsync.protocol import Msg, Ping, Pong, Pub, Sub

from tests.support.driving import idle
from tests.support.fake_server import Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0


def new_seat() -> Seat:
    return Seat("seat-test", threading.RLock(), (1000, 1.0, 1000))


class Movers:
    """The threads that read something, and that wrote something."""

    def __init__(self) -> None:
        self.read: set[int] = set()
        self.wrote: set[int] = set()


@pytest.fixture
def movers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Movers]:
    movers = Movers()
    read, write = Loop.read, Loop.write

    def reading(loop: Loop, size: int) -> bytes | None:
        data = read(loop, size)
        if data:
            movers.read.add(threading.get_ident())
        return data

    def writing(loop: Loop, data: memoryview) -> int:
        movers.wrote.add(threading.get_ident())
        return write(loop, data)

    monkeypatch.setattr(Loop, "read", reading)
    monkeypatch.setattr(Loop, "write", writing)
    monkeypatch.setattr(Channel, "open", lambda channel: None)  # by way of the loop
    yield movers


def answer(peer: Peer) -> None:
    sid = peer.expect(Sub).sid
    asked = peer.until(Pub)
    peer.send(Msg(asked.reply, sid, b"", b"pong"))


def test_who_waits_for_a_reply_asks_and_reads_it(movers: Movers) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        nc._connection.reply_mux()
        seat = nc._connection._supervisor.seat
        eventually(lambda: not (seat.loop.awake or seat._seat))  # the I/O thread is parked again
        movers.read.clear()
        call = Background(lambda: answer(peer))
        assert nc.request("echo", b"ping", timeout=TIMEOUT).data == b"pong"
        call.result()
        me = threading.get_ident()
        assert me in movers.wrote and movers.read == {me}


def test_who_publishes_much_sends_it(movers: Movers) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        call = Background(lambda: [peer.expect(Pub).payload for _ in range(40)])
        movers.wrote.clear()
        nc.publish("a", bytes(64 << 10))  # known from here on
        for _ in range(39):
            nc.publish("a", bytes(64 << 10))
        assert threading.get_ident() in movers.wrote
        assert call.result() == [bytes(64 << 10)] * 40


def test_who_waits_for_what_it_sends_itself_waits_no_longer() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        outbound = nc._connection.outbound
        begun = monotonic()
        outbound.put(b"PUB a 0\r\n\r\n", 11, False)
        while outbound.items:  # the I/O thread may drive at first
            nc._connection.drive(lambda: not outbound.items, begun + TIMEOUT)
        assert monotonic() < begun + TIMEOUT / 2
        assert peer.expect(Pub).subject == b"a"


def test_a_guest_tells_of_a_time_that_the_io_thread_would_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("natsync._engine.seat._SPIN", 10 * TIMEOUT)
    connect = partial(natsync.connect, ping_interval=0.2)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        seat, guest = nc._connection._supervisor.seat, Guest()
        until = monotonic() + TIMEOUT
        while not seat.take(guest):
            assert monotonic() < until
        while not seat.loop.awake:  # its time has come, and it leaves it to this guest
            assert monotonic() < until
        seat.loop.calm()
        seat.release(guest)
        nc._connection.drive(None, 0.0)
        assert peer.expect(Ping) == Ping()


class Between:
    """Does something on another thread after each turn of a guest, before that looks again; and counts the
    bytes that end waits."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, do: Callable[[], object]) -> None:
        self.wakes = 0
        self._turn, self._wake = Channel.turn, WakePair.wake
        self._do = do
        monkeypatch.setattr(Channel, "turn", lambda *arguments: self._turn_and_do(*arguments))
        monkeypatch.setattr(WakePair, "wake", lambda pair: self._count(pair))

    def _turn_and_do(self, channel: Channel, until: float, guest: Guest | None = None) -> None:
        self._turn(channel, until, guest)
        if guest:
            self._do()

    def _count(self, pair: WakePair) -> None:
        self.wakes += 1
        self._wake(pair)


def test_what_comes_while_a_guest_does_not_wait_is_sent_without_a_byte(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    numbers = iter(range(3))

    def publish() -> None:
        for number in numbers:
            before = between.wakes
            Background(lambda: nc.publish("other", b"%d" % number)).result()
            assert between.wakes == before
            return

    def serve() -> None:
        sid = peer.expect(Sub).sid
        asked = peer.until(Pub)
        for number in range(3):
            peer.send(Ping())  # that ends a turn, and the guest stays
            assert peer.until(Pub).payload == b"%d" % number
        peer.send(Msg(asked.reply, sid, b"", b"pong"))

    with FakeServer() as server, server.client() as (nc, peer):
        nc._connection.reply_mux()
        seat = nc._connection._supervisor.seat
        eventually(lambda: not (seat.loop.awake or seat._seat))
        call = Background(serve)
        between = Between(monkeypatch, publish)
        assert nc.request("echo", b"ping", timeout=TIMEOUT).data == b"pong"
        call.result()


def test_what_comes_while_a_guest_waits_ends_its_wait() -> None:
    def serve() -> None:
        sid = peer.expect(Sub).sid
        asked = peer.until(Pub)
        for number in range(3):
            peer.send(Ping())
            peer.until(Pong)
            eventually(lambda: not seat.loop.awake)
            nc.publish("other", b"%d" % number)
            assert peer.until(Pub).payload == b"%d" % number
        peer.send(Msg(asked.reply, sid, b"", b"pong"))

    with FakeServer() as server, server.client() as (nc, peer):
        nc._connection.reply_mux()
        seat = nc._connection._supervisor.seat
        call = Background(serve)
        assert nc.request("echo", b"ping", timeout=TIMEOUT).data == b"pong"
        call.result()


@pytest.mark.parametrize("error", [KeyboardInterrupt(), errors.ProtocolError("a", 0)])
def test_a_guest_that_an_exception_ends_leaves_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    raised: list[BaseException] = []

    def fail() -> None:
        if not raised:
            raised.append(error)
            raise error

    def serve() -> None:
        peer.expect(Sub)
        peer.until(Pub)
        peer.send(Ping())

    with FakeServer() as server, server.client() as (nc, peer):
        nc._connection.reply_mux()
        seat = nc._connection._supervisor.seat
        eventually(lambda: not (seat.loop.awake or seat._seat))
        call = Background(serve)
        Between(monkeypatch, fail)
        with pytest.raises((KeyboardInterrupt, errors.ConnectionReconnectingError)):
            nc.request("echo", b"ping", timeout=TIMEOUT)
        call.result()
        if isinstance(error, Exception):  # the I/O thread has heard of it, and connects again
            peer = server.accept()
            peer.greet()
        nc.publish("after", b"")
        assert peer.until(Pub).subject == b"after"


def test_who_waits_moves_the_bytes_itself() -> None:
    def drive(done: Callable[[], object], until: float, _: Guest) -> None:
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


def test_a_guest_drives_while_the_own_thread_has_nothing_to_do() -> None:
    parked, guest = threading.Event(), Guest()

    def body() -> None:
        assert not seat.take(guest)  # the own thread does
        parked.set()
        seat.wait_idle(monotonic() + TIMEOUT, False, True)
        assert not seat.take(guest)

    with closing(new_seat()) as seat:
        own = Background(body)
        assert parked.wait(TIMEOUT)
        until = monotonic() + TIMEOUT
        while not seat.take(guest) and monotonic() < until:
            pass
        assert not seat.take(Guest())
        seat.loop.wake()
        assert not seat.loop.wait(until)  # the wake-up reaches who drives
        seat.release(guest)
        seat.release(guest)
        seat.loop.wake()
        own.result()


def test_parking_ends_in_time_also_while_a_guest_drives() -> None:
    parked, guest = threading.Event(), Guest()
    ended: list[float] = []

    def body() -> None:
        parked.set()
        seat.wait_idle(monotonic() + 0.02, False, True)
        ended.append(monotonic())

    with closing(new_seat()) as seat:
        own = Background(body)
        assert parked.wait(TIMEOUT)
        while not (claimed := seat.take(guest)) and not ended:
            pass
        released = monotonic()
        seat.release(guest)
        own.result()
        assert not claimed or ended[0] >= released


def test_the_own_thread_shuts_its_gate_where_a_guest_has_not_yet() -> None:
    with closing(new_seat()) as seat:
        guest, ended = Guest(), threading.Event()

        def body() -> None:
            seat.wait_idle(monotonic() + TIMEOUT, False, True)
            ended.set()

        own = Background(body)
        eventually(lambda: not seat._seat)
        seat._seat["holder"] = guest
        seat.loop.wake()
        until = monotonic() + TIMEOUT
        assert seat._gate
        while seat._gate.poll(0) and monotonic() < until:
            pass
        assert not seat._gate.poll(0) and not ended.is_set()
        assert seat.take(guest)
        seat.release(guest)  # the byte is still there
        assert ended.wait(TIMEOUT)
        own.result()


class Visited:
    """A gate: each `poll` is a visit of guests, on the same thread, so that nothing depends on who is
    faster."""

    def __init__(self, seat: Seat, *visits: Callable[[], object]) -> None:
        assert seat._gate
        self._visits = [*visits]
        self._gate = seat._gate
        self.modify, self.close = self._gate.modify, self._gate.close
        self.register, self.unregister = self._gate.register, self._gate.unregister
        self.waited: list[float] = []
        seat._gate = self

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        self.waited.append(timeout)
        self._visits.pop(0)()
        return []


def park_here(*visits: Callable[[Seat], object]) -> tuple[Seat, list[float]]:
    """Parks this thread as the I/O thread after it has sent much, with visits while it sleeps."""
    with closing(new_seat()) as seat:
        gate = Visited(seat, *(partial(visit, seat) for visit in visits))
        assert seat.wait_idle(monotonic() + TIMEOUT, False, True, True) == 0.0
        return seat, gate.waited


def test_the_own_thread_keeps_out_while_guests_come() -> None:
    def come_and_go(seat: Seat) -> None:
        guest = Guest()
        assert seat.loop.standby and seat.take(guest)
        seat.release(guest)

    seat, waited = park_here(come_and_go, come_and_go, lambda _: None)
    assert waited == [_LOOK] * 3 and not seat.loop.standby


def test_a_guest_that_stays_is_told_to_look() -> None:
    guest = Guest()

    def leave(seat: Seat) -> None:
        assert seat.loop.awake and not seat.loop.standby
        seat.release(guest)

    _, waited = park_here(lambda seat: seat.take(guest), lambda _: None, leave)
    assert waited[:2] == [_LOOK] * 2 and waited[2] > _LOOK


def test_what_is_a_burst(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("natsync._engine.seat.monotonic", lambda: now)
    with closing(new_seat()) as seat:
        guest = Guest()
        seat._seat.clear()

        def meet(guests: int) -> bool:
            for _ in range(guests):
                assert seat.take(guest)
                seat.release(guest)
            return seat._is_burst()

        assert not meet(2 * _BURST - 1)
        assert meet(1) and seat.loop.awake  # by the last of them
        now += 1.25 * _WHILE
        assert not meet(_BURST)
        assert meet(_BURST)
