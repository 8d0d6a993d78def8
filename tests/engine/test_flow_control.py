"""Overflow, draining, several workers, and contexts around handlers, on a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial

import pytest

import natsync
from natsync import errors
from natsync.protocol import Msg, Ping, Pong, Pub, Unsub

from tests.support.fake_server import Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0


def seen_by(peer: Peer) -> None:
    """Waits until the client has read everything that was sent to it."""
    peer.send(Ping())
    peer.until(Pong)


def test_a_full_subscription_stops_reading_and_loses_nothing() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", pending_msgs_limit=5, overflow="block")
        sid = peer.subscribed()
        peer.send(*[Msg(b"a", sid, b"", b"%d" % number) for number in range(5)])
        for number in range(5, 50):
            peer.send(Msg(b"a", sid, b"", b"%d" % number))
        got = [sub.next_msg(TIMEOUT).data for _ in range(50)]
        assert got == [b"%d" % number for number in range(50)]
        assert sub.stats == natsync.SubStats(50, 50, 0, 0, 0)


def test_limits_may_change_and_free_a_connection_that_waits() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", pending_msgs_limit=1, overflow=natsync.Overflow.BLOCK)
        other = nc.subscribe("b")
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid), Msg(b"a", sid))
        peer.send(Msg(b"b", peer.subscribed()))
        sub.pending_limits = (-1, -1)
        assert other.next_msg(TIMEOUT).subject == "b"
        assert sub.pending_limits == (-1, -1)
        with pytest.raises(errors.OptionError):
            sub.pending_limits = (0, 1)
        with pytest.raises(errors.OptionError, match="drop_new"):
            nc.subscribe("c", overflow="drop")


def test_one_that_ends_frees_a_connection_that_waits() -> None:
    ends: list[Callable[[natsync.Subscription], object]] = [
        lambda sub: sub.drain(0.05),
        lambda sub: sub.unsubscribe(1),
        lambda sub: sub.unsubscribe(),
    ]
    for end in ends:
        with FakeServer() as server, server.client() as (nc, peer):
            sub = nc.subscribe("a", pending_msgs_limit=1, overflow="block")
            other = nc.subscribe("b")
            sids = [peer.subscribed(), peer.subscribed()]
            peer.send(Msg(b"a", sids[0]), Msg(b"a", sids[0]))
            eventually(partial(_has_received, sub, 2))
            peer.send(Msg(b"b", sids[1]))
            with suppress(errors.DrainTimeoutError):
                end(sub)
            assert other.next_msg(TIMEOUT).subject == "b"


def test_messages_end_by_time_or_number() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()
        peer.send(*[Msg(b"a", sid)] * 5)
        assert len(list(sub.messages(limit=3))) == 3
        assert len(list(sub.messages(timeout=0.05))) == 2
        assert sub.state is natsync.State.ACTIVE


def test_several_workers_and_an_executor() -> None:
    together = threading.Barrier(3)

    def meet(msg: natsync.Msg) -> None:
        together.wait(TIMEOUT)

    with FakeServer() as server, server.client() as (nc, peer), ThreadPoolExecutor(3) as pool:
        nc.subscribe("a", handler=meet, workers=2)
        nc.subscribe("b", handler=meet, workers=2, executor=pool)
        for subject in (b"a", b"b"):
            sid = peer.subscribed()
            peer.send(Msg(subject, sid), Msg(subject, sid))
            together.wait(TIMEOUT)
        seen_by(peer)


def test_a_context_around_every_handler() -> None:
    seen: list[str] = []
    done = threading.Event()

    @contextmanager
    def around(msg: natsync.Msg) -> Iterator[None]:
        seen.append("enter")
        try:
            yield
        finally:
            seen.append("leave")
            done.set()

    connect = partial(natsync.connect, handler_context=around)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        nc.subscribe("a", handler=lambda msg: seen.append("handle"))
        peer.send(Msg(b"a", peer.subscribed()))
        assert done.wait(TIMEOUT)
    assert seen == ["enter", "handle", "leave"]


def drained(peer: Peer, subs: int) -> None:
    """Plays the server: UNSUBs, and the flush behind them."""
    for _ in range(subs):
        peer.until(Unsub)
    peer.expect(Ping)
    peer.send(Pong())


def test_draining_a_subscription_waits_for_its_handler() -> None:
    entered, release = threading.Event(), threading.Event()
    got: list[bytes] = []

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        release.wait(TIMEOUT)
        got.append(msg.data)

    with FakeServer() as server, server.client() as (nc, peer):
        ended: list[errors.Error] = []
        closed = threading.Event()
        sub = nc.subscribe(
            "a", handler=handler, on_close=lambda error: (ended.append(error), closed.set())
        )
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid, b"", b"1"), Msg(b"a", sid, b"", b"2"))
        assert entered.wait(TIMEOUT)
        call = Background(lambda: sub.drain(TIMEOUT))
        peer.until(Unsub)
        peer.send(Msg(b"a", sid, b"", b"3"))  # it was on its way
        peer.expect(Ping)
        peer.send(Pong())
        assert closed.wait(TIMEOUT) and not call.done
        release.set()
        call.result()
        assert got == [b"1", b"2", b"3"]
        assert sub.state is natsync.State.CLOSED
        assert [type(error) for error in ended] == [errors.BadSubscriptionError]


def test_draining_that_takes_too_long_says_what_was_left() -> None:
    release = threading.Event()
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", handler=lambda msg: release.wait(TIMEOUT))
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid), Msg(b"a", sid))
        seen_by(peer)
        call = Background(lambda: sub.drain(0.2))
        drained(peer, 1)
        with pytest.raises(errors.DrainTimeoutError) as caught:
            call.result()
        assert caught.value.left == {"a": 2}
        assert sub.stats == natsync.SubStats(2, 1, 1, 0, 0)
        release.set()


@pytest.mark.parametrize("whole", [False, True], ids=["subscription", "connection"])
def test_what_is_pending_when_its_reader_drains_stays_readable(whole: bool) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()
        peer.send(*[Msg(b"a", sid)] * 3)
        sub.next_msg(TIMEOUT)
        call = Background(lambda: drained(peer, 1))
        (nc if whole else sub).drain(TIMEOUT)
        call.result()
        assert len(list(sub)) == 2
        assert sub.stats == natsync.SubStats(3, 3, 0, 0, 0)


def test_draining_a_connection() -> None:
    got: list[bytes] = []

    def handler(msg: natsync.Msg) -> None:
        got.append(msg.data)
        msg.respond(b"re")

    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        sid = peer.subscribed()
        call = Background(lambda: nc.drain(TIMEOUT))
        peer.until(Unsub)
        assert nc.status is natsync.Status.DRAINING
        with pytest.raises(errors.ConnectionDrainingError):
            nc.subscribe("b")
        assert peer.expect(Ping) == Ping()
        peer.send(Msg(b"a", sid, b"answer", b"last"), Pong())
        assert peer.until(Pub).subject == b"answer"
        peer.expect_end()
        call.result()
        assert got == [b"last"]
        assert nc.status is natsync.Status.CLOSED
        with pytest.raises(errors.ConnectionClosedError):
            nc.drain()


def test_draining_from_a_handler() -> None:
    done = threading.Event()

    with FakeServer() as server, server.client() as (nc, peer):

        def handler(msg: natsync.Msg) -> None:
            nc.drain(TIMEOUT)
            done.set()

        nc.subscribe("a", handler=handler)
        peer.send(Msg(b"a", peer.subscribed()))
        peer.expect_end()
        assert done.wait(TIMEOUT)


def test_a_second_drain_waits_for_the_first() -> None:
    entered, release = threading.Event(), threading.Event()

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        release.wait(TIMEOUT)

    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        peer.send(Msg(b"a", peer.subscribed()))
        assert entered.wait(TIMEOUT)
        first = Background(lambda: nc.drain(TIMEOUT))
        drained(peer, 1)
        with pytest.raises(errors.DrainTimeoutError):
            nc.drain(0.05)
        second = Background(lambda: nc.drain(TIMEOUT))
        release.set()
        peer.expect_end()
        first.result()
        second.result()
        assert nc.status is natsync.Status.CLOSED


def _has_received(sub: natsync.Subscription, count: int) -> bool:
    return sub.received == count
