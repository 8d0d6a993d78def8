"""Runs of frames: what their rows have in common, parts of them, and facts about single frames."""

from __future__ import annotations

import json
from time import process_time

import pytest

from dissect.nats.engine.frame_rows import rows_of
from dissect.nats.engine.frame_runs import FrameRun, RunMaker, marked
from dissect.nats.framing.events import Note
from dissect.nats.options import Payload
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.types import Direction

from tests.support.conversations import ORIGINATOR, RESPONDER, FramedConversation


def runs(conversation: FramedConversation, sender: Direction) -> list[FrameRun]:
    maker = RunMaker("5" * 16, Payload.NONE, True)
    return [
        run for batch in conversation.batches(sender) for run in maker.runs(batch, "client", "")
    ]


def test_the_frames_of_a_packet_are_one_run() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PING\r\nPUB a 2\r\nhi\r\nPUB b 0\r\n\r\n")
    )
    connect, run = runs(conversation, ORIGINATOR)
    assert (connect.number, run.number, len(run.frames)) == (1, 2, 3)
    assert (run.packet, run.labels.capture, run.labels.sender) == (3, "t.pcap", "originator")
    assert (run.ts_ns, run.labels.session, run.labels) == (3000, "5" * 16, connect.labels)


def test_a_frame_that_began_earlier_is_a_run_of_its_own() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PUB a 2\r\nh", b"i\r\nPING\r\nPING\r\n")
    )
    _, begun, rest = runs(conversation, ORIGINATOR)
    assert (begun.number, begun.packet, len(begun.frames)) == (2, 3, 1)
    assert (rest.number, rest.packet, len(rest.frames)) == (3, 4, 2)
    assert begun.ts_ns == rest.ts_ns


def test_parts_have_the_same_rows() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PING\r\nPUB a 2\r\nhi\r\nPUB b 0\r\n\r\n")
    )
    run = runs(conversation, ORIGINATOR)[1]
    assert rows_of(run.part(0, 1)) + rows_of(run.part(1, 3)) == rows_of(run)


def test_the_payloads_that_a_run_holds_are_counted() -> None:
    for kept, size in ((True, 5), (False, 0)):
        conversation = FramedConversation(payloads=kept).client()
        conversation.say(ORIGINATOR, b"PUB a 2\r\nhi\r\nPING\r\nPUB b 3\r\nyou\r\n")
        assert runs(conversation, ORIGINATOR)[1].payload_bytes == size


def test_skipped_frames_are_numbered_and_their_secrets_known() -> None:
    conversation = FramedConversation().say(RESPONDER, b'INFO {"client_id":1} \r\n')
    conversation.say(ORIGINATOR, b'CONNECT {"pass":"hush-hush"}\r\n')
    conversation.say(RESPONDER, b"-ERR 'not hush-hush'\r\n")
    maker = RunMaker("5" * 16, Payload.NONE, True)
    (connect,) = conversation.batches(ORIGINATOR)
    maker.skip(connect)
    maker.pass_to(6)
    _, error = conversation.batches(RESPONDER)
    (run,) = maker.runs(error, "client", "")
    assert (run.number, run.facts[7].error) == (7, "not ***")


def test_anomalies_of_frames_come_once_and_the_reason_of_a_gap_first() -> None:
    conversation = (
        FramedConversation()
        .client()
        .say(ORIGINATOR, b"HPUB a 5 105\r\nhello")
        .lose(ORIGINATOR, 95, True)
    )
    conversation.say(ORIGINATOR, b"world\r\nPUB * 0\r\n\r\n")
    found = runs(conversation, ORIGINATOR)
    offset = found[1].frames[0].offset
    bad = Note(ORIGINATOR, 1, 1, "t.pcap", Anomaly.BAD_HEADERS, offset, 9)
    wild = Note(ORIGINATOR, 1, 1, "t.pcap", Anomaly.INVALID_SUBJECT, offset, 9)
    elsewhere = Note(RESPONDER, 1, 1, "t.pcap", Anomaly.SID_IN_USE, offset, 9)
    rows = [row for run in marked(found, [bad, wild, elsewhere]) for row in rows_of(run)]
    assert [row.anomalies for row in rows] == [
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
        found = marked(RunMaker("5" * 16, Payload.NONE, True).runs(batch, "client", ""), notes)
        passed = process_time() - start
        assert sum(map(len, (run.facts for run in found))) == count
        return passed

    # The dictionary of facts was copied for each frame: 16 times as many took 300 times as long.
    assert min(taken(32_000) for _ in range(2)) < 100 * min(taken(2000) for _ in range(3))


@pytest.mark.parametrize("redact", [True, False])
def test_json_can_be_parsed_in_every_format(redact: bool) -> None:
    name = "a\x7fb\x9bc\u202ed"
    conversation = FramedConversation().say(RESPONDER, b'INFO {"client_id":1} \r\n')
    conversation.say(ORIGINATOR, b'CONNECT {"name":"' + name.encode() + b'"}\r\n')
    (batch,) = conversation.batches(ORIGINATOR)
    (run,) = RunMaker("5" * 16, Payload.NONE, redact).runs(batch, "client", "")
    text = run.facts[1].json
    assert text == '{"name":"a\\u007fb\\u009bc\\u202ed"}' and json.loads(text) == {"name": name}
