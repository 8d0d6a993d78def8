"""Who moves the bytes of an open connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.channel import Channel
from natsync._engine.loop import Loop
from natsync._engine.waiter import Guest
from natsync.protocol import Msg, Ping, Pub, Sub

from tests.support.fake_server import Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0

fast = partial(natsync.connect, reconnect_wait=0.01, reconnect_max_wait=0.02)


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
        loop = nc._connection._supervisor.loop
        eventually(lambda: not (loop.awake or loop._seat))  # the I/O thread is parked again
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


def test_what_is_published_behind_a_reconnect_goes_to_the_new_connection() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        nc._connection._supervisor.seat.forced = (
            True  # as `reconnect`, and the I/O thread is asleep yet
        )
        nc.publish("a", b"later")
        peer.expect_end()
        peer = server.accept()
        peer.greet()
        assert peer.expect(Pub).payload == b"later"


def test_who_waits_for_what_it_sends_itself_waits_no_longer() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        outbound = nc._connection.outbound
        begun = monotonic()
        outbound.put(b"PUB a 0\r\n\r\n", 11, False)
        while outbound.items:  # the I/O thread may drive at first
            nc._connection.drive(lambda: not outbound.items, begun + TIMEOUT)
        assert monotonic() < begun + TIMEOUT / 2
        assert peer.expect(Pub).subject == b"a"


def test_a_full_network_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: SimpleQueue[float] = SimpleQueue()
    park = Loop.wait_idle

    def parking(
        loop: Loop, until: float, writing: bool, reading: bool, much: bool = False
    ) -> float:
        if writing:
            waits.put(until)
        return park(loop, until, writing, reading, much)

    monkeypatch.setattr(Loop, "wait_idle", parking)
    connect = partial(natsync.connect, write_timeout=0.01)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        with pytest.raises(errors.OutboundBufferLimitError):
            while True:
                nc.publish("a", bytes(100_000))
        begun = monotonic()
        nc._connection.drive(None, 0.0)
        nc._connection._supervisor.loop.wake()
        assert waits.get(timeout=TIMEOUT) > begun
        peer.reset()


def test_a_guest_tells_of_a_time_that_the_io_thread_would_miss(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("natsync._engine.loop._SPIN", 10 * TIMEOUT)
    connect = partial(natsync.connect, ping_interval=0.2)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        loop, guest = nc._connection._supervisor.loop, Guest()
        until = monotonic() + TIMEOUT
        while not loop.take_seat(guest):
            assert monotonic() < until
        while not loop.awake:  # its time has come, and it leaves it to this guest
            assert monotonic() < until
        loop.calm()
        loop.release(guest)
        nc._connection.drive(None, 0.0)
        assert peer.expect(Ping) == Ping()
