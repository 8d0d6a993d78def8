"""Connecting to servers that misbehave: faults at every step, and every byte of the greeting."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable
from functools import partial
from time import monotonic, process_time

import pytest

import natsync
from natsync import errors
from natsync.protocol import Connect, Err, Info, Ping

from tests.support.fake_server import INFO, Background, FakeServer, Peer

NONCE = INFO.replace(nonce="to be signed")
SECRET = "s3cr3t"
GREETING = b"INFO " + INFO.to_json() + b"\r\n"


def connect_to(play: Callable[[Peer], None], timeout: float = 10) -> BaseException:
    """The error of a connect to a server that plays this."""
    with FakeServer() as server:
        connect = partial(natsync.connect, user="u", password=SECRET, connect_timeout=timeout)
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
    assert (error.step, error.reason) == (
        "info",
        "the server closed the connection; does it expect TLS first, or a WebSocket?",
    )


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
    error = connect_to(lambda peer: peer.send(GREETING), timeout=0.5)
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
    if isinstance(error, errors.AuthorizationError):
        assert error.server.startswith("127.0.0.1:") and error.server in str(error)


def test_refused_right_after_info_and_reset() -> None:
    def play(peer: Peer) -> None:
        peer.send(GREETING, Err(b"maximum connections exceeded"))
        peer.expect_end()
        peer.reset()

    assert isinstance(connect_to(play), errors.ServerError)


def test_nobody_listens() -> None:
    with FakeServer() as server:
        url = server.url
    with pytest.raises(errors.ConnectError, match="Connection refused") as caught:
        natsync.connect(url)
    assert caught.value.step == "tcp"


def test_a_name_nobody_has() -> None:
    with pytest.raises(errors.ConnectError) as caught:
        natsync.connect("nats://no.such.host.invalid", connect_timeout=10)
    assert caught.value.step == "dns"


def test_a_backlog_that_is_full() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as sink:
        place = sink.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(place)
        try:
            with pytest.raises(errors.ConnectTimeoutError) as caught:
                natsync.connect(f"nats://127.0.0.1:{place[1]}", connect_timeout=0.1)
            assert caught.value.step == "tcp"
        finally:
            for filler in fillers:
                filler.close()


def test_a_signature_that_takes_too_long() -> None:
    """Nor does the thread that waits for it turn in circles while the server says something."""
    release = threading.Event()

    def sign(nonce: bytes) -> bytes:
        release.wait(10)
        return bytes(64)

    with FakeServer() as server:
        call = server.connecting(
            partial(natsync.connect, jwt="a.b.c", sign=sign, connect_timeout=1.0)
        )
        server.accept().send(Info(NONCE.to_json()), Ping())
        begun = process_time()
        with pytest.raises(errors.ConnectTimeoutError) as caught:
            call.result()
        assert caught.value.step == "auth" and process_time() - begun < 0.3
    release.set()


def test_closing_does_not_wait_for_a_signature(caplog: pytest.LogCaptureFixture) -> None:
    asked, release = threading.Event(), threading.Event()
    signing: list[str] = []

    def sign(nonce: bytes) -> bytes:
        signing.append(threading.current_thread().name)
        if len(signing) > 1:
            asked.set()
            release.wait(10)
        return bytes(64)

    connect = partial(natsync.connect, jwt="a.b.c", sign=sign, connect_timeout=10)
    with FakeServer() as server, server.client(connect, NONCE) as (nc, peer):
        peer.close()
        server.accept().send(Info(NONCE.to_json()))
        assert asked.wait(10)
        with pytest.raises(errors.RequestTimeoutError):
            nc.request("a", timeout=0.01)
        begun = monotonic()
        nc.close(0)
        assert monotonic() - begun < 5.0 and not caplog.records
    assert {name.rpartition("-")[2] for name in signing} == {"blocking"}
    release.set()


def test_servers_are_tried_in_order_within_one_deadline() -> None:
    with FakeServer() as dead, FakeServer() as silent, FakeServer() as good:
        dead.__exit__(None, None, None)
        urls = [dead.url, silent.url, good.url]
        call = Background(lambda: natsync.connect(urls, connect_timeout=3, randomize=False))
        silent.accept()
        good.accept().greet()
        call.result().close(0)
        start = monotonic()
        with pytest.raises(errors.NoServersError) as caught:
            natsync.connect(",".join(urls), connect_timeout=1.0, randomize=False)
        assert monotonic() - start < 5
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


def test_an_interrupted_connect_leaves_nothing() -> None:
    main = threading.get_ident()

    def interrupt() -> None:
        peer = server.accept()
        signal.pthread_kill(main, signal.SIGINT)
        peer.expect_end()

    with FakeServer() as server:
        call = Background(interrupt)
        with pytest.raises(KeyboardInterrupt):
            natsync.connect(server.url, connect_timeout=10)
        call.result()
