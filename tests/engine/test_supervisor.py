"""Losing a connection and finding another one: which callbacks are called, and what survives."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.channel import Channel
from natsync._engine.loop import Loop
from natsync._engine.seat import Ending, Seat, Waiter
from natsync._engine.subscription_table import SubscriptionTable
from natsync.protocol import Err, Info, Msg, Ping, Pong, Pub, Sub, Unsub

from tests.support.fake_server import INFO, Background, FakeServer, Peer
from tests.support.waiting import eventually

TIMEOUT = 10.0

fast = partial(natsync.connect, reconnect_wait=0.01, reconnect_max_wait=0.02)


class Callbacks:
    """The calls of callbacks, in order."""

    def __init__(self) -> None:
        self.events: SimpleQueue[str] = SimpleQueue()

    def connect(self, url: str, **options: bool) -> natsync.Client:
        return fast(
            url,
            on_error=lambda error: self.events.put(f"error {error}"),
            on_disconnect=lambda error: self.events.put(f"disconnect {error}"),
            on_reconnect=lambda: self.events.put("reconnect"),
            on_discover=lambda servers: self.events.put(f"discover {servers}"),
            on_lame_duck=lambda: self.events.put("lame duck"),
            on_close=lambda error: self.events.put(f"close {error}"),
            **options,
        )

    def next(self) -> str:
        return self.events.get(timeout=TIMEOUT)


def again(server: FakeServer) -> Peer:
    peer = server.accept()
    peer.greet()
    return peer


def test_a_system_without_threads_fails_an_attempt_to_reconnect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It takes one to look up a name; that ended the client for good."""
    callbacks = Callbacks()

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def by_name(url: str) -> natsync.Client:
        return callbacks.connect(url.replace("127.0.0.1", "localhost"))

    with FakeServer() as server, server.client(by_name) as (nc, peer):
        peer.send(Err(b"no matter"))
        assert "no matter" in callbacks.next()  # its thread runs from here on
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", no_more)
            peer.reset()
            assert callbacks.next().startswith("disconnect")
            assert "looking up the name: can't start new thread" in callbacks.next()
        again(server)
        assert nc.wait_connected(TIMEOUT)


