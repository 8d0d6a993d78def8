"""Draining a subscription or a connection: what is waited for, what is left, and who closes."""

from __future__ import annotations

import threading

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


def drained(peer: Peer, subs: int) -> None:
    """Plays the server: UNSUBs, and the flush after them."""
    for _ in range(subs):
        peer.until(Unsub)
    peer.expect(Ping)
    peer.send(Pong())


class HeldHandler:
    """Handles no message until `release` is set."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.got: list[bytes] = []

    def __call__(self, msg: natsync.Msg) -> None:
        self.entered.set()
        self.release.wait(TIMEOUT)
        self.got.append(msg.data)


def test_draining_a_subscription_waits_for_its_handler() -> None:
    handler = HeldHandler()
    with FakeServer() as server, server.client() as (nc, peer):
        ended: list[errors.Error] = []
        closed = threading.Event()
        sub = nc.subscribe(
            "a", handler=handler, on_close=lambda error: (ended.append(error), closed.set())
        )
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid, b"", b"1"), Msg(b"a", sid, b"", b"2"))
        assert handler.entered.wait(TIMEOUT)
        call = Background(lambda: sub.drain(TIMEOUT))
        peer.until(Unsub)
        peer.send(Msg(b"a", sid, b"", b"3"))  # it was on its way
        peer.expect(Ping)
        peer.send(Pong())
        assert closed.wait(TIMEOUT) and not call.done
        handler.release.set()
        call.result()
        assert handler.got == [b"1", b"2", b"3"]
        assert sub.state is natsync.State.CLOSED
        assert [type(error) for error in ended] == [errors.BadSubscriptionError]


def test_draining_that_takes_too_long_says_what_was_left() -> None:
    handler = HeldHandler()
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", handler=handler)
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid), Msg(b"a", sid))
        seen_by(peer)
        assert handler.entered.wait(TIMEOUT)
        call = Background(lambda: sub.drain(1.0))
        drained(peer, 1)
        with pytest.raises(errors.DrainTimeoutError) as caught:
            call.result()
        assert caught.value.left == {"a": 2}
        assert sub.stats == natsync.SubStats(2, 1, 1, 0, 0)
        handler.release.set()


@pytest.mark.parametrize("whole", [False, True], ids=["subscription", "connection"])
def test_what_is_pending_when_its_reader_drains_stays_readable(whole: bool) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()
        peer.send(*[Msg(b"a", sid)] * 3)
        sub.next_msg(TIMEOUT)
        call = Background(lambda: (drained(peer, 1), peer.expect_end() if whole else None))
        (nc if whole else sub).drain(TIMEOUT)
        call.result()
        assert len(list(sub)) == 2
        assert sub.stats == natsync.SubStats(3, 3, 0, 0, 0)


def test_draining_a_connection_handles_what_is_pending_and_closes() -> None:
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


def test_draining_says_that_the_server_did_not_take_what_was_published() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        nc.publish("a", b"never confirmed")
        peer.expect(Pub)
        with pytest.raises(errors.FlushTimeoutError):
            nc.drain(0.1)
        assert nc.stats.unconfirmed_msgs == 1 and nc.status is natsync.Status.CLOSED


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
    handler = HeldHandler()
    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        peer.send(Msg(b"a", peer.subscribed()))
        assert handler.entered.wait(TIMEOUT)
        first = Background(lambda: nc.drain(TIMEOUT))
        drained(peer, 1)
        with pytest.raises(errors.DrainTimeoutError):
            nc.drain(0.05)
        second = Background(lambda: nc.drain(TIMEOUT))
        handler.release.set()
        peer.expect_end()
        first.result()
        second.result()
        assert nc.status is natsync.Status.CLOSED


def test_errors_say_which_call_has_closed_the_client() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        call = Background(nc.drain)
        drained(peer, 0)
        peer.expect_end()
        call.result()
        with pytest.raises(
            errors.ConnectionClosedError, match="by drain\\(\\) on thread background$"
        ):
            nc.flush()
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        nc.close(0)
        here = f"by close\\(\\) on thread {threading.current_thread().name}$"
        for waits in (sub.next_msg, nc.flush, nc.reconnect, nc.drain, nc.wait_connected):
            with pytest.raises(errors.ConnectionClosedError, match=here):
                waits()


def test_draining_a_subscription_ends_the_iteration_of_another_thread() -> None:
    """Which reads the connection itself, and hears nothing from the server."""
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()
        peer.send(Msg(b"a", sid, b"", b"1"))
        first = threading.Event()

        def read() -> list[bytes]:
            found = []
            for msg in sub:
                found.append(msg.data)
                first.set()
            return found

        reader = Background(read)
        assert first.wait(TIMEOUT)
        seen_by(peer)
        drain = Background(lambda: sub.drain(TIMEOUT))
        drained(peer, 1)
        drain.result()
        assert reader.result() == [b"1"]


def test_draining_during_an_outage_says_what_was_left_and_keeps_the_rest_readable() -> None:
    handler = HeldHandler()
    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        handled = peer.subscribed()
        own = nc.subscribe("own")
        peer.send(*[Msg(b"a", handled)] * 3, *[Msg(b"own", peer.subscribed(), b"", b"1")] * 2)
        seen_by(peer)
        assert handler.entered.wait(TIMEOUT) and own.next_msg(TIMEOUT)
        peer.close()
        server.close()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        with pytest.raises(errors.DrainTimeoutError) as caught:
            nc.drain(0.05)
        assert caught.value.left == {"a": 3}
        assert [msg.data for msg in own] == [b"1"]
        assert nc.status is natsync.Status.CLOSED
        handler.release.set()


@pytest.mark.parametrize("whole", [False, True], ids=["subscription", "connection"])
def test_the_reader_of_a_full_subscription_has_to_read_before_it_drains(whole: bool) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a", pending_msgs_limit=1, overflow="block")
        sid = peer.subscribed()
        drain = (nc if whole else sub).drain
        peer.send(Msg(b"a", sid))
        sub.next_msg(TIMEOUT)
        peer.send(*[Msg(b"a", sid)] * 3)
        eventually(lambda: sub.stats.pending_msgs == 3)
        with pytest.raises(errors.SubscriptionFullError):
            drain(TIMEOUT)
        assert nc.status is natsync.Status.CONNECTED
        for _ in range(3):
            sub.next_msg(TIMEOUT)
        call = Background(lambda: (drained(peer, 1), peer.expect_end() if whole else None))
        drain(TIMEOUT)
        call.result()


def test_a_handler_may_send_the_first_request_during_a_drain() -> None:
    answers: list[bytes] = []
    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=lambda msg: answers.append(nc.request("x", timeout=TIMEOUT).data))
        sid = peer.subscribed()
        call = Background(lambda: nc.drain(TIMEOUT))
        peer.until(Unsub)
        peer.expect(Ping)
        peer.send(Msg(b"a", sid), Pong())
        mux = peer.subscribed()
        peer.send(Msg(peer.until(Pub).reply, mux, b"", b"yes"))
        peer.expect_end()
        call.result()
        assert answers == [b"yes"]


def test_a_server_that_gets_the_subscription_during_its_drain_gets_its_end_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        peer.subscribed()
        remove = nc._connection.table.remove

        def late(sid: bytes) -> None:
            eventually(lambda: nc.stats.reconnects)
            remove(sid)

        monkeypatch.setattr(nc._connection.table, "remove", late)
        call = Background(lambda: sub.drain(TIMEOUT))
        peer.until(Unsub)
        peer.reset()
        peer = server.accept()
        peer.greet()
        sid = peer.subscribed()
        assert peer.until(Unsub).sid == sid
        call.result()
