"""Subscriptions hear of a lost connection and of the next one, in order with their messages."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors
from natsync.protocol import Msg, Ping, Pong, Pub

from tests.support.fake_server import Background, FakeServer, Peer

TIMEOUT = 10.0


def lose(server: FakeServer, peer: Peer, sid: bytes) -> Peer:
    """One message, a loss, and another message on the next connection."""
    peer.send(Msg(b"a", sid, b"", b"before"), Ping())
    peer.until(Pong)
    peer.reset()
    peer = server.accept()
    peer.greet()
    assert peer.subscribed() == sid
    peer.send(Msg(b"a", sid, b"", b"after"))
    return peer


def test_the_thread_that_takes_messages_hears_of_outages_in_next_msg() -> None:
    reported: list[object] = []
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", on_outage=reported.append)
        lose(server, peer, peer.subscribed())
        for msg in sub.messages(timeout=TIMEOUT, limit=2):
            reported.append(msg.data)
        before, lost, found, after = reported
        assert (before, found, after) == (b"before", None, b"after")
        assert isinstance(lost, errors.ConnectionReconnectingError) and "reset" in str(lost)


def test_what_it_raises_ends_the_wait_and_not_the_subscription() -> None:
    def stop(error: errors.Error | None) -> None:
        if error:
            raise InterruptedError

    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", on_outage=stop)
        lose(server, peer, peer.subscribed())
        assert sub.next_msg(TIMEOUT).data == b"before"
        with pytest.raises(InterruptedError):
            sub.next_msg(TIMEOUT)
        assert sub.next_msg(TIMEOUT).data == b"after"


@pytest.mark.parametrize("pooled", [False, True])
def test_a_handler_hears_of_outages_on_its_thread_in_order(pooled: bool) -> None:
    calls: SimpleQueue[object] = SimpleQueue()
    reported: SimpleQueue[errors.Error] = SimpleQueue()

    def outage(error: errors.Error | None) -> None:
        calls.put(type(error))
        if error:
            raise ValueError

    connect: Callable[[str], natsync.Client] = partial(natsync.connect, on_error=reported.put)
    with (
        ThreadPoolExecutor(1) if pooled else nullcontext() as executor,
        FakeServer() as server,
        server.client(connect) as (nc, peer),
    ):
        nc.subscribe(
            "a", handler=lambda msg: calls.put(msg.data), on_outage=outage, executor=executor
        )
        lose(server, peer, peer.subscribed())
        assert [calls.get(timeout=TIMEOUT) for _ in range(4)] == [
            b"before",
            errors.ConnectionReconnectingError,
            type(None),
            b"after",
        ]
        assert isinstance(reported.get(timeout=TIMEOUT), errors.HandlerError)


def test_counts_never_fall() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        over = threading.Event()

        def look() -> None:
            earlier = nc.stats
            while not over.is_set():
                later = nc.stats
                assert all(before <= after for before, after in zip(earlier, later, strict=True))
                earlier = later

        reader = Background(look)
        try:
            for _ in range(50):
                nc.publish("a", b"x")
                peer.expect(Pub)
                nc.reconnect()
                peer = server.accept()
                peer.greet()
                nc.wait_connected(TIMEOUT)
        finally:
            over.set()
        reader.result()
