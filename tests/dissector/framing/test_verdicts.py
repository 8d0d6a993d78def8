"""The states of a connection: what each decides and keeps, and that only the first one changes."""

from __future__ import annotations

import pickle

import pytest

from dissect.nats.framing import FrameStream, Quota, Verdict
from dissect.nats.framing.events import Event, Note
from dissect.nats.framing.verdicts import NatsConversation, OtherProtocol, Undecided
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.transport.decide import WAIT, Begin, Nats, Reject
from dissect.nats.transport.stack import Stack
from dissect.nats.transport.tls import layer as tls
from dissect.nats.types import Chunk, Gap, Item

from tests.support.conversations import INFO, ORIGINATOR, RESPONDER, FramedConversation

HELLO = b"\x16\x03\x01\x00\x30" + b"h" * 48


def chunk(data: bytes) -> Chunk:
    return Chunk(1, 1, "t.pcap", 0, data)


def streams() -> tuple[FrameStream, FrameStream]:
    return FrameStream(ORIGINATOR, Quota(), False), FrameStream(RESPONDER, Quota(), False)


def test_an_undecided_connection_searches_no_frames_after_bytes_that_are_none() -> None:
    state, (stream, other) = Undecided(False), streams()
    assert stream.resync
    for data, muted in ((b"PUB a 1\r\n", False), (b"EHLO x\r\n", True)):
        state = Undecided(False)
        assert state.decide(Stack(), stream, other, chunk(data)) is WAIT
        assert stream.resync.muted is muted


def test_an_undecided_connection_decides_by_the_greeting() -> None:
    originator, responder = streams()
    state = Undecided(False)
    assert isinstance(state.decide(Stack(), responder, originator, chunk(INFO)), Nats)
    state = Undecided(False)
    assert isinstance(state.decide(Stack(), responder, originator, chunk(b"220 mail\r\n")), Reject)


def test_a_rejected_connection_keeps_only_the_notes_of_layers() -> None:
    state = Undecided(False)
    notes: list[Event] = [
        Note(ORIGINATOR, 1, 1, "t.pcap", anomaly, 0, 0)
        for anomaly in (Anomaly.LOST, Anomaly.TLS_ALERT)
    ]
    state.held += notes[:1]
    rejected = state.rejected(Stack(), notes[1:])
    assert (rejected.verdict, rejected.protocol) == (Verdict.OTHER, "other")
    assert rejected.notes == notes[1:]


def test_in_a_conversation_a_layer_begins_only_where_a_direction_begins_or_is_searched() -> None:
    stream, other = streams()
    state, stack = NatsConversation(False), Stack()
    stack.push(tls.LAYER, [RESPONDER])
    items: list[Item] = [Gap(1, 1, "t.pcap", 0, 5), chunk(b"PING\r\n")]
    assert [state.decide(stack, stream, other, item) for item in items] == [WAIT, WAIT]
    assert isinstance(state.decide(stack, stream, other, chunk(HELLO)), Begin)
    stream.start()
    stream.end = 9
    assert state.decide(stack, stream, other, chunk(HELLO)) is WAIT


def test_in_a_conversation_an_opaque_direction_begins_no_other_layer() -> None:
    stream, other = streams()
    stream.become_opaque(tls.LAYER, [])
    proxy = chunk(b"PROXY UNKNOWN\r\n")
    assert NatsConversation(False).decide(Stack(), stream, other, proxy) is WAIT


@pytest.mark.parametrize(
    "data, state", [(INFO, NatsConversation), (b"220 mail\r\n", OtherProtocol), (b"INF", Undecided)]
)
def test_a_connection_continues_in_its_state_in_another_process(data: bytes, state: type) -> None:
    framing = FramedConversation().say(RESPONDER, data).framing
    copied = pickle.loads(pickle.dumps(framing))
    assert type(copied._state) is state and copied.verdict is framing.verdict
    assert copied.facts == framing.facts
