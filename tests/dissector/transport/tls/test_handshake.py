"""Hellos: randoms, version, suite, extensions, and hostile ones."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dissect.nats.transport.tls.handshake import CLIENT_HELLO, SERVER_HELLO, Handshake, extensions

RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")


def server_hello(random: bytes, code: int, extra: bytes, session: bytes = b"id") -> bytes:
    body = b"\x03\x03" + random + bytes([len(session)]) + session + code.to_bytes(2, "big") + b"\0"
    return body + len(extra).to_bytes(2, "big") + extra


def test_the_hellos_of_tls_13() -> None:
    handshake = Handshake()
    handshake.read(CLIENT_HELLO, b"\x03\x03" + b"c" * 32 + b"\0")
    assert not handshake.is_known
    handshake.read(SERVER_HELLO, server_hello(RETRY, 0x1301, b""))
    assert not handshake.is_known
    handshake.read(SERVER_HELLO, server_hello(b"s" * 32, 0x1303, b"\0\x2b\0\x02\x03\x04"))
    assert handshake.is_known and handshake.is_13
    assert handshake.client_random == b"c" * 32
    assert handshake.suite and handshake.suite.name == "TLS_CHACHA20_POLY1305_SHA256"


def test_the_hellos_of_tls_12() -> None:
    handshake = Handshake()
    handshake.read(SERVER_HELLO, server_hello(b"s" * 32, 0xC013, b"\0\x16\0\0", b""))
    assert not handshake.is_13 and handshake.encrypts_then_macs
    assert handshake.suite and handshake.suite.mac == "sha1"
    handshake.read(SERVER_HELLO, server_hello(b"s" * 32, 0x0001, b""))
    assert handshake.suite is None and not handshake.encrypts_then_macs


@given(st.binary(max_size=120))
def test_any_bytes_are_taken(body: bytes) -> None:
    handshake = Handshake()
    handshake.read(CLIENT_HELLO, body)
    handshake.read(SERVER_HELLO, body)
    assert handshake.is_known is (len(body) >= 34 and body[2:34] != RETRY)
    extensions(body)
