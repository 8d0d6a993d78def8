"""A connection's life against a server that misbehaves: what each fault costs, and whom it reaches."""

from __future__ import annotations

import threading
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.loop import Loop
from natsync._engine.supervisor import Supervisor
from natsync.protocol import Err, Info, Msg, Ping, Pong, Pub, Sub, Unsub

from tests.support.fake_server import INFO, Background, FakeServer
from tests.support.waiting import eventually

once = partial(natsync.connect, reconnect=False)


def test_a_message_split_at_every_byte() -> None:
    wire = b"MSG a 1 re 12\r\nwith\r\nPING\r\n\r\n"
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        assert peer.subscribed() == b"1"
        for cut in range(1, len(wire)):
            peer.send(wire[:cut])
            peer.send(wire[cut:])
            msg = sub.next_msg(10)
            assert (msg.data, msg.reply) == (b"with\r\nPING\r\n", "re")
        for byte in wire * 3:
            peer.send(bytes([byte]))
        assert [sub.next_msg(10).reply for _ in range(3)] == ["re"] * 3


def test_pings_of_the_server_are_answered_while_a_handler_blocks() -> None:
    release, entered = threading.Event(), threading.Event()

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        release.wait(10)

    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        peer.send(Msg(b"a", peer.subscribed()))
        assert entered.wait(10)
        for _ in range(3):
            peer.send(Ping())
            peer.expect(Pong)
        release.set()


def test_keep_alive_pings_and_a_stale_connection() -> None:
    closed: list[errors.Error | None] = []
    ended = threading.Event()

    def on_close(error: errors.Error | None) -> None:
        closed.append(error)
        ended.set()

    connect = partial(once, ping_interval=0.05, max_pings_out=20, on_close=on_close)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        for _ in range(5):
            peer.expect(Ping)
            peer.send(Pong())
        assert nc.status is natsync.Status.CONNECTED
        sub = nc.subscribe("a")
        with pytest.raises(errors.ConnectionClosedError, match="stale") as caught:
            sub.next_msg(10)
        assert isinstance(caught.value.__cause__, errors.StaleConnectionError)
        assert ended.wait(10)
    assert isinstance(closed[0], errors.StaleConnectionError)


def test_the_longest_waits_there_are() -> None:
    connect = partial(natsync.connect, connect_timeout=4e6, ping_interval=4e6, write_timeout=4e6)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sub = nc.subscribe("a")
        waits = [Background(lambda: sub.next_msg(1e10)), Background(lambda: sub.next_msg(None))]
        call = Background(lambda: nc.flush(1e10))
        sid = peer.subscribed()
        peer.expect(Ping)
        peer.send(Msg(b"a", sid), Msg(b"a", sid), Pong())
        call.result()
        for wait in waits:
            wait.result()
        closing = Background(lambda: nc.close(float("inf")))
        peer.expect_end()
        closing.result()


