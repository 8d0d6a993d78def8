"""Overflow, several workers, and contexts around handlers, on a connection."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors
from natsync.protocol import Msg, Ping, Pong

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
        sub.pending_msgs_limit = sub.pending_bytes_limit = -1
        assert other.next_msg(TIMEOUT).subject == "b"
        assert (sub.pending_msgs_limit, sub.pending_bytes_limit) == (-1, -1)
        with pytest.raises(errors.OptionError):
            sub.pending_msgs_limit = 0
        with pytest.raises(errors.OptionError, match="drop_new"):
            nc.subscribe("c", overflow="drop")


def fill(nc: natsync.Client, peer: Peer, sid: bytes) -> None:
    """Sends more than the subscription may hold."""
    peer.send(*[Msg(b"a", sid)] * 3)
    eventually(lambda: nc._connection.router.full)


@pytest.mark.parametrize("wait", ["request", "flush", "publish_confirmed"])
@pytest.mark.parametrize("handled", [False, True], ids=["reader", "handler"])
def test_the_consumer_of_a_full_subscription_waits_for_no_answer(wait: str, handled: bool) -> None:
    """Which would not be read before it takes messages."""
    entered, full, raised = threading.Event(), threading.Event(), SimpleQueue[Exception]()

    def ask(msg: natsync.Msg) -> None:
        entered.set()
        assert full.wait(TIMEOUT)
        with pytest.raises(errors.SubscriptionFullError, match="to a is full") as caught:
            nc.flush(TIMEOUT) if wait == "flush" else getattr(nc, wait)("x", timeout=TIMEOUT)
        raised.put(caught.value)

    with FakeServer() as server, server.client() as (nc, peer):
        handler = ask if handled else None
        sub = nc.subscribe("a", pending_msgs_limit=1, overflow="block", handler=handler)
        sid = peer.subscribed()
        call = Background(lambda: handled or ask(sub.next_msg(TIMEOUT)))
        peer.send(Msg(b"a", sid))
        assert entered.wait(TIMEOUT)  # it has the first message
        fill(nc, peer, sid)
        full.set()
        assert raised.get(timeout=TIMEOUT)
        call.result()


def test_one_that_fills_while_its_consumer_waits_says_so_at_the_end() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", pending_msgs_limit=1, overflow="block")
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid))
        sub.next_msg(TIMEOUT)
        call = Background(lambda: fill(nc, peer, sid))
        with pytest.raises((errors.SubscriptionFullError, errors.RequestTimeoutError)):
            nc.request("x", timeout=0.05)
        call.result()
        with pytest.raises(errors.SubscriptionFullError):
            nc.request("x", timeout=TIMEOUT)


def test_another_worker_may_make_the_room() -> None:
    asked, entered = SimpleQueue[Exception](), threading.Semaphore(0)
    full = threading.Event()

    def ask(msg: natsync.Msg) -> None:
        entered.release()
        assert full.wait(TIMEOUT)
        with pytest.raises(errors.RequestTimeoutError) as caught:
            nc.request("x", timeout=0.01)
        asked.put(caught.value)

    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", pending_msgs_limit=1, overflow="block", handler=ask, workers=2)
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid), Msg(b"a", sid))
        assert entered.acquire(timeout=TIMEOUT) and entered.acquire(timeout=TIMEOUT)
        fill(nc, peer, sid)
        full.set()
        assert asked.get(timeout=TIMEOUT)


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


def _has_received(sub: natsync.Subscription, count: int) -> bool:
    return sub.received == count
