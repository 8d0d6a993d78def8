"""A tunnel through an HTTP proxy: the request, answers in pieces, refusals; and clients that connect so."""

from __future__ import annotations

import pytest

import natsync
from natsync import errors
from natsync._engine.http_proxy import Tunnel
from natsync.options import Server, parse_proxy
from natsync.protocol import Pub

from tests.support.fake_server import Background, FakeServer
from tests.support.http_proxy import ConnectProxy

SERVER = Server("nats.example", 4222)
OPENED = b"HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n"


def test_the_request() -> None:
    assert Tunnel(Server("proxy"), SERVER).request == (
        b"CONNECT nats.example:4222 HTTP/1.1\r\nHost: nats.example:4222\r\n\r\n"
    )
    named = Tunnel(Server("proxy", user="a", password="b:c"), Server("::1", 80)).request
    assert named.startswith(b"CONNECT [::1]:80 HTTP/1.1\r\n")
    assert b"\r\nProxy-Authorization: Basic YTpiOmM=\r\n" in named


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_answer_may_come_in_pieces(size: int) -> None:
    made = Tunnel(Server("proxy"), SERVER)
    wire = OPENED + b"INFO"
    rests = [made.feed(wire[at : at + size]) for at in range(0, len(OPENED), size)]
    assert rests[:-1] == [None] * (len(rests) - 1)
    assert rests[-1] is not None and b"INFO".startswith(rests[-1])


@pytest.mark.parametrize(
    "answer, expected",
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "HTTP/1.1 407 Proxy"),
        (b"INFO {}\r\n", "INFO {}"),
        (b"HTTP/1.1\r\n\r\n", "HTTP/1.1"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 4000, "HTTP/1.1 200 OK"),
    ],
)
def test_an_answer_that_refuses(answer: bytes, expected: str) -> None:
    with pytest.raises(OSError, match=f"the proxy opened no tunnel, it said '{expected}"):
        Tunnel(Server("proxy"), SERVER).feed(answer)


def test_a_client_behind_a_proxy_that_wants_a_password() -> None:
    with FakeServer() as server, ConnectProxy(password="s3cret") as proxy:
        call = Background(lambda: natsync.connect(server.url, http_proxy=proxy.url))
        peer = server.accept()
        peer.greet()
        with call.result() as nc:
            nc.publish("a", b"x")
            assert peer.expect(Pub).payload == b"x"
            nc.close(0)
        assert proxy.asked[0].startswith(f"CONNECT 127.0.0.1:{server.port} HTTP".encode())
        assert "s3cret" not in repr(nc) + repr(parse_proxy(proxy.url))


def test_a_proxy_that_refuses_is_named() -> None:
    with ConnectProxy(answer=b"HTTP/1.1 403 Forbidden\r\n\r\n") as proxy:
        with pytest.raises(
            errors.ConnectError, match="opened no tunnel, .*403 Forbidden"
        ) as caught:
            natsync.connect("nats://nats.example", http_proxy=proxy.url)
    assert caught.value.step == "proxy"


def test_a_proxy_that_is_not_there_is_not_taken_for_the_server() -> None:
    with pytest.raises(errors.ConnectError, match="opening a tunnel through the proxy: ") as caught:
        natsync.connect("nats://nats.example", http_proxy="http://127.0.0.1:1")
    assert caught.value.step == "proxy"


@pytest.mark.parametrize(
    "url", ["https://proxy:3128", "proxy:3128", "http://", "http://a:b", "http://p:1/path", ""]
)
def test_a_url_that_names_no_proxy(url: str) -> None:
    with pytest.raises(errors.OptionError, match="http_proxy"):
        natsync.connect(http_proxy=url)


def test_a_proxy_and_a_socket_of_the_programs_exclude_each_other() -> None:
    with pytest.raises(errors.OptionError, match="http_proxy"):
        natsync.connect(http_proxy="http://p:1", open_socket=lambda host, port: None)