def test_a_lost_connection_reaches_everyone(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[errors.Error | None] = []
    with FakeServer() as server:
        connect = partial(once, on_close=closed.append)
        with server.client(connect) as (nc, peer):
            sub = nc.subscribe("a")
            waits: list[Background[object]] = [
                Background(lambda: nc.request("x", timeout=10)),
                Background(lambda: nc.flush(10)),
                Background(lambda: sub.next_msg(10)),
                Background(lambda: list(sub)),
            ]
            asked = {type(peer.next()) for _ in range(4)}
            assert asked == {Sub, Pub, Ping}  # the PING is not answered: the flush waits
            peer.reset()
            for wait in waits:
                with pytest.raises(errors.ConnectionClosedError, match="closed: .+"):
                    wait.result()
            for late in (
                lambda: nc.publish("a"),
                lambda: nc.request("a"),
                lambda: nc.subscribe("a"),
                nc.flush,
                nc.rtt,
            ):
                with pytest.raises(errors.ConnectionClosedError, match="closed: .+"):
                    late()
            assert nc.status is natsync.Status.CLOSED
    assert len(closed) == 1 and closed[0] is not None


@pytest.mark.parametrize(
    ("wire", "kind"),
    [(b"-ERR 'Maximum Payload Violation'\r\n", errors.ServerError), (b"", None)],
)
def test_a_write_that_fails_looks_for_the_reason(
    monkeypatch: pytest.MonkeyPatch, wire: bytes, kind: type | None
) -> None:
    with FakeServer() as server, server.client(once) as (nc, peer):

        def write(loop: Loop, data: memoryview) -> int:
            peer.send(wire)
            raise BrokenPipeError(32, "Broken pipe")

        monkeypatch.setattr(Loop, "write", write)
        monkeypatch.setattr(nc._connection._supervisor.seat.channel, "_calls", None)
        sub = nc.subscribe("a")
        with pytest.raises(errors.ConnectionClosedError) as caught:
            sub.next_msg(10)
        if kind:
            assert isinstance(caught.value.__cause__, kind)
        else:
            assert caught.value.reason == "Broken pipe"


def test_what_the_server_said_last_is_why() -> None:
    reported: list[errors.Error] = []
    connect = partial(once, on_error=reported.append)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sub = nc.subscribe("a")
        peer.subscribed()
        peer.send(Err(b"User Authentication Expired"))
        peer.close()
        with pytest.raises(errors.ConnectionClosedError) as caught:
            sub.next_msg(10)
        assert isinstance(caught.value.__cause__, errors.AuthorizationError)
        nc.close()
    assert [type(error) for error in reported] == [errors.AuthorizationError]


def test_garbage_ends_the_connection() -> None:
    with FakeServer() as server, server.client(once) as (nc, peer):
        sub = nc.subscribe("a")
        peer.send(Msg(b"a", peer.subscribed(), b"", b"before"), b"GARBAGE\r\n")
        assert sub.next_msg(10).data == b"before"
        with pytest.raises(errors.ConnectionClosedError) as caught:
            sub.next_msg(10)
        assert isinstance(caught.value.__cause__, errors.ProtocolError)


def test_a_late_flush_answer_is_not_taken_for_the_next() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        with pytest.raises(errors.FlushTimeoutError):
            nc.flush(0.01)
        peer.expect(Ping)
        call = Background(lambda: nc.flush(10))
        peer.expect(Ping)
        peer.send(Pong())  # of the first
        peer.send(Ping())
        peer.expect(Pong)  # the client has read both
        assert not call.done
        peer.send(Pong())
        call.result()
        call = Background(lambda: nc.flush(10))
        peer.expect(Ping)
        peer.send(Pong())
        call.result()


def test_a_new_info_replaces_the_old() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        peer.send(Info(b'{"server_name":"new","max_payload":5}'), Ping())
        peer.expect(Pong)
        assert (nc.server_info.server_name, nc.server_info.server_id) == ("new", "")
        nc.publish("a", b"12345")
        with pytest.raises(errors.MaxPayloadError):
            nc.publish("a", b"123456")
        with pytest.raises(errors.HeadersNotSupportedError):
            nc.publish("a", headers={"a": "b"})


def test_a_server_that_stops_reading_holds_back_publishers() -> None:
    connect = partial(natsync.connect, write_timeout=0.05)
    payload = bytes(64 << 10)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sent = 0
        with pytest.raises(errors.OutboundBufferLimitError):
            for sent in range(2000):
                nc.publish("a", payload)
        assert 0 < sent < 1999
        peer.connection.settimeout(10)
        for _ in range(sent):
            assert peer.expect(Pub).payload == payload
        call = Background(lambda: nc.publish("a", b"on it goes"))
        assert peer.expect(Pub).payload == b"on it goes"
        call.result()


def test_who_waits_after_unsent_data_learns_of_it_too(caplog: pytest.LogCaptureFixture) -> None:
    large = 100 << 20  # more than the system keeps for who does not read: some of it stays unsent
    with (
        FakeServer() as server,
        server.client(once, INFO.replace(max_payload=large)) as (nc, peer),
    ):
        outbound = nc._connection.outbound
        nc.publish("a", bytes(large))
        peer.connection.recv(1)  # it is on its way, and so nothing is taken of what comes after it
        assert not outbound.items
        flush = Background(lambda: nc.flush(60))
        eventually(lambda: outbound.items)
        nc.publish("a", bytes(1 << 20))
        assert outbound.is_full
        call = Background(lambda: nc.publish("a"))
        peer.reset()
        for ended in (flush, call):
            with pytest.raises(errors.ConnectionClosedError):
                ended.result()
        nc.close()
    assert "closed with 2 messages" in caplog.text


def test_closing_ends_subscriptions_before_it_waits() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        wait = Background(sub.next_msg)
        call = Background(lambda: nc.close(60))
        with pytest.raises(errors.ConnectionClosedError):
            wait.result()
        assert not call.done
        peer.expect_end()
        call.result()


def test_closing_waits_for_what_was_published_but_not_for_ever() -> None:
    with FakeServer() as server:
        with server.client() as (nc, peer):
            nc.publish("a", b"last")
            call = Background(nc.close)
            assert peer.expect(Pub).payload == b"last"
            peer.expect(Ping)
            assert not call.done
            peer.send(Pong())
            call.result()
            assert peer.next() is None
        with server.client() as (nc, peer):
            start = monotonic()
            nc.close(timeout=0.05)  # a server that does not answer
            assert monotonic() - start < 5


def test_a_close_that_was_interrupted_is_done_by_the_next_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Threads are joined then, as ever."""
    join = Supervisor.join

    def interrupted(supervisor: Supervisor, until: float) -> bool:
        monkeypatch.setattr(Supervisor, "join", join)
        raise KeyboardInterrupt

    release, entered = threading.Event(), threading.Event()

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        release.wait(10)

    before = threading.active_count()
    with FakeServer() as server, server.client() as (nc, peer):
        nc.subscribe("a", handler=handler)
        peer.send(Msg(b"a", peer.subscribed()))
        assert entered.wait(10)
        monkeypatch.setattr(Supervisor, "join", interrupted)
        with pytest.raises(KeyboardInterrupt):
            nc.close(0)
        threading.Timer(0.1, release.set).start()
        nc.close(10)
        assert threading.active_count() <= before + 1  # the timer's


def test_closing_while_the_server_is_gone() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        peer.close()
        nc.close()
        nc.close()


def test_unsubscribing_and_limits_on_the_wire() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        first = nc.subscribe("a", queue="q", max_msgs=3)
        assert peer.expect(Sub) == Sub(b"a", b"1", b"q")
        assert peer.expect(Unsub) == Unsub(b"1", 3)
        peer.send(*[Msg(b"a", b"1", b"", b"%d" % number) for number in range(5)])
        assert [msg.data for msg in first] == [b"0", b"1", b"2"]
        with pytest.raises(errors.MaxMessagesError):
            first.next_msg(0)
        second = nc.subscribe("b")
        assert peer.subscribed() == b"2"
        second.unsubscribe()
        assert peer.expect(Unsub) == Unsub(b"2")
        peer.send(Msg(b"b", b"2"), Ping())
        peer.expect(Pong)
        assert (second.received, second.closed) == (0, True)


def test_a_limit_that_is_reached_already_ends_it() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        peer.send(Msg(b"a", peer.subscribed(), b"", b"1"), Msg(b"a", b"1", b"", b"2"), Ping())
        peer.expect(Pong)
        sub.unsubscribe(max_msgs=2)
        assert peer.expect(Unsub) == Unsub(b"1")
        assert [msg.data for msg in sub] == [b"1", b"2"]


def test_a_slow_consumer_is_reported_once_an_episode() -> None:
    reported: list[errors.Error] = []
    connect = partial(natsync.connect, on_error=reported.append)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        sub = nc.subscribe("a", pending_msgs_limit=2)
        burst = [Msg(b"a", peer.subscribed(), b"", b"x")] * 5
        for _ in range(2):
            peer.send(*burst, Ping())
            peer.expect(Pong)
            peer.send(*burst, Ping())
            peer.expect(Pong)
            sub.next_msg(0)
            sub.next_msg(0)
        assert (sub.received, sub.dropped, sub.delivered) == (20, 16, 4)
        nc.close(0)
    assert [type(error) for error in reported] == [errors.SlowConsumerError] * 2


def test_a_denied_subscription_is_raised_where_it_is_read() -> None:
    reported: list[errors.Error] = []
    connect = partial(natsync.connect, on_error=reported.append)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        denied, fine = nc.subscribe("a.>", queue="q"), nc.subscribe("a.>")
        peer.subscribed()
        peer.subscribed()
        text = b'Permissions Violation for Subscription to "a.>" using queue "q"'
        peer.send(Err(text), Msg(b"a.b", b"2"))
        with pytest.raises(errors.PermissionsViolationError):
            denied.next_msg(10)
        assert fine.next_msg(10).subject == "a.b"
        nc.close(0)
    assert [type(error) for error in reported] == [errors.PermissionsViolationError]


@pytest.mark.parametrize("waits", [False, True])
def test_an_error_within_reaches_callers(monkeypatch: pytest.MonkeyPatch, waits: bool) -> None:
    with FakeServer() as server, server.client(once) as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()

        def broken(frames: object) -> int:
            raise RuntimeError("a bug")

        monkeypatch.setattr(sub._sink, "deliver", broken)
        peer.send(Msg(b"a", sid))
        if waits:  # so that it may be this thread which meets it, as it would an interrupt
            with pytest.raises((RuntimeError, errors.ConnectionClosedError), match="a bug"):
                sub.next_msg(10)
        else:
            assert nc._connection._supervisor.ended.wait(10)
        with pytest.raises(errors.ConnectionClosedError, match="internal error|interrupted"):
            sub.next_msg(10)
