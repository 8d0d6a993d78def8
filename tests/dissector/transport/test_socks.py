"""Connections through SOCKS proxies: what is inside is read as without the proxy."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord
from natsync.protocol import Kind

from tests.dissector.transport.test_http_connect import capture, pieces
from tests.support.conversations import CONNECT, INFO, ORIGINATOR, RESPONDER, FramedConversation
from tests.support.partitioned import in_one, in_partitions

METHODS = [b"\x05\x02\0\x02", b"\x05\0"]
LOGIN = [b"\x05\x02\0\x02", b"\x05\x02", b"\x01\x04shop\x06s3cret", b"\x01\0"]
TO_NAME = b"\x05\x01\0\x03\x0bhub.example\x10\x7e"
TO_V4 = b"\x05\x01\0\x01\x0a\0\0\x02\x10\x7e"
TO_V6 = b"\x05\x01\0\x04" + bytes(15) + b"\x01\x10\x7e"
GRANTED = b"\x05\0\0\x01\x7f\0\0\x01\x10\x7e"
GRANTED_NAME = b"\x05\0\0\x03\x01x\x10\x7e"
FOUR = b"\x04\x01\x10\x7e\x0a\0\0\x02shop\0"
FOUR_A = b"\x04\x01\x10\x7e\0\0\0\x01\0hub.example\0"
GRANTED_V4 = b"\0\x5a" + bytes(6)
NAME, ADDRESS = "hub.example:4222", "10.0.0.2:4222"

GOOD = [
    ([*METHODS, TO_NAME, GRANTED], NAME, None),
    ([*METHODS, TO_V4, GRANTED_NAME], ADDRESS, None),
    ([*METHODS, TO_V6, GRANTED], "[::1]:4222", None),
    ([*LOGIN, TO_NAME, GRANTED], NAME, "password"),
    ([FOUR, GRANTED_V4], ADDRESS, None),
    ([FOUR_A, GRANTED_V4], NAME, None),
]
REFUSED = [
    ([*METHODS, TO_NAME, b"\x05\x05" + GRANTED[2:]], f"SOCKS {NAME}: 5 connection refused"),
    ([*METHODS, TO_NAME, b"\x05\x63" + GRANTED[2:]], f"SOCKS {NAME}: 99"),
    ([METHODS[0], b"\x05\xff"], "SOCKS: no acceptable method"),
    ([*LOGIN[:3], b"\x01\x01"], "SOCKS: login refused"),
    ([FOUR_A, b"\0\x5b" + bytes(6)], f"SOCKS {NAME}: 91 rejected or failed"),
]


def sent(messages: list[bytes]) -> list[tuple[bool, bytes]]:
    return [(at % 2 == 0, data) for at, data in enumerate(messages)]


@pytest.mark.parametrize("size", [1, 3, 9999])
@pytest.mark.parametrize("messages, target, auth", GOOD)
def test_the_client_in_a_tunnel_is_read_in_any_pieces(
    messages: list[bytes], target: str, auth: str | None, size: int
) -> None:
    conversation = FramedConversation()
    for is_client, data in sent([*messages[:-1], messages[-1] + INFO]):
        conversation.say(ORIGINATOR if is_client else RESPONDER, *pieces(data, size))
    conversation.say(ORIGINATOR, *pieces(CONNECT + b"PUB a 0\r\n\r\n", size)).over()
    framing = conversation.framing
    assert framing.stack.facts.get("proxied_to") == target
    assert framing.stack.facts.get("proxy_auth") == auth
    assert framing.kind is Kind.CLIENT and framing.facts.handshake
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB"]
    assert conversation.ops(RESPONDER) == ["INFO"]
    asked, answered = (sum(map(len, messages[first::2])) for first in (0, 1))
    assert conversation.frames(ORIGINATOR)[0].offset == asked
    assert conversation.frames(RESPONDER)[0].offset == answered
    assert conversation.notes == []


def test_a_client_that_does_not_wait_for_answers_is_read() -> None:
    conversation = FramedConversation().say(ORIGINATOR, METHODS[0] + TO_NAME + CONNECT)
    conversation.say(RESPONDER, METHODS[1], GRANTED, INFO).say(ORIGINATOR, b"PING\r\n").over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PING"]
    assert conversation.framing.stack.facts == {"proxied_to": NAME}


@pytest.mark.parametrize("messages, text", REFUSED)
def test_a_refusal_is_an_anomaly_without_a_session(
    messages: list[bytes], text: str, tmp_path: Path
) -> None:
    said = [(ORIGINATOR if client else RESPONDER, data) for client, data in sent(messages)]
    (row,) = records([capture(tmp_path / "a.pcap", said)], ("sessions", "anomalies"))
    assert isinstance(row, AnomalyRecord)
    assert (row.anomaly, row.sender, row.text) == ("proxy_refused", "responder", text)


@pytest.mark.parametrize(
    "messages",
    [
        [METHODS[0], b"\x05\x01", b"\x01\x01\0\x10" + bytes(16)],  # GSSAPI
        [*METHODS, b"\x05\x01\0\x07" + bytes(9)],  # an unknown kind of address
        [b"\x04\x01\x10\x7e\x0a\0\0\x02" + b"x" * 400, GRANTED_V4],
        [b"\x04\x01\x10\x7e\0\0\0\x01\0" + b"x" * 400, GRANTED_V4],
    ],
)
def test_what_is_no_handshake_shows_no_nats(messages: list[bytes]) -> None:
    conversation = FramedConversation()
    for is_client, data in sent(messages):
        conversation.say(ORIGINATOR if is_client else RESPONDER, data)
    conversation.over()
    assert conversation.framing.stack.facts == {} and conversation.events == []


def test_a_login_is_read_once() -> None:
    logins, answers = b"\x01\0\0" * 30_000, b"\x01\0" * 30_000
    conversation = FramedConversation()
    for is_client, data in sent([*LOGIN[:2], logins + TO_NAME, answers + GRANTED + INFO]):
        conversation.say(ORIGINATOR if is_client else RESPONDER, *pieces(data, 60_000))
    conversation.over()
    assert conversation.framing.stack.facts.get("proxied_to") is None
    assert conversation.events == []


@pytest.mark.parametrize("size", [300, 5_000])
def test_the_stages_of_spark_give_the_same_rows(tmp_path: Path, size: int) -> None:
    said = [(ORIGINATOR if client else RESPONDER, data) for client, data in sent(GOOD[3][0])]
    said += [(RESPONDER, INFO), (ORIGINATOR, CONNECT)]
    said += [(ORIGINATOR, b"PUB a 5\r\nhello\r\n")] * 40
    path = capture(tmp_path / "a.pcap", said, 5)
    assert in_partitions([path], size) == in_one([path])
    assert "s3cret" not in repr(in_one([path]))
