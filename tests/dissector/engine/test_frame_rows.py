"""Frames as rows."""

from __future__ import annotations

import json
from time import process_time

import pytest

from dissect.nats.engine.frame_rows import FrameRows
from dissect.nats.framing.events import Batch, Note
from dissect.nats.options import Options, Payload
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.schema.records import FrameRecord, text_of
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Kind, Ping, RMsg

from tests.support.conversations import ORIGINATOR, RESPONDER, FramedConversation


def rows(
    conversation: FramedConversation,
    sender: Direction,
    payload: Payload = Payload.NONE,
    redact: bool = True,
) -> list[FrameRecord]:
    made = FrameRows("5" * 16, Options(payload=payload, redact=redact))
    return made.rows(conversation.batches(sender), Kind.CLIENT, "", [])


def row(
    line: bytes, payload: Payload = Payload.NONE, sender: Direction = ORIGINATOR
) -> FrameRecord:
    return rows(FramedConversation().client().say(sender, line), sender, payload)[1]


def test_a_row_has_subject_reply_and_size_of_a_message() -> None:
    made = row(b"PUB greet _INBOX.1 5\r\nhello\r\n")
    assert (made.op, made.subject, made.reply, made.payload_bytes) == (
        "PUB",
        "greet",
        "_INBOX.1",
        5,
    )
    assert (made.sender, made.kind, made.packet, made.capture) == (
        "originator",
        "client",
        3,
        "t.pcap",
    )
    assert (made.total_bytes, made.header_bytes, made.payload, made.sid) == (29, None, None, None)


def test_headers_and_status() -> None:
    block = b"NATS/1.0 408 Request Timeout\r\nA: 1\r\nB: 2\r\nA: 3\r\n\r\n"
    line = b"HMSG a 7 %d %d\r\n%s\r\n" % (len(block), len(block), block)
    made = row(line, sender=RESPONDER)
    assert (made.status, made.status_text) == (408, "Request Timeout")
    assert made.headers == {"A": ["1", "3"], "B": ["2"]}
    assert (made.header_bytes, made.payload_bytes) == (len(block), 0)


def test_a_header_block_that_is_none() -> None:
    made = row(b"HPUB foo 3 5\r\nhello\r\n")
    assert made.anomalies == ["bad_headers"]
    assert (made.header_bytes, made.payload_bytes, made.headers) == (3, 2, None)


def test_a_row_has_subject_queue_sid_and_maximum_of_a_subscription() -> None:
    made = row(b"SUB a.* workers 9\r\n")
    assert (made.subject, made.queue, made.sid) == ("a.*", "workers", "9")
    assert row(b"UNSUB 9 5\r\n").max_msgs == 5
    assert row(b"UNSUB 9\r\n").max_msgs is None


@pytest.mark.parametrize(
    "policy, expected",
    [
        (Payload.NONE, (None, None)),
        (Payload.TEXT, ("h\\xff", None)),
        (Payload.BASE64, ("aP8=", None)),
        (Payload.SHA256, (None, "1b1f1d6e3a8f2a2b")),
    ],
)
def test_a_payload_is_shown_as_the_option_says(
    policy: Payload, expected: tuple[str | None, str | None]
) -> None:
    made = row(b"PUB a 2\r\nh\xff\r\n", policy)
    assert made.payload == expected[0]
    assert (made.payload_sha256 is None) == (expected[1] is None)
    assert made.payload_sha256 is None or len(made.payload_sha256) == 64


def test_a_payload_with_a_gap() -> None:
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, b"PUB a 100\r\nhello")
        .lose(ORIGINATOR, 90, True)
    )
    conversation.say(ORIGINATOR, b"world\r\n")
    made = rows(conversation, ORIGINATOR, Payload.SHA256)[1]
    assert (made.payload_bytes, made.captured_bytes, made.anomalies) == (100, 10, ["truncated"])
    assert made.payload_sha256 is None


def test_secrets_are_masked_unless_they_are_asked_for() -> None:
    conversation = FramedConversation().say(RESPONDER, b'INFO {"client_id":1} \r\n')
    conversation.say(ORIGINATOR, b'CONNECT {"lang":"x","pass":"hush-hush"}\r\n')
    conversation.say(RESPONDER, b"-ERR 'not hush-hush'\r\n")
    assert rows(conversation, ORIGINATOR)[0].json == '{"lang":"x","pass":"***"}'
    assert rows(conversation, ORIGINATOR, redact=False)[0].json == '{"lang":"x","pass":"hush-hush"}'
    batches = [*conversation.batches(ORIGINATOR), *conversation.batches(RESPONDER)]
    made = FrameRows("5" * 16, Options()).rows(batches, Kind.CLIENT, "", [])
    assert made[-1].error == "not ***" and "hush" not in str(made)


