"""A connection's life against a server that misbehaves: faults at every step, and at every byte."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync.protocol import Connect, Err, Info, Msg, Ping, Pong, Pub, ServerInfo, Sub, Unsub

from tests.support.fake_server import INFO, Background, FakeServer, Peer

SECRET = "s3cr3t"
GREETING = b"INFO " + INFO.to_json() + b"\r\n"


def connect_to(play: Callable[[Peer], None], timeout: float = 10) -> BaseException:
    """The error of a connect to a server that plays this."""
    with FakeServer() as server:
        connect = partial(natsync.connect, user="u", password=SECRET, timeout=timeout)
        call = server.connecting(connect)
        peer = server.accept()
        play(peer)
        with pytest.raises(errors.Error) as caught:
            call.result()
    assert SECRET not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("size", [0, 1, 4, 20, len(GREETING) - 1])
def test_a_server_that_hangs_up_within_its_info(size: int) -> None:
    def play(peer: Peer) -> None:
        peer.send(GREETING[:size])
        peer.close()

    error = connect_to(play)
    assert isinstance(error, errors.ConnectError)
    assert (error.step, error.reason) == ("info", "the server closed the connection")


@pytest.mark.parametrize("size", [0, 10])
def test_a_server_that_says_nothing_more(size: int) -> None:
    error = connect_to(lambda peer: peer.send(GREETING[:size]), timeout=0.05)
    assert isinstance(error, errors.ConnectTimeoutError)
    assert error.step == "info"


@pytest.mark.parametrize(
    "garbage",
    [b"HTTP/1.1 200 OK\r\n\r\n", b"220 smtp ready\r\n", bytes(100), b"INFO {]\r\n", b"INFO \r\n"],
)
def test_a_server_that_is_none(garbage: bytes) -> None:
    error = connect_to(lambda peer: peer.send(garbage))
    assert isinstance(error, errors.ConnectError) and error.step == "info"
    assert isinstance(error.__cause__, errors.ProtocolError)


def test_a_server_that_hangs_up_on_connect() -> None:
    def play(peer: Peer) -> None:
        peer.send(Info(INFO.to_json()))
        peer.expect(Connect)
        peer.close()

    error = connect_to(play)
    assert isinstance(error, errors.ConnectError) and error.step == "connect"


def test_a_server_that_never_answers_connect() -> None:
    error = connect_to(lambda peer: peer.send(GREETING), timeout=0.05)
    assert isinstance(error, errors.ConnectTimeoutError) and error.step == "connect"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (b"Authorization Violation", errors.AuthorizationError),
        (b"User Authentication Expired", errors.AuthorizationError),
        (b"maximum connections exceeded", errors.ServerError),
    ],
)
def test_refused_by_the_server(text: bytes, kind: type) -> None:
    def play(peer: Peer) -> None:
        peer.send(Info(INFO.to_json()))
        peer.expect(Connect)
        peer.send(Err(text))
        peer.close()

    error = connect_to(play)
    assert type(error) is kind
    assert getattr(error, "text").encode() == text


def test_refused_right_behind_info_and_reset() -> None:
    def play(peer: Peer) -> None:
        peer.send(GREETING, Err(b"maximum connections exceeded"))
        peer.expect_end()
        peer.reset()

    assert isinstance(connect_to(play), errors.ServerError)


def test_a_server_that_requires_tls() -> None:
    error = connect_to(lambda peer: peer.send(Info(ServerInfo(tls_required=True).to_json())))
    assert isinstance(error, errors.SecureConnRequiredError)
    assert "TLS" in str(error)


def test_nobody_listens() -> None:
    with FakeServer() as server:
        url = server.url
    with pytest.raises(errors.ConnectError, match="Connection refused") as caught:
        natsync.connect(url)
    assert caught.value.step == "tcp"


def test_a_name_nobody_has() -> None:
    with pytest.raises(errors.ConnectError) as caught:
        natsync.connect("nats://no.such.host.invalid", timeout=10)
    assert caught.value.step == "dns"


def test_a_backlog_that_is_full() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        place = listener.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(place)
        try:
            with pytest.raises(errors.ConnectTimeoutError) as caught:
                natsync.connect(f"nats://127.0.0.1:{place[1]}", timeout=0.1)
            assert caught.value.step == "tcp"
        finally:
            for filler in fillers:
                filler.close()


def test_servers_are_tried_in_order_within_one_deadline() -> None:
    with FakeServer() as dead, FakeServer() as silent, FakeServer() as good:
        dead.__exit__(None, None, None)
        urls = [dead.url, silent.url, good.url]
        call = Background(lambda: natsync.connect(urls, timeout=3))
        silent.accept()
        good.accept().greet()
        call.result().close(0)
        start = monotonic()
        with pytest.raises(errors.NoServersError) as caught:
            natsync.connect(",".join(urls), timeout=0.3)
        assert monotonic() - start < 2
    assert [getattr(error, "step") for error in caught.value.errors] == ["tcp", "info", "info"]


@pytest.mark.parametrize("size", range(1, len(GREETING), 7))
def test_a_greeting_in_two_pieces(size: int) -> None:
    with FakeServer() as server:
        call = server.connecting(natsync.connect)
        peer = server.accept()
        peer.send(GREETING[:size])
        peer.send(GREETING[size:])
        peer.expect(Connect)
        peer.expect(Ping)
        peer.send(b"PO")
        peer.send(b"NG\r\n")
        call.result().close(0)


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

    connect = partial(natsync.connect, ping_interval=0.03, max_pings_out=2, on_close=on_close)
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


def test_a_lost_connection_reaches_everyone(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[errors.Error | None] = []
    with FakeServer() as server:
        connect = partial(natsync.connect, on_close=closed.append)
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


def test_what_the_server_said_last_is_why() -> None:
    reported: list[errors.Error] = []
    connect = partial(natsync.connect, on_error=reported.append)
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
    with FakeServer() as server, server.client() as (nc, peer):
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


def test_closing_while_the_server_is_gone() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        peer.close()
        nc.close()
        nc.close()


def test_an_interrupted_connect_leaves_nothing() -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        peer = server.accept()
        signal.pthread_kill(main, signal.SIGINT)
        peer.expect_end()

    with FakeServer() as server:
        call = Background(interrupt)
        with pytest.raises(KeyboardInterrupt):
            natsync.connect(server.url, timeout=10)
        call.result()


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


def test_a_slow_consumer_is_told_once_an_episode() -> None:
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


def test_an_error_in_the_io_thread_reaches_callers(monkeypatch: pytest.MonkeyPatch) -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        sid = peer.subscribed()

        def broken(frames: object) -> int:
            raise RuntimeError("a bug")

        monkeypatch.setattr(sub, "deliver", broken)
        peer.send(Msg(b"a", sid))
        with pytest.raises(errors.ConnectionClosedError, match="internal error: a bug"):
            sub.next_msg(10)
