"""A summary packed and unpacked is the same summary, whatever frames are in it."""

from __future__ import annotations

import pytest

from dissect.nats.framing.events import Batch
from dissect.nats.partition.chunk_summary import (
    ChunkSummary,
    Deltas,
    DirectionSummary,
    FrameBatch,
    SkippedFrames,
    unpacked,
)
from dissect.nats.sessions import SessionDelta
from dissect.nats.types import Chunk, Direction, Segment
from natsync.protocol import Context, Decoder, Kind, Role

from tests.support.graphs import difference

_WIRE = {
    (Role.CLIENT, Kind.CLIENT): (
        b"PING\r\nSUB a.* q 1\r\nUNSUB 1 5\r\nPUB a.b r 2\r\nhi\r\n"
        b"HPUB a.b 12 14\r\nNATS/1.0\r\n\r\nhi\r\n"
    ),
    (Role.SERVER, Kind.CLIENT): b"+OK\r\n-ERR 'x'\r\nMSG a.b 1 r 2\r\nhi\r\n",
    (Role.CLIENT, Kind.ROUTE): b"RS+ $G a q 2\r\nRS- $G a q\r\nRMSG $G a | q w 2\r\nhi\r\n",
    (Role.CLIENT, Kind.LEAFNODE): b"LS+ a q 2\r\nLS- a q\r\nLMSG a + r q 2\r\nhi\r\n",
}


@pytest.mark.parametrize("sender, kind", list(_WIRE))
def test_a_packed_summary_is_unpacked_unchanged(sender: Role, kind: Kind) -> None:
    decoder = Decoder(sender, kind, payloads=False)
    decoder.feed(_WIRE[sender, kind])
    frames = decoder.read()
    assert len(frames) > 2 and decoder.idle
    chunk = Chunk(7, 3, "a.pcap", 40, b"")
    batch = Batch(Direction.RESPONDER, 7, chunk, chunk, frames, None)
    last = Segment(7, 3, "a.pcap", b"k" * 12, 1, 2, 16, b"", 5)
    direction = DirectionSummary(b"k" * 12, 1, 1, 5, last, chunk)
    run = SkippedFrames(0, 0, 90, Context(sender, kind), len(frames), 7, frozenset({"PING"}))
    steps = [run, FrameBatch(0, batch), Deltas([SessionDelta(), None])]
    summary = ChunkSummary(9, 8, (direction, direction), steps)
    assert not difference(unpacked(summary.packed()), summary)
