"""The HTTP upgrade: facts of request and response, and why a server refuses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.websocket.http_upgrade import (
    is_refusal,
    refusal_text,
    request_facts,
    response_facts,
)

REQUEST = (
    b"GET /leafnode?token=s3cret&x HTTP/1.1\r\nhost: nats.example:8080\r\n"
    b"Upgrade: websocket\r\nOrigin: https://shop.example\r\nCookie: jwt=s3cret; theme=dark; bare\r\n"
    b"X-Forwarded-For: 203.0.113.7\r\n\r\n"
)
WANTED = b"HTTP/1.1 400 Bad Request\r\nSec-Websocket-Version: 13\r\nContent-Length: 3\r\n\r\nwebsocket: no\n"


def test_the_facts_of_a_request_show_no_secret() -> None:
    assert request_facts(REQUEST) == {
        "websocket_path": "/leafnode?token=***&***",
        "websocket_host": "nats.example:8080",
        "websocket_origin": "https://shop.example",
        "websocket_cookies": "jwt=***; theme=***; ***",
        "proxied_for": "203.0.113.7",
    }
    assert set(request_facts(b"").values()) == {None}


def test_addresses_in_a_request_show_no_password() -> None:
    facts = request_facts(
        b"GET http://bob:s3cret@b/leafnode?t=s3cret#s3cret HTTP/1.1\r\nHost: bob:s3cret@b:80\r\n"
        b"Origin: https://bob:s3cret@shop.example\r\n\r\n"
    )
    assert facts["websocket_path"] == "http://bob:***@b/leafnode?t=***"
    assert facts["websocket_host"] == "bob:***@b:80"
    assert facts["websocket_origin"] == "https://bob:***@shop.example"
    for path, shown in (
        (b"/a#s3cret", "/a"),
        (b"/a?t=bob:s3cret@b", "/a?t=***"),
        (b"http://bob:s3#cret@b/a", "http://bob:***@b/a"),
    ):
        assert request_facts(b"GET %s HTTP/1.1\r\n\r\n" % path)["websocket_path"] == shown


@pytest.mark.parametrize("value", [b"203.0.113.7, 10.0.0.1", b"fe80::1%eth0", b"unknown", b"\xff"])
def test_servers_take_a_single_address_from_proxies(value: bytes) -> None:
    facts = request_facts(REQUEST.replace(b"203.0.113.7", value))
    assert facts["proxied_for"] is None


def test_an_address_from_a_proxy_is_as_the_proxy_wrote_it() -> None:
    for value in (b"2001:DB8::7", b"::ffff:10.0.0.7"):
        assert (
            request_facts(REQUEST.replace(b"203.0.113.7", value))["proxied_for"] == value.decode()
        )


def test_what_both_sides_agreed_on() -> None:
    head = b"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Extensions: permessage-deflate; x\r\n\r\n"
    assert response_facts(head) == {
        "websocket_protocol": None,
        "websocket_extensions": "permessage-deflate; x",
    }


@pytest.mark.parametrize(
    "request_head, response, text",
    [
        (
            REQUEST,
            b"HTTP/1.1 403 Forbidden\r\n\r\norigin not allowed\n",
            "403 Forbidden: origin not allowed",
        ),
        (
            REQUEST,
            b"HTTP/1.1 302 Found\r\nLocation: https://b/?t=1\r\n\r\n",
            "302 Found, to https://b/",
        ),
        (
            REQUEST,
            b"HTTP/1.1 302 Found\r\nLocation: https://bob:s3cret@b/#access_token=s3cret\r\n\r\n",
            "302 Found, to https://bob:***@b/",
        ),
        (
            REQUEST,
            b"HTTP/1.1 502 Bad Gateway\r\n\r\nno route to nats://bob:s3cret@b:4222\n",
            "502 Bad Gateway: no route to nats://bob:***@b:4222",
        ),
        (REQUEST, b"HTTP/1.1 200 OK\r\n\r\n", "200 OK"),
        (b"GET / HTTP/1.1\r\n\r\n", WANTED, "400 Bad Request: websocket: no"),
        (
            b"POST / HTTP/1.1\r\n\r\n",
            b"HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
            "400 Bad Request: Client sent an HTTP request to an HTTPS server.",
        ),
    ],
)
def test_a_refused_upgrade_says_why(request_head: bytes, response: bytes, text: str) -> None:
    assert is_refusal(request_head, response)
    assert refusal_text(response) == text


@pytest.mark.parametrize(
    "request_head, response",
    [
        (REQUEST, b"HTTP/1.1 101 Switching Protocols\r\n\r\n"),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 404 Not Found\r\n\r\n"),
        (REQUEST, b"INFO {}\r\n"),
    ],
)
def test_what_is_no_refusal(request_head: bytes, response: bytes) -> None:
    assert not is_refusal(request_head, response)


@given(st.binary(max_size=80), st.binary(max_size=80))
def test_any_bytes_are_taken(one: bytes, other: bytes) -> None:
    request_facts(b"GET /" + one)
    response_facts(b"HTTP/1.1 101" + one)
    refusal_text(b"HTTP/1.1 400 " + one + b"\r\n\r\n" + other)
    is_refusal(one, other)