def test_json_that_cannot_be_read_shows_nothing() -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b'CONNECT {"pass":"hush",}\r\n')
    made = rows(conversation, ORIGINATOR)[1]
    assert (made.json, made.anomalies) == ("***", ["bad_json"])
    made = rows(conversation, ORIGINATOR, redact=False)[1]
    assert (made.json, made.anomalies) == ('{"pass":"hush",}', ["bad_json"])


def test_wire_text_keeps_invalid_bytes_visible() -> None:
    assert text_of("grüße".encode() + b"\xff") == "grüße\\xff"


def test_a_password_that_is_also_the_name_is_masked_as_in_sessions() -> None:
    connect = b'CONNECT {"user":"hush-hush","name":"hush-hush","pass":"hush-hush"}\r\n'
    assert row(connect).json == '{"user":"***","name":"***","pass":"***"}'


def test_a_frame_that_began_earlier_has_the_packet_of_its_first_byte() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a 2\r\nh", b"i\r\nPING\r\nPING\r\n")
    )
    made = rows(conversation, ORIGINATOR)
    assert [(row.number, row.packet) for row in made] == [(1, 2), (2, 3), (3, 4), (4, 4)]
    assert len({row.ts_ns for row in made[1:]}) == 1


def test_skipped_frames_are_numbered_and_their_secrets_known() -> None:
    conversation = FramedConversation().say(RESPONDER, b'INFO {"client_id":1} \r\n')
    conversation.say(ORIGINATOR, b'CONNECT {"pass":"hush-hush"}\r\n')
    conversation.say(RESPONDER, b"-ERR 'not hush-hush'\r\n")
    frames = FrameRows("5" * 16, Options())
    (connect,) = conversation.batches(ORIGINATOR)
    frames.skip(connect)
    frames.pass_to(6)
    _, error = conversation.batches(RESPONDER)
    (made,) = frames.rows([error], Kind.CLIENT, "", [])
    assert (made.number, made.error) == (7, "not ***")


def test_anomalies_of_frames_come_once_and_the_reason_of_a_gap_first() -> None:
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, b"HPUB a 5 105\r\nhello")
        .lose(ORIGINATOR, 95, True)
    )
    conversation.say(ORIGINATOR, b"world\r\nPUB * 0\r\n\r\n")
    offset = rows(conversation, ORIGINATOR)[1].offset
    bad = Note(ORIGINATOR, 1, 1, "t.pcap", Anomaly.BAD_HEADERS, offset, 9)
    wild = Note(ORIGINATOR, 1, 1, "t.pcap", Anomaly.INVALID_SUBJECT, offset, 9)
    elsewhere = Note(RESPONDER, 1, 1, "t.pcap", Anomaly.SID_IN_USE, offset, 9)
    frames = FrameRows("5" * 16, Options())
    batches = conversation.batches(ORIGINATOR)
    made = frames.rows(batches, Kind.CLIENT, "", [bad, wild, elsewhere])
    assert [row.anomalies for row in made] == [
        None,
        ["truncated", "bad_headers", "invalid_subject"],
        None,
    ]


def test_time_is_linear_in_the_frames_of_a_packet() -> None:
    def taken(count: int) -> float:
        conversation = FramedConversation().client().say(ORIGINATOR, b"PUB * 0\r\n\r\n" * count)
        *_, batch = conversation.batches(ORIGINATOR)
        offsets = [frame.offset for frame in batch.frames]
        notes = [
            Note(ORIGINATOR, 1, 1, "t.pcap", Anomaly.INVALID_SUBJECT, offset, 9)
            for offset in offsets
        ]
        start = process_time()
        made = FrameRows("5" * 16, Options()).rows([batch], Kind.CLIENT, "", notes)
        passed = process_time() - start
        assert sum(row.anomalies is not None for row in made) == count
        return passed

    assert min(taken(32_000) for _ in range(2)) < 100 * min(taken(2000) for _ in range(3))


@pytest.mark.parametrize("redact", [True, False])
def test_json_can_be_parsed_in_every_format(redact: bool) -> None:
    name = "a\x7fb\x9bc\u202ed"
    conversation = FramedConversation().say(RESPONDER, b'INFO {"client_id":1} \r\n')
    conversation.say(ORIGINATOR, b'CONNECT {"name":"' + name.encode() + b'"}\r\n')
    (made,) = rows(conversation, ORIGINATOR, redact=redact)
    assert made.json == '{"name":"a\\u007fb\\u009bc\\u202ed"}'
    assert json.loads(made.json) == {"name": name}


def test_a_route_that_is_dedicated_to_an_account_names_it_where_a_frame_may() -> None:
    packet = Chunk(1, 1, "c", 0, b"")
    batch = Batch(ORIGINATOR, 1, packet, packet, [RMsg(b"s", b""), Ping(), RMsg(b"s", b"B")], None)
    made = FrameRows("5" * 16, Options()).rows([batch], Kind.ROUTE, "A", [])
    assert [row.account for row in made] == ["A", None, "B"]
