"""What framing hands on, and which packets it names."""

from __future__ import annotations

import pytest

from dissect.nats.framing.events import Batch
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.types import Chunk

from tests.support.conversations import ORIGINATOR, FramedConversation


def test_a_batch_names_the_packets_where_it_began_and_ended() -> None:
    conversation = FramedConversation().client().say(ORIGINATOR, b"PUB a 3\r\nx", b"yz\r\nPING\r\n")
    (batch,) = list(conversation.batches(ORIGINATOR))[1:]
    assert [frame.op for frame in batch.frames] == ["PUB", "PING"]
    assert (batch.first.number, batch.last.number, batch.ts_ns) == (3, 4, 4000)


def test_a_frame_is_complete_when_all_before_it_was_there() -> None:
    conversation = FramedConversation().client()
    late, early = conversation.packets * 1000 + 9000, 10
    offset = conversation.ends[ORIGINATOR]
    chunks = [
        Chunk(late, 9, "t.pcap", offset, b"PING\r\n"),
        Chunk(early, 8, "t.pcap", offset + 6, b"PING\r\n"),
    ]
    conversation.ends[ORIGINATOR] += 12
    conversation.events += conversation.framing.feed(ORIGINATOR, chunks)
    assert [batch.ts_ns for batch in conversation.batches(ORIGINATOR)][-2:] == [late, late]


@pytest.mark.parametrize("number", [0, 7])
def test_parts_of_a_batch_have_its_frames_and_places(number: int) -> None:
    *_, whole = FramedConversation().client().say(ORIGINATOR, b"PING\r\n" * 5).batches(ORIGINATOR)
    frames = whole.frames
    first, last = (Chunk(1000, at, "t.pcap", 0, b"") for at in (1, 2))
    batch = Batch(ORIGINATOR, 1000, first, last, frames, Anomaly.LOST, number)
    parts = list(batch.parts(2))
    assert [frame for part in parts for frame in part.frames] == frames
    assert [(part.first.number, part.last.number) for part in parts] == [(1, 2), (2, 2), (2, 2)]
    assert [part.gap for part in parts] == [Anomaly.LOST, None, None]
    assert [part.number for part in parts] == ([7, 9, 11] if number else [0, 0, 0])
