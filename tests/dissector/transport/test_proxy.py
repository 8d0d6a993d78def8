"""PROXY protocol headers: what they say, what is none, and that the NATS after them is read."""

from __future__ import annotations

import struct

import pytest

from dissect.nats.transport.proxy import ProxyHeader, is_partial, proxy_header
from natsync.protocol import Kind

from tests.support.conversations import CONNECT, INFO, ORIGINATOR, RESPONDER, FramedConversation

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
TEXT = b"PROXY TCP4 203.0.113.7 10.0.0.2 51000 4222\r\n"


def binary(command: int, family: int, body: bytes) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


V4 = bytes([203, 0, 113, 7, 10, 0, 0, 2]) + struct.pack("!HH", 51000, 4222)
V6 = bytes(15) + b"\x01" + bytes(15) + b"\x02" + struct.pack("!HH", 51000, 4222)
TLV = b"\x04\x00\x03abc"

GOOD = [
    (TEXT, "203.0.113.7:51000"),
    (b"PROXY TCP6 2001:db8::1 ::2 51000 4222\r\n", "[2001:db8::1]:51000"),
    (b"PROXY  TCP4 203.0.113.7\t10.0.0.2 51000 4222 \r\n", "203.0.113.7:51000"),
    (b"PROXY TCP6 ::ffff:10.0.0.7 ::2 51000 4222\r\n", "10.0.0.7:51000"),
    (b"PROXY UNKNOWN\r\n", None),
    (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
    (binary(0x21, 0x11, V4), "203.0.113.7:51000"),
    (binary(0x21, 0x11, V4 + TLV), "203.0.113.7:51000"),
    (binary(0x21, 0x21, V6), "[::1]:51000"),
    (binary(0x20, 0x00, b""), None),
    (binary(0x20, 0x11, V4), None),
    (binary(0x20, 0x31, bytes(216)), None),  # a Unix socket
    (binary(0x21, 0x01, b""), None),
    (binary(0x21, 0x01, TLV), None),
]

BAD = [
    b"PROXY TCP4 203.0.113.7 10.0.0.2 51000\r\n",
    b"PROXY TCP4 ::1 ::2 1 2\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.5 1 99999\r\n",
    b"PROXY UDP4 1.2.3.4 1.2.3.5 1 2\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.5 x y\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.5 -1 2\r\n",
    b"PROXY TCP4 1.2.3.4 1.2.3.5 1 2_0\r\n",
    b"PROXY TCP6 fe80::1%eth0 ::2 1 2\r\n",
    b"PROXY " + b"x" * 200,
    b"PUB a 5\r\nhello\r\n",
    SIGNATURE + b"\x31\x11\x00\x0c" + V4,
    binary(0x21, 0x11, V4[:6]),
    binary(0x21, 0x21, V6[:35]),
    binary(0x21, 0x12, V4),  # datagrams
    binary(0x21, 0x00, b""),
    binary(0x21, 0x31, bytes(216)),  # a Unix socket
]


@pytest.mark.parametrize("data, source", GOOD)
def test_a_header_has_its_size_and_source_also_in_pieces(data: bytes, source: str | None) -> None:
    assert proxy_header(data) == ProxyHeader(len(data), source)
    assert proxy_header(data + CONNECT) == ProxyHeader(len(data), source)
    for size in range(1, len(data)):
        assert is_partial(data[:size])
        assert proxy_header(data[:size]) is None
    assert not is_partial(data)


@pytest.mark.parametrize("data", BAD)
def test_what_is_none(data: bytes) -> None:
    assert proxy_header(data) is None
    assert not is_partial(data)
    assert not is_partial(b"")


@pytest.mark.parametrize("header, source", GOOD)
@pytest.mark.parametrize("info_first", [True, False])
def test_the_client_after_it(header: bytes, source: str | None, info_first: bool) -> None:
    conversation = FramedConversation()
    if info_first:
        conversation.say(RESPONDER, INFO)
    conversation.say(ORIGINATOR, header)
    if not info_first:
        conversation.say(RESPONDER, INFO)
    conversation.say(ORIGINATOR, CONNECT, b"PUB a 0\r\n\r\n").over()
    assert conversation.framing.stack.facts.get("proxied_for") == source
    assert conversation.framing.kind is Kind.CLIENT
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB"]
    assert conversation.frames(ORIGINATOR)[0].offset == len(header)
    counts = conversation.framing.byte_counts(ORIGINATOR)
    assert counts.skipped == counts.opaque == len(header)
    assert conversation.notes == []


@pytest.mark.parametrize("header, source", GOOD)
def test_in_pieces_of_one_byte_and_in_one_packet_with_what_follows(
    header: bytes, source: str | None
) -> None:
    data = header + CONNECT + b"PING\r\n"
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        conversation = FramedConversation().say(RESPONDER, INFO).say(ORIGINATOR, *pieces).over()
        assert conversation.framing.stack.facts.get("proxied_for") == source
        assert conversation.ops(ORIGINATOR) == ["CONNECT", "PING"]
        assert conversation.notes == []


def test_in_front_of_a_route() -> None:
    server = b"N" + b"A" * 55
    info = b'INFO {"server_id":"' + server + b'","nonce":"x","lnoc":true} \r\n'
    connect = b'CONNECT {"name":"' + server + b'","cluster":"C"}\r\n'
    conversation = (
        FramedConversation()
        .say(ORIGINATOR, TEXT + connect + info + b"RS+ A b\r\n")
        .say(RESPONDER, info)
        .over()
    )
    assert conversation.framing.kind is Kind.ROUTE
    assert conversation.framing.stack.facts["proxied_for"] == "203.0.113.7:51000"
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "INFO", "RS+"]


@pytest.mark.parametrize("data", BAD[:5])
def test_a_wrong_header_is_an_error_where_a_frame_should_be(data: bytes) -> None:
    conversation = (
        FramedConversation()
        .say(RESPONDER, INFO)
        .say(ORIGINATOR, data + CONNECT, b"PING\r\n")
        .over()
    )
    assert "proxied_for" not in conversation.framing.stack.facts
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PING"]
    assert [name for name, *_ in conversation.notes] == ["protocol_error", "skipped"]
    assert conversation.framing.byte_counts(ORIGINATOR).opaque == 0


def test_a_header_that_never_ends_is_unfinished() -> None:
    conversation = FramedConversation().say(RESPONDER, INFO).say(ORIGINATOR, TEXT[:20]).over()
    assert conversation.ops(ORIGINATOR) == []
    counts = conversation.framing.byte_counts(ORIGINATOR)
    assert counts.skipped + counts.unfinished == 20


def test_tls_after_it() -> None:
    info = b'INFO {"server_id":"NS","client_id":5,"tls_required":true} \r\n'
    conversation = FramedConversation().say(ORIGINATOR, TEXT).say(RESPONDER, info)
    conversation.say(ORIGINATOR, b"\x16\x03\x01" + b"x" * 50).say(
        RESPONDER, b"\x16\x03\x03xx"
    ).over()
    assert conversation.framing.facts.transport == "tls"
    assert conversation.framing.stack.facts["proxied_for"] == "203.0.113.7:51000"
    assert conversation.notes == []
