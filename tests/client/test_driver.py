"""Who moves the bytes of an open connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pytest

import natsync
from natsync.loop import Loop
from natsync.protocol import Msg, Pub, Sub

from tests.support.fake_server import Background, FakeServer, Peer

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
    yield movers


def answer(peer: Peer) -> None:
    sid = peer.expect(Sub).sid
    asked = peer.until(Pub)
    peer.send(Msg(asked.reply, sid, b"", b"pong"))


def test_who_waits_for_a_reply_asks_and_reads_it(movers: Movers) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
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
        nc._connection._keeper.driver.forced = (
            True  # as `reconnect`, and the I/O thread is asleep yet
        )
        nc.publish("a", b"later")
        peer.expect_end()
        peer = server.accept()
        peer.greet()
        assert peer.expect(Pub).payload == b"later"
