"""What is not NATS yields no session, and NATS inside of something else yields no frames."""

from __future__ import annotations

import pytest

from dissect.nats.framing import Verdict
from dissect.nats.types import Direction

from tests.support.conversations import CONNECT, INFO, ORIGINATOR, RESPONDER, FramedConversation
from tests.support.paths import CAPTURES

O, R = ORIGINATOR, RESPONDER
TRACE = CONNECT + b"SUB a 1\r\nPUB a 5\r\nhello\r\nMSG a 1 5\r\nhello\r\nPING\r\nPONG\r\n"
POST = b"POST /logs HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
UPGRADE = b"GET /chat HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
HELLO = b"\x16\x03\x01\x00\x30" + b"h" * 48
ANSWER = b"\x16\x03\x03\x00\x30" + b"s" * 48
CIPHER = b"\x17\x03\x03\x00\x20" + b"c" * 32

Lines = list[tuple[Direction, bytes]]

OTHERS: dict[str, Lines] = {
    "http": [
        (O, b"GET /varz HTTP/1.1\r\nHost: x\r\n\r\n"),
        (R, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    ],
    "log shipper": [(O, POST % len(TRACE) + TRACE), (R, b"HTTP/1.1 204 No Content\r\n\r\n")] * 3,
    "log shipper in two writes": [
        (O, POST % len(TRACE)),
        (O, TRACE),
        (O, TRACE),
        (R, b"HTTP/1.1 204 No Content\r\n\r\n"),
    ],
    "log reader": [
        (O, b"GET /trace.log HTTP/1.1\r\nHost: x\r\n\r\n"),
        (R, b"HTTP/1.1 200 OK\r\n\r\n" + INFO),
        (R, TRACE),
        (R, TRACE),
    ],
    "redis": [
        (O, b"*1\r\n$4\r\nPING\r\n"),
        (R, b"+PONG\r\n"),
        (O, b"PING\r\n"),
        (R, b"+PONG\r\n"),
        (O, b"INFO server\r\n"),
        (R, b"+OK\r\n"),
    ],
    "ssh": [(O, b"SSH-2.0-OpenSSH_9\r\n"), (R, b"SSH-2.0-OpenSSH_9\r\n"), (O, b"\0" * 99)],
    "smtp": [(R, b"220 mail ESMTP\r\n"), (O, b"EHLO x\r\n"), (R, b"250 ok\r\n"), (O, TRACE)],
    "mqtt": [(O, b"\x10\x10\x00\x04MQTT\x04\x02\x00\x3c\x00\x04abcd"), (R, b"\x20\x02\x00\x00")],
    "stomp": [
        (O, b"CONNECT\naccept-version:1.2\n\n\0"),
        (R, b"CONNECTED\nversion:1.2\n\n\0"),
        (O, b"SEND\ndestination:/q\n\nPUB a 0\r\n\r\n\0"),
    ],
    "irc": [
        (O, b"NICK x\r\nUSER x 0 * :x\r\n"),
        (R, b"PING :abc\r\n"),
        (O, b"PONG :abc\r\n"),
        (R, b":s 001 x :hi\r\n"),
        (R, b"PING\r\n"),
        (O, b"PONG\r\n"),
    ],
    "http proxy": [
        (O, b"CONNECT example.org:443 HTTP/1.1\r\n\r\n"),
        (R, b"HTTP/1.1 200 OK\r\n\r\n"),
        (O, HELLO),
    ],
    "mysql": [(R, b"J\0\0\0\n8.0.33\0PUB a 0\r\n\r\n"), (O, b"\x01\0\0\0\x0e")],
    "telnet": [(O, b"hello\r\nPUB a 5\r\nhello\r\nPUB a 5\r\nhello\r\n"), (R, b"what?\r\n")],
    "sides exchanged": [(O, b"+OK\r\n"), (R, b"+OK\r\n"), (O, b"PONG\r\n")],
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("way", [None, O, R])
def test_other_protocols_from_their_beginning(name: str, way: Direction | None) -> None:
    conversation = FramedConversation()
    for sender, data in OTHERS[name]:
        if way in (None, sender):
            conversation.say(sender, data)
    conversation.over()
    assert conversation.framing.verdict is not Verdict.NATS
    inside = "tls" if name == "http proxy" and way is not R else "other"
    assert conversation.framing.facts.protocol == inside
    assert conversation.events == []


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("first", [0, 1])
def test_other_protocols_joined_later(
    name: str, first: int, request: pytest.FixtureRequest
) -> None:
    if (name, first) == ("log shipper in two writes", 1):
        reason = "a packet of nothing but frames, in the middle of a stream, is taken for NATS"
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    conversation = FramedConversation(midstream=True)
    for sender, data in OTHERS[name][first:]:
        conversation.say(sender, data)
    conversation.over()
    assert conversation.framing.verdict is not Verdict.NATS
    assert conversation.events == []


def test_http_joined_in_the_middle_of_a_body() -> None:
    body = b"the end of a line\r\n" + TRACE
    conversation = (
        FramedConversation(midstream=True).say(O, body).say(R, b"HTTP/1.1 204 No Content\r\n\r\n")
    )
    conversation.say(O, POST % len(TRACE), TRACE).say(R, b"HTTP/1.1 204 No Content\r\n\r\n").over()
    assert conversation.framing.verdict is Verdict.OTHER


@pytest.mark.parametrize(
    "lines, midstream, expected",
    [
        ([(O, HELLO), (R, ANSWER)], False, "tls"),
        ([(O, HELLO)], False, "tls"),
        ([(O, CIPHER), (R, CIPHER)], True, "tls"),
        ([(O, UPGRADE), (R, SWITCH + b"\x81\x10" + b"not NATS, a chat")], False, "websocket"),
        ([(O, UPGRADE), (R, b"HTTP/1.1 400 Bad Request\r\n\r\n")], False, "other"),
        ([(O, b"x"), (R, b"y")], False, "other"),
        ([], False, "other"),
        ([(R, INFO), (O, CONNECT)], False, "nats"),
        ([(R, INFO), (O, HELLO), (R, ANSWER)], False, "tls"),
        ([(O, UPGRADE), (R, SWITCH + b"\x82\x7e\x01\x00" + INFO)], False, "websocket"),
    ],
)
def test_the_first_layer_is_named(lines: Lines, midstream: bool, expected: str) -> None:
    conversation = FramedConversation(midstream)
    for sender, data in lines:
        conversation.say(sender, data)
    assert conversation.over().framing.facts.protocol == expected


def test_a_browser_on_the_wrong_port_is_a_session_with_skipped_bytes() -> None:
    conversation = FramedConversation().say(O, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").say(R, INFO)
    conversation.say(R, b"-ERR 'Unknown Protocol Operation'\r\n").over()
    assert conversation.ops(R) == ["INFO", "-ERR"]
    assert conversation.ops(O) == []
    assert [name for name, *_ in conversation.notes] == ["skipped"]


@pytest.mark.parametrize("midstream", [False, True])
@pytest.mark.parametrize("size", [100, 1000, 1448])
def test_a_whole_conversation_as_payload(midstream: bool, size: int) -> None:
    inside = INFO + TRACE * 200
    frame = b"PUB outer %d\r\n%s\r\n" % (len(inside), inside)
    data = frame * 2 + b"PING\r\n"
    conversation = FramedConversation(midstream)
    if not midstream:
        conversation.client()
    conversation.say(O, *(data[at : at + size] for at in range(0, len(data), size))).over()
    assert conversation.ops(O)[not midstream :] == ["PUB", "PUB", "PING"]


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "cluster-2.15.1.pcap"])
@pytest.mark.parametrize("size", [536, 1448])
def test_a_whole_capture_as_payload_with_its_control_line_lost(name: str, size: int) -> None:
    inside = (CAPTURES / name).read_bytes()
    frame = b"PUB outer %d\r\n%s\r\n" % (len(inside), inside)
    pieces = [frame[at : at + size] for at in range(0, len(frame), size)]
    conversation = FramedConversation().client().lose(O, size).say(O, *pieces[1:])
    conversation.say(O, b"PING\r\n", b"PING\r\n").over()
    assert conversation.ops(O) == ["CONNECT", "PING", "PING"]


def test_a_conversation_as_payload_with_its_control_line_lost() -> None:
    inside = TRACE * 200
    frame = b"PUB outer %d\r\n%s\r\n" % (len(inside), inside)
    pieces = [frame[at : at + 1000] for at in range(0, len(frame), 1000)]
    conversation = (
        FramedConversation()
        .client()
        .lose(O, 1000)
        .say(O, *pieces[1:])
        .say(O, b"PING\r\n", b"PING\r\n")
        .over()
    )
    assert conversation.ops(O) == ["CONNECT", "PING", "PING"]