def test_an_i_o_thread_without_memory_loses_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it was reading may be cut in the middle. It ended the client for good."""
    callbacks = Callbacks()
    whole, failing = Channel.turn, [MemoryError()] * 2

    def turn(channel: Channel, until: float) -> None:
        if failing:
            raise failing.pop()
        whole(channel, until)

    with FakeServer() as server, server.client(callbacks.connect) as (nc, peer):
        monkeypatch.setattr(Channel, "turn", turn)
        peer.send(Ping())
        assert callbacks.next() == "disconnect connection closed: out of memory"
        # While it connects again.
        assert callbacks.next().endswith("out of memory")
        server.accept().expect_end()
        again(server)
        assert nc.wait_connected(TIMEOUT)


def test_interest_comes_back_before_what_was_published_meanwhile() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        plain = nc.subscribe("a", queue="q")
        limited = nc.subscribe("b", max_msgs=5)
        gone = nc.subscribe("c")
        gone.unsubscribe()
        peer.until(Unsub)
        peer.until(Unsub)
        peer.send(Msg(b"b", b"2"), Msg(b"b", b"2"), Ping())
        peer.expect(Pong)
        peer.reset()
        peer = server.accept()
        nc.publish("d", b"meanwhile")  # before the handshake, whenever the loss is noticed
        peer.greet()
        assert peer.expect(Sub) == Sub(b"a", b"1", b"q")
        assert peer.expect(Sub) == Sub(b"b", b"2")
        assert peer.expect(Unsub) == Unsub(b"2", 3)
        assert peer.expect(Pub).payload == b"meanwhile"
        assert nc.wait_connected(TIMEOUT) and nc.stats.reconnects == 1
        peer.send(*[Msg(b"b", b"2")] * 3, Msg(b"a", b"1"))
        assert plain.next_msg(TIMEOUT).subject == "a"
        assert len(list(limited)) == 5


def test_events_come_in_order_off_the_io_thread() -> None:
    callbacks = Callbacks()
    with FakeServer() as server, server.client(callbacks.connect) as (nc, peer):
        peer.close()
        again(server)
        assert callbacks.next() == "disconnect connection closed: the server closed the connection"
        assert callbacks.next() == "reconnect"
        nc.close(0)
        assert callbacks.next() == "close None"


def test_what_waits_for_the_old_connection_fails_at_once() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        calls: list[Background[object]] = [
            Background(lambda: nc.request("x", timeout=60)),
            Background(lambda: nc.flush(60)),
        ]
        assert {type(peer.next()) for _ in range(3)} == {Sub, Pub, Ping}
        peer.reset()
        for call in calls:
            with pytest.raises(errors.ConnectionReconnectingError, match="reset"):
                call.result()
        with pytest.raises(errors.ConnectionReconnectingError):
            nc.flush()
        peer = again(server)
        call = Background(lambda: nc.request("x", timeout=TIMEOUT))
        asked = peer.until(Pub)
        peer.send(Msg(asked.reply, b"1", b"", b"here"))
        assert call.result().data == b"here"


def test_a_subscriber_waits_on_over_the_loss() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        sub = nc.subscribe("a")
        call = Background(lambda: sub.next_msg(TIMEOUT))
        peer.subscribed()
        peer.reset()
        peer = again(server)
        peer.send(Msg(b"a", peer.subscribed(), b"", b"new"))
        assert call.result().data == b"new"


@pytest.mark.parametrize(
    ("size", "kind"),
    [(100, errors.OutboundBufferLimitError), (0, errors.ConnectionReconnectingError)],
)
def test_what_is_kept_meanwhile_has_a_limit(size: int, kind: type[errors.Error]) -> None:
    lost = threading.Event()
    connect = partial(fast, reconnect_buffer=size, on_disconnect=lambda error: lost.set())
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        peer = server.accept()  # and says nothing
        assert lost.wait(TIMEOUT)
        with pytest.raises(kind):
            for number in range(200):
                nc.publish("a", b"%d" % number)
        peer.greet()
        if size:
            assert peer.expect(Pub).payload == b"0"


def test_a_message_that_was_sent_in_part_is_sent_again_as_a_whole() -> None:
    payload = bytes(8 << 20)
    connect = partial(fast, reconnect_buffer=64 << 20)
    info = INFO.__class__(**{**_facts(), "max_payload": 64 << 20})
    with FakeServer() as server, server.client(connect, info) as (nc, peer):
        nc.publish("a", payload)
        peer.connection.recv(1000)  # it is on its way
        peer.reset()
        peer = server.accept()
        nc.publish("b", b"next")
        peer.greet(info)
        assert peer.expect(Pub).payload == payload
        assert peer.expect(Pub).payload == b"next"


@pytest.mark.parametrize("asked", [False, True], ids=["", "reconnect is called meanwhile"])
def test_a_connection_lost_as_it_is_made_keeps_what_waited_for_it(
    monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    callbacks = Callbacks()
    broken = threading.Event()
    write, wire = Loop.write, SubscriptionTable.wire
    with FakeServer() as server, server.client(callbacks.connect) as (nc, peer):
        flush: Waiter[bool] = nc._connection._supervisor.seat.waiter()

        def flushing(table: SubscriptionTable) -> bytes:
            """As another thread does that finds a connection."""
            if not broken.is_set():
                nc._connection.outbound.flush(flush)
            return wire(table)

        def breaking(loop: Loop, data: memoryview) -> int:
            """The first write after the handshake finds the server gone."""
            if b"meanwhile" in bytes(data) and not broken.is_set():
                broken.set()
                if asked:
                    nc.reconnect()
                raise ConnectionResetError(errno.ECONNRESET, "gone again")
            return write(loop, data)

        monkeypatch.setattr(SubscriptionTable, "wire", flushing)
        monkeypatch.setattr(Loop, "write", breaking)
        monkeypatch.setattr(Channel, "open", lambda channel: None)  # by way of the loop
        peer.close()
        peer = server.accept()
        assert callbacks.next().startswith("disconnect")
        nc.publish("a", b"meanwhile")
        peer.greet()
        assert broken.wait(TIMEOUT)
        assert again(server).expect(Pub).payload == b"meanwhile"
        with pytest.raises(errors.ConnectionReconnectingError, match="gone again"):
            flush.wait(TIMEOUT)
        assert callbacks.next() == "reconnect"
        assert callbacks.next() == "disconnect connection closed: gone again"
        assert callbacks.next() == "reconnect"
        assert nc.stats.out_msgs == 1


def _facts() -> dict[str, object]:
    return {name: getattr(INFO, name) for name in ("server_id", "headers", "client_id", "proto")}


def test_the_same_refusal_twice_is_the_end() -> None:
    callbacks = Callbacks()
    with FakeServer() as server, server.client(callbacks.connect) as (nc, peer):
        sub = nc.subscribe("a")
        peer.subscribed()
        peer.send(Err(b"User Authentication Expired"))
        peer.close()
        peer = server.accept()
        peer.send(Info(INFO.to_json()), Err(b"User Authentication Expired"))
        with pytest.raises(errors.ConnectionClosedError) as caught:
            sub.next_msg(TIMEOUT)
        assert isinstance(caught.value.__cause__, errors.AuthorizationError)
        assert callbacks.next().startswith("error")
        assert callbacks.next().startswith("disconnect")
        address = server.url.removeprefix("nats://")
        assert callbacks.next().startswith(f"error the server {address} reported")
        assert callbacks.next().startswith(f"close the server {address} reported")
        assert nc.status is natsync.Status.CLOSED


def test_a_refusal_may_be_ignored() -> None:
    connect = partial(fast, ignore_auth_errors=True)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        for _ in range(3):
            peer = server.accept()
            peer.send(Info(INFO.to_json()), Err(b"Authorization Violation"))
            peer.expect_end()
        again(server)
        assert nc.wait_connected(TIMEOUT)


def test_giving_up_is_reported() -> None:
    callbacks = Callbacks()
    connect: Callable[[str], natsync.Client] = partial(callbacks.connect, max_reconnects=2)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        for _ in range(2):
            server.accept().close()
        assert callbacks.next().startswith("disconnect")
        for _ in range(2):
            assert callbacks.next().startswith("error no connection to")
        assert callbacks.next().startswith("close no connection to")
        with pytest.raises(errors.ConnectionClosedError):
            nc.publish("a")
        with pytest.raises(errors.ConnectError):
            nc.wait_connected(TIMEOUT)


def test_the_first_connection_may_come_later() -> None:
    with FakeServer() as server:
        connect = partial(fast, retry_on_failed_connect=True, connect_timeout=TIMEOUT)
        call = server.connecting(connect)
        server.accept().close()
        with call.result() as nc:
            assert nc.status is natsync.Status.CONNECTING
            assert not nc.wait_connected(0.01)
            sub = nc.subscribe("a")
            nc.publish("a", b"early")
            peer = again(server)
            peer.subscribed()
            assert peer.expect(Pub).payload == b"early"
            assert nc.wait_connected(TIMEOUT) and nc.stats.reconnects == 0
            peer.send(Msg(b"a", b"1", b"", b"x"))
            assert sub.next_msg(TIMEOUT).data == b"x"
            peer.close()


def test_reconnect_gives_up_the_connection_and_makes_another() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        nc.publish("a", b"first")
        peer.expect(Pub)
        nc.reconnect()
        assert not nc.wait_connected(0.05)  # the connection that is given up does not count
        waiting = Background(lambda: nc.wait_connected(TIMEOUT))
        again(server)
        peer.expect_end()
        assert waiting.result() and nc.stats.reconnects == 1


def test_servers_are_discovered_and_tried() -> None:
    callbacks = Callbacks()
    with (
        FakeServer() as server,
        FakeServer() as other,
        server.client(callbacks.connect) as (nc, peer),
    ):
        there = f"127.0.0.1:{other.port}"
        news = INFO.__class__(**{**_facts(), "connect_urls": (there,)})
        peer.send(Info(news.to_json()))
        assert callbacks.next() == f"discover ['{there}']"
        peer.close()
        server.__exit__(None, None, None)
        again(other)
        assert callbacks.next().startswith("disconnect") and callbacks.next() == "reconnect"
        nc.close(0)


def test_a_lame_duck_is_reported_once() -> None:
    callbacks = Callbacks()
    with FakeServer() as server, server.client(callbacks.connect) as (nc, peer):
        news = INFO.__class__(**{**_facts(), "ldm": True})
        peer.send(Info(news.to_json()), Info(news.to_json()))
        assert callbacks.next() == "lame duck"
        nc.close(0)
        assert callbacks.next() == "close None"


def test_closing_ends_the_search_for_a_server() -> None:
    with (
        FakeServer() as server,
        server.client(partial(natsync.connect, reconnect_wait=60, reconnect_max_wait=60)) as (
            nc,
            peer,
        ),
    ):
        sub = nc.subscribe("a")
        peer.close()
        server.accept().close()  # the next try would be in a minute
        call = Background(sub.next_msg)
        nc.close(0)
        with pytest.raises(errors.ConnectionClosedError):
            call.result()


def test_reconnecting_on_request_does_not_wait_for_its_turn() -> None:
    connect = partial(natsync.connect, reconnect_wait=60, reconnect_max_wait=60)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.reset()
        server.accept().close()  # the first try comes at once
        eventually(lambda: nc._connection._supervisor.pool.rounds == 1)
        nc.reconnect()
        server.accept().greet()
        assert nc.wait_connected(TIMEOUT)


def test_a_connection_that_is_not_made_again_is_not_given_up_on_request() -> None:
    connect = partial(natsync.connect, reconnect=False)
    with FakeServer() as server, server.client(connect) as (nc, _):
        with pytest.raises(errors.OptionError, match="reconnect"):
            nc.reconnect()
        assert nc.status is natsync.Status.CONNECTED


def test_what_is_published_after_a_reconnect_goes_to_the_new_connection() -> None:
    with FakeServer() as server, server.client(fast) as (nc, peer):
        # As `reconnect`, and the I/O thread is asleep yet.
        nc._connection._supervisor.seat.end(Ending.REPLACE)
        nc.publish("a", b"later")
        peer.expect_end()
        peer = server.accept()
        peer.greet()
        assert peer.expect(Pub).payload == b"later"


def test_a_full_network_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    waits: SimpleQueue[float] = SimpleQueue()
    park = Seat.wait_idle

    def parking(
        seat: Seat, until: float, writing: bool, reading: bool, much: bool = False
    ) -> float:
        if writing:
            waits.put(until)
        return park(seat, until, writing, reading, much)

    monkeypatch.setattr(Seat, "wait_idle", parking)
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


def test_the_first_connection_is_told(caplog: pytest.LogCaptureFixture) -> None:
    """Also one that comes after failed attempts, which is logged, too; a later one is a reconnect."""
    caplog.set_level("INFO", "natsync")
    told: SimpleQueue[str] = SimpleQueue()
    connect = partial(
        fast,
        on_connect=lambda: told.put("connect"),
        on_reconnect=lambda: told.put("reconnect"),
        retry_on_failed_connect=True,
    )
    with FakeServer() as server:
        with server.client(connect) as (_, peer):
            assert told.get(timeout=TIMEOUT) == "connect"
            peer.close()
            again(server)
            assert told.get(timeout=TIMEOUT) == "reconnect"
        assert "connected to" not in [record.msg[:12] for record in caplog.records]
        caplog.clear()
        connecting = Background(lambda: connect(server.url))
        server.accept().close()
        with connecting.result() as nc:
            assert nc.status is natsync.Status.CONNECTING and told.empty()
            again(server)
            assert told.get(timeout=TIMEOUT) == "connect"
            logged = [record.getMessage() for record in caplog.records]
            assert f"connected to 127.0.0.1:{server.port}" in logged and told.empty()
            nc.close(timeout=0)
