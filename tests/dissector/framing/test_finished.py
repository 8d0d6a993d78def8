"""What is left of a connection's framing after its last byte."""

from __future__ import annotations

import pytest

from dissect.nats.framing import ConnectionFraming, Quota, finished, without_bytes
from dissect.nats.framing.events import Note
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.transport.detect import Verdict
from dissect.nats.types import Oddity
from natsync.protocol import Kind

from tests.support.conversations import ORIGINATOR, RESPONDER, FramedConversation


def test_the_facts_stay() -> None:
    conversation = (
        FramedConversation().client().say(ORIGINATOR, b"PING\r\n").say(RESPONDER, b"PONG\r\n")
    )
    framing = conversation.framing
    before = framing.transport, framing.compression, framing.protocol, framing.account
    left = finished(framing)
    assert (left.transport, left.compression, left.protocol, left.account) == before
    assert left.verdict is Verdict.NATS and left.kind is Kind.CLIENT and left.handshake
    assert left.byte_counts(ORIGINATOR) == framing.byte_counts(ORIGINATOR)
    assert left.byte_counts(RESPONDER).framed == conversation.ends[RESPONDER]
    assert not (left.waiting or left.is_steady or left.layer_notes or left.stack.has_layers)
    assert left.finish() == []


def test_the_last_events_come_with_the_end() -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b"PUB a 5\r\nhe")
    left = finished(conversation.framing)
    assert left.feed(ORIGINATOR, []) == []
    (note,) = list(left.last) if isinstance(left.last, list) else []
    assert isinstance(note, Note) and note.anomaly is Anomaly.UNFINISHED and note.length == 11
    assert left.finish() == [note] and left.finish() == []


def test_late_packets_are_noted() -> None:
    left = finished(FramedConversation().client().framing)
    late = Oddity(7, 9, "t.pcap", 40, 4, Anomaly.OVERLAP_DIFFERS)
    found = left.feed(RESPONDER, [late])
    assert found == [Note(RESPONDER, 7, 9, "t.pcap", Anomaly.OVERLAP_DIFFERS, 40, 4)]


@pytest.mark.parametrize("midstream", [False, True])
def test_a_connection_without_payload_says_as_much_as_its_framing_would(midstream: bool) -> None:
    framing = ConnectionFraming(midstream, False, Quota())
    assert framing.finish() == [] == without_bytes().finish()
    names = "verdict handshake kind account transport compression protocol waiting layer_notes"
    left = without_bytes()
    assert [getattr(left, name) for name in names.split()] == [
        getattr(framing, name) for name in names.split()
    ]
    assert left.byte_counts(ORIGINATOR) == framing.byte_counts(ORIGINATOR)


def test_connections_of_which_as_much_is_known_share_their_facts() -> None:
    one, other = (finished(FramedConversation().client().framing) for _ in range(2))
    assert one.without_counts() is other.without_counts()
    assert one.without_counts().kind is Kind.CLIENT
    unfinished = finished(FramedConversation().client().say(ORIGINATOR, b"PUB a 5\r\nhe").framing)
    assert unfinished.without_counts() is unfinished
