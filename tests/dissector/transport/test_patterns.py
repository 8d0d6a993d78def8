"""How frames of NATS and messages of HTTP begin."""

from __future__ import annotations

import pytest

from dissect.nats.transport.patterns import greets, is_http, may_begin_nats


@pytest.mark.parametrize(
    "head, expected",
    [
        (b"P", True),
        (b"PUB a 0\r\n", True),
        (b'CONNECT{"a":1}\r\n', True),
        (b"\x16", False),
        (b"GET / HTTP/1.1\r\n", False),
        (b"POST /a HTTP/1.1\r\n", False),
    ],
)
def test_first_bytes_of_an_originator_that_may_be_a_frame(head: bytes, expected: bool) -> None:
    assert may_begin_nats(head) is expected


def test_a_handshake_frame_is_info_or_connect_with_json() -> None:
    assert greets(b"INFO {") and greets(b"connect\t{")
    assert not greets(b"CONNECT example.org:443 HTTP/1.1\r\n")


def test_an_upgrade_to_websocket_is_no_plain_http() -> None:
    assert is_http(b"GET /varz HTTP/1.1\r\n\r\n") and is_http(b"HTTP/1.1 200 OK\r\n")
    assert not is_http(b"GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n")
