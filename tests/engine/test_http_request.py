"""The tunnel through an HTTP proxy, and the upgrade to a WebSocket: requests, answers in pieces, refusals;
and clients behind a proxy."""

from __future__ import annotations

import re
from enum import Enum

import pytest

import natsync
from natsync import errors
from natsync._engine.http_request import MOST_HEAD_BYTES, Tunnel, Upgrade
from natsync.options import Server, parse_proxy
from natsync.protocol import Pub
from natsync.protocol.websocket import accept_key

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


def upgrade(compresses: bool = False) -> tuple[Upgrade, bytes]:
    """A request, and the answer that a server gives."""
    made = Upgrade("example:80", "/nats?a=b", {"X-Team": "shop"}, compresses)
    found = re.search(rb"Sec-WebSocket-Key: (\S+)\r\n", made.request)
    assert found
    accept = accept_key(found[1].decode())
    return (
        made,
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Accept: {accept}\r\n\r\n"
        ).encode(),
    )


def test_the_upgrade_has_the_path_and_the_programs_headers() -> None:
    made, _ = upgrade(compresses=True)
    lines = made.request.decode().split("\r\n")
    assert lines[:3] == ["GET /nats?a=b HTTP/1.1", "Host: example:80", "Upgrade: websocket"]
    assert "X-Team: shop" in lines and lines[-2:] == ["", ""]
    assert any("permessage-deflate; server_no_context_takeover" in line for line in lines)


def test_a_host_of_the_program_replaces_that_of_the_url() -> None:
    lines = Upgrade("10.0.0.1:80", "/", {"HOST": "nats.example", "A": "b"}, False).request.split(
        b"\r\n"
    )
    assert [line for line in lines if line.lower().startswith(b"host")] == [b"Host: nats.example"]
    assert b"A: b" in lines


def test_headers_from_an_enum_stand_for_their_values() -> None:
    class Field(str, Enum):
        HOST = "Host"
        TEAM = "X-Team"
        SHOP = "shop"

    headers = {Field.HOST: Field.SHOP, Field.TEAM: Field.SHOP}
    lines = Upgrade("10.0.0.1:80", "/", headers, False).request.split(b"\r\n")
    assert b"Host: shop" in lines and b"X-Team: shop" in lines


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_answer_of_a_server_may_come_in_pieces(size: int) -> None:
    made, answer = upgrade()
    wire = answer + b"\x82\x04INFO"
    rests = [made.feed(wire[at : at + size]) for at in range(0, len(answer), size)]
    assert rests[:-1] == [None] * (len(rests) - 1)
    assert rests[-1] is not None and (b"\x82\x04INFO").startswith(rests[-1])
    assert not made.compresses


@pytest.mark.parametrize(
    "answer, reason",
    [
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "it said 'HTTP/1.1 403 Forbidden'"),
        (b"INFO {}\r\n", "it said 'INFO {}'"),
        (
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "it said 'HTTP/1.0 400 Bad Request'; it expects wss://$",
        ),
        (
            b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "the answer to the WebSocket key is wrong|key is wrong",
        ),
        (b"HTTP/1.1 " + b"x" * MOST_HEAD_BYTES, "it said 'HTTP/1.1 xxx"),
    ],
)
def test_a_server_that_refuses(answer: bytes, reason: str) -> None:
    with pytest.raises(OSError, match=reason):
        upgrade()[0].feed(answer)
