"""What is left of a connection's framing after its last byte."""

from __future__ import annotations

import pytest

from dissect.nats.framing import ConnectionFraming, Quota, Verdict, finished, without_bytes
from dissect.nats.framing.events import Note
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.types import Oddity
from natsync.protocol import Kind

from tests.support.conversations import ORIGINATOR, RESPONDER, FramedConversation


def test_finished_framing_keeps_the_facts() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PING\r\n").say(RESPONDER, b"PONG\r\n")
    )
    framing = conversation.framing
    before = framing.facts
    left = finished(framing)
    assert left.facts == before
    assert left.verdict is Verdict.NATS and left.kind is Kind.CLIENT and before.handshake
    assert left.byte_counts(ORIGINATOR) == framing.byte_counts(ORIGINATOR)
    assert left.byte_counts(RESPONDER).framed == conversation.ends[RESPONDER]
    assert not (left.waiting or left.is_steady or left.layer_notes or left.stack.has_layers)
    assert left.finish() == []


def test_the_last_events_come_with_finish() -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b"PUB a 5\r\nhe")
    left = finished(conversation.framing)
    assert left.feed(ORIGINATOR, []) == []
    (note,) = list(left.last) if isinstance(left.last, list) else []
    assert isinstance(note, Note) and note.anomaly is Anomaly.UNFINISHED and note.length == 11
    assert left.finish() == [note] and left.finish() == []


def test_oddities_of_late_packets_are_noted() -> None:
    left = finished(FramedConversation().client().framing)
    late = Oddity(7, 9, "t.pcap", 40, 4, Anomaly.OVERLAP_DIFFERS)
    found = left.feed(RESPONDER, [late])
    assert found == [Note(RESPONDER, 7, 9, "t.pcap", Anomaly.OVERLAP_DIFFERS, 40, 4)]


@pytest.mark.parametrize("midstream", [False, True])
def test_a_connection_without_payload_has_the_facts_of_its_framing(midstream: bool) -> None:
    framing = ConnectionFraming(midstream, False, Quota())
    assert framing.finish() == [] == without_bytes().finish()
    left = without_bytes()
    assert left.facts == framing.facts
    assert (left.waiting, left.layer_notes) == (framing.waiting, framing.layer_notes)
    assert left.byte_counts(ORIGINATOR) == framing.byte_counts(ORIGINATOR)


def test_connections_with_the_same_facts_share_one_object() -> None:
    one, other = (finished(FramedConversation().client().framing) for _ in range(2))
    assert one.without_counts() is other.without_counts()
    assert one.without_counts().kind is Kind.CLIENT
    unfinished = finished(FramedConversation().client().say(ORIGINATOR, b"PUB a 5\r\nhe").framing)
    assert unfinished.without_counts() is unfinished
