"""Connections through an HTTP proxy (CONNECT): what is inside is read as without the proxy."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from dissect.nats import Options
from dissect.nats.pipeline import records
from dissect.nats.schema.records import AnomalyRecord, FlowRecord, FrameRecord, SessionRecord
from dissect.nats.transport.http_connect import begins_answer, begins_request
from dissect.nats.transport.layer import Begins
from dissect.nats.types import Direction
from natsync.protocol import Kind

from tests.dissector.fuzzing.layers import KEYS, connections
from tests.support.conversations import CONNECT, INFO, ORIGINATOR, RESPONDER, FramedConversation
from tests.support.partitioned import in_one, in_partitions
from tests.support.pcapwriter import Conversation, pcap_file

SECRET = b"bGVhZnk6czNjcmV0cHc="
REQUEST = (
    b"CONNECT hub.example:7422 HTTP/1.1\r\nHost: hub.example:7422\r\n"
    b"Proxy-Authorization: Basic " + SECRET + b"\r\n\r\n"
)
ACCEPTED = b"HTTP/1.1 200 Connection established\r\nProxy-Agent: x\r\n\r\n"
OK = b"HTTP/1.0 200 OK\r\n\r\n"
REFUSED = b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 7\r\n\r\nHTTP/1."
IN_CHUNKS = b"HTTP/1.1 502 Bad Gateway\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nno\r\n0\r\n\r\n"
SOCKS, GRANTED = b"\x04\x01\x1c\xfe\0\0\0\x01\0hub.example\0", b"\0\x5a" + bytes(6)
OPTIONS = Options(keylog=[KEYS])
SHOWN = ("kind", "transport", "compression", "client_name", "server_name")
SHOWN_OF_FLOWS = ("protocol", "ja4", "tls_server_name", "tls_version", "websocket_path")


def pieces(data: bytes, size: int) -> list[bytes]:
    return [data[at : at + size] for at in range(0, len(data), size)]


def through(answers: list[bytes], size: int = 9999, follows: bytes = b"") -> FramedConversation:
    """A client whose requests get these answers; `follows` is in the same packet as the last one."""
    conversation = FramedConversation()
    for answer in answers[:-1]:
        conversation.say(ORIGINATOR, *pieces(REQUEST, size))
        conversation.say(RESPONDER, *pieces(answer, size))
    conversation.say(ORIGINATOR, *pieces(REQUEST, size))
    conversation.say(RESPONDER, *pieces(answers[-1] + INFO, size))
    return conversation.say(ORIGINATOR, *pieces(CONNECT + b"PUB a 0\r\n\r\n", size)).over()


@pytest.mark.parametrize("size", [1, 7, 9999])
@pytest.mark.parametrize(
    "answers, refusals",
    [
        ([ACCEPTED], 0),
        ([OK], 0),
        ([b"HTTP/1.1 100 Continue\r\n\r\n" + OK], 0),
        ([REFUSED, ACCEPTED], 1),
        ([IN_CHUNKS, REFUSED, ACCEPTED], 2),
        ([ACCEPTED, OK], 0),  # the next proxy
    ],
)
def test_the_client_in_a_tunnel_is_read_in_any_pieces(
    answers: list[bytes], refusals: int, size: int
) -> None:
    conversation = through(answers, size)
    framing = conversation.framing
    assert framing.stack.facts == {"proxied_to": "hub.example:7422", "proxy_auth": "basic"}
    assert framing.kind is Kind.CLIENT and framing.facts.handshake
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PUB"]
    assert conversation.ops(RESPONDER) == ["INFO"]
    assert conversation.frames(RESPONDER)[0].offset == sum(map(len, answers))
    assert framing.byte_counts(RESPONDER).opaque == sum(map(len, answers))
    assert [name for name, *_ in conversation.notes] == ["proxy_refused"] * refusals


@pytest.mark.parametrize(
    "credentials, expected",
    [("NTLM x", "ntlm"), ("bearer x", "bearer"), ("s3cret", "other"), ("", None)],
)
def test_only_a_known_scheme_is_shown_of_credentials(
    credentials: str, expected: str | None
) -> None:
    request = REQUEST.replace(b"Basic " + SECRET, credentials.encode())
    conversation = FramedConversation().say(ORIGINATOR, request).say(RESPONDER, OK, INFO).over()
    assert conversation.framing.stack.facts.get("proxy_auth") == expected


@pytest.mark.parametrize(
    "lost", [(ORIGINATOR, REQUEST), (RESPONDER, ACCEPTED)], ids=lambda lost: str(lost[0].value)
)
def test_a_lost_message_of_the_handshake_hides_no_nats(lost: tuple[Direction, bytes]) -> None:
    conversation = FramedConversation()
    for way, data in ((ORIGINATOR, REQUEST), (RESPONDER, ACCEPTED)):
        if (way, data) == lost:
            conversation.lose(way, len(data))
        else:
            conversation.say(way, data)
    conversation.say(RESPONDER, INFO).say(ORIGINATOR, CONNECT, b"PING\r\n").over()
    assert conversation.ops(ORIGINATOR) == ["CONNECT", "PING"]
    assert conversation.ops(RESPONDER) == ["INFO"]


def test_a_capture_that_begins_with_the_request_or_the_answer_shows_nats() -> None:
    whole = [(ORIGINATOR, REQUEST), (RESPONDER, ACCEPTED), (RESPONDER, INFO), (ORIGINATOR, CONNECT)]
    for first in (0, 1):
        conversation = FramedConversation(midstream=True)
        for way, data in whole[first:]:
            conversation.say(way, data)
        conversation.say(ORIGINATOR, b"PING\r\n").over()
        ops = {tuple(conversation.ops(way)) for way in Direction}
        assert ops == {("CONNECT", "PING"), ("INFO",)}


def test_a_head_without_an_end_is_no_handshake() -> None:
    endless = REQUEST[:-2] + b"x: y\r\n" * 9000
    conversation = FramedConversation().say(ORIGINATOR, endless, CONNECT).say(RESPONDER, OK).over()
    assert conversation.frames(ORIGINATOR) == []


def test_the_connect_of_nats_is_none_of_http() -> None:
    for data in (CONNECT, b"CONNECT\t{", b"CONNECT  {", b"CONNECT / HTTP/1.1\r\n", b"PING\r\n"):
        assert begins_request(data) is Begins.NO
    assert begins_request(REQUEST) is Begins.YES
    assert {begins_request(REQUEST[:size]) for size in (1, 8, 9, 20)} == {Begins.MAYBE}
    assert begins_request(b"CONNECT [::1]:4222 HTTP/1.0\r\n") is Begins.YES
    assert begins_answer(ACCEPTED) is Begins.YES
    assert (begins_answer(ACCEPTED[:9]), begins_answer(REFUSED)) == (Begins.MAYBE, Begins.NO)


def capture(path: Path, sent: list[tuple[Direction, bytes]], size: int = 1460) -> str:
    conversation = Conversation(("10.0.0.1", 40000), ("10.0.0.2", 3128)).handshake()
    for way, data in sent:
        if way is ORIGINATOR:
            conversation.from_client(data, size=size)
        else:
            conversation.from_server(data, size=size)
    conversation.close()
    path.write_bytes(pcap_file(conversation.records))
    return str(path)


@pytest.mark.parametrize("asked, answer", [(REQUEST, ACCEPTED), (SOCKS, GRANTED)])
@pytest.mark.parametrize(
    "name",
    ["core-2.15.1", "leafnode-s2-2.15.1", "tls-keys-2.15.1", "websocket-2.15.1", "tls-2.15.1"],
)
def test_rows_of_real_connections_are_those_without_the_proxy(
    name: str, asked: bytes, answer: bytes, tmp_path: Path
) -> None:
    read = 0
    for number, sent in enumerate(connections(f"{name}.pcap")[:6]):
        if sent[0][0] is not ORIGINATOR or not sent[0][1].startswith((b"GET", b"\x16")):
            sent = [(way.other, data) for way, data in sent]
        tunnel = [(ORIGINATOR, asked), (RESPONDER, answer), *sent]
        found = []
        for part, size in ((sent, 1460), (tunnel, 1460), (tunnel, 50)):
            path = capture(tmp_path / f"{number}.pcap", part, size)
            rows = list(records([path], ("sessions", "flows", "frames"), OPTIONS))
            frames = [row for row in rows if isinstance(row, FrameRecord)]
            sessions = [row for row in rows if isinstance(row, SessionRecord)]
            flows = [row for row in rows if isinstance(row, FlowRecord)]
            targets = {"hub.example:7422"} if part is tunnel else {None}
            assert {row.proxied_to for row in sessions} <= targets
            found.append(
                (
                    [[getattr(row, column) for column in SHOWN] for row in sessions],
                    [[getattr(row, column) for column in SHOWN_OF_FLOWS] for row in flows],
                    Counter((row.sender, row.op, row.subject, row.total_bytes) for row in frames),
                )
            )
        assert found[0] == found[1] == found[2]
        read += len(found[0][0])
    assert read


def test_a_refusal_is_an_anomaly_without_a_session(tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", [(ORIGINATOR, REQUEST), (RESPONDER, REFUSED)])
    (row,) = records([path], ("sessions", "anomalies"))
    assert isinstance(row, AnomalyRecord)
    assert (row.anomaly, row.sender) == ("proxy_refused", "responder")
    assert row.text == "CONNECT hub.example:7422: 407 Proxy Authentication Required"


@pytest.mark.parametrize("repeated", [SECRET, b"s3cretpw"])
def test_a_refusal_repeats_no_credentials(repeated: bytes, tmp_path: Path) -> None:
    refused = b"HTTP/1.1 407 not with " + repeated + b"\r\n\r\n"
    path = capture(tmp_path / "a.pcap", [(ORIGINATOR, REQUEST), (RESPONDER, refused)])
    (row,) = records([path], ("anomalies",))
    assert isinstance(row, AnomalyRecord)
    assert row.text == "CONNECT hub.example:7422: 407 not with ***"


@pytest.mark.parametrize("size", [300, 5_000])
def test_the_stages_of_spark_give_the_same_rows(tmp_path: Path, size: int) -> None:
    sent = [(ORIGINATOR, REQUEST), (RESPONDER, REFUSED), (ORIGINATOR, REQUEST)]
    sent += [(RESPONDER, ACCEPTED), (RESPONDER, INFO), (ORIGINATOR, CONNECT)]
    sent += [(ORIGINATOR, b"PUB a 5\r\nhello\r\n")] * 40
    path = capture(tmp_path / "a.pcap", sent, 60)
    assert in_partitions([path], size) == in_one([path])
    assert SECRET.decode() not in repr(in_one([path]))
