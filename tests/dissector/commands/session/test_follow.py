"""A session as a conversation."""

from __future__ import annotations

from dissect.nats import Options, Payload
from dissect.nats.commands.session.detail import Heading, timeline_entries
from dissect.nats.commands.session.follow import Conversation
from dissect.nats.schema.records import AnomalyRecord, FrameRecord

from tests.support.paths import CAPTURES
from tests.support.records import frame_record, session_record

CORE = str(CAPTURES / "core-2.15.1.pcap")
HEADING = Heading("5" * 16, "client", "a:1", "b:2", 1_000_000_000)


def lines_of(frame: FrameRecord, full: bool = False) -> list[str]:
    conversation = Conversation(False, full)
    conversation.text(HEADING)
    frame.ts_ns = 1_002_345_678
    return conversation.text(frame).splitlines()


def frame(op: str = "PUB", payload: str | None = None) -> FrameRecord:
    made = frame_record()
    made.op, made.subject, made.headers, made.payload = op, "greet", None, payload
    return made


def test_the_heading_names_the_ends() -> None:
    text = Conversation(False, False).text(HEADING)
    assert text == (
        "client session 5555555555555555: a:1 > b:2\nbegan 1970-01-01T00:00:01.000000000Z\n\n"
    )


def test_a_message_with_headers_and_payload() -> None:
    hpub = frame("HPUB", "hello\nworld\x1b[2J\\xff\n")
    hpub.headers, hpub.reply = {"A": ["1", "2"]}, "_INBOX.1"
    assert lines_of(hpub) == [
        "    0.002345  > HPUB greet reply _INBOX.1",
        "              A: 1",
        "              A: 2",
        "",
        "              hello",
        "              world\\x1b[2J\\xff",
    ]


def test_long_payloads_are_cut_and_counted() -> None:
    *_, line, more = lines_of(frame(payload="x" * 3000))
    assert line.strip() == "x" * 1024
    assert more.strip() == "... 1976 characters more; --full shows them"
    assert lines_of(frame(payload="x" * 3000), full=True)[-1].strip() == "x" * 3000


def test_json_is_spread_over_lines() -> None:
    info = frame("INFO")
    info.json = '{"port":4222,"urls":["a"]}'
    assert [line.strip() for line in lines_of(info)[1:4]] == ["{", '"port": 4222,', '"urls": [']
    info.json = "***"
    assert lines_of(info)[1:] == ["              ***"]


def test_a_hash_stands_for_its_payload() -> None:
    hashed = frame()
    hashed.payload_sha256 = "ab" * 32
    assert lines_of(hashed)[-1].strip() == "sha256 " + "ab" * 32


def test_what_is_missing_is_reported() -> None:
    odd = AnomalyRecord(
        session="s", ts_ns=10**9, packet=1, sender="responder", anomaly="lost", offset=0, bytes=1448
    )
    conversation = Conversation(True, False)
    conversation.text(HEADING)
    line = "\x1b[33m< ... 1448 bytes missing\x1b[0m\n"
    assert conversation.text(odd) == f"    0.000000  {line}"
    odd.anomaly, odd.text = "protocol_error", "no such\x07 operation"
    assert "1448 bytes protocol_error: no such\\x07 operation" in conversation.text(odd)


def test_a_conversation_closes_with_who_ended_it() -> None:
    conversation = Conversation(False, False)
    conversation.text(HEADING._replace(first_ns=1))
    row = session_record()
    row.end, row.ended_by, row.first_ns, row.last_ns = "rst", "responder", 1, 1_500_001
    assert conversation.text(row) == "\n    0.001500  rst by responder, after 1.50 ms\n"
    row.end, row.ended_by = "open", None
    assert "still open, after" in conversation.text(row)


def test_errors_stand_out_on_a_terminal() -> None:
    err = frame("-ERR")
    err.error = "Invalid Subject"
    assert "\x1b[1;31m> -ERR greet 'Invalid Subject'" in Conversation(True, False).text(err)


def test_a_whole_conversation() -> None:
    conversation = Conversation(False, False)
    entries = timeline_entries([CORE], "7294", Options(payload=Payload.TEXT))
    text = "".join(map(conversation.text, entries))
    assert text.startswith("client session 729480e87f22a93d: 127.0.0.1:33734 > 127.0.0.1:4222\n")
    for line in ("> CONNECT\n", "Station: north\n", "              sunny\n", "fin by originator"):
        assert line in text
    assert "< MSG forecast 2 reply _INBOX." in text
