"""What one stream finds out is handed to its connection before the bytes after it are read."""

from __future__ import annotations

from dissect.nats.framing.discoveries import Handshake, LayerBegins, Proven, Unread
from dissect.nats.framing.events import Batch, Event
from dissect.nats.framing.frame_stream import FrameStream
from dissect.nats.framing.resync.resynchronizer import Quota
from dissect.nats.framing.state import StreamState
from dissect.nats.transport.tls import layer as tls
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Kind

INFO = b'INFO {"server_id":"NS"} \r\n'
PUB = b"PUB a 0\r\n\r\n"


def started(direction: Direction) -> FrameStream:
    stream = FrameStream(direction, Quota(), True)
    stream.start()
    assert stream.state is StreamState.STARTING
    return stream


def test_a_handshake_comes_before_the_frames_after_it() -> None:
    stream, out = started(Direction.RESPONDER), list[Event]()
    assert stream.feed(Chunk(1, 1, "t.pcap", 0, INFO + b"PING\r\n"), out) is Unread.MORE
    found = stream.proceed(out)
    assert isinstance(found, Handshake) and found.frame.op == "INFO"
    assert stream.frames == 1
    assert stream.proceed(out) is None
    assert [frame.op for event in out if isinstance(event, Batch) for frame in event.frames] == [
        "INFO",
        "PING",
    ]


def test_a_layer_begins_before_its_bytes_are_taken_for_a_frame() -> None:
    stream, out = started(Direction.RESPONDER), list[Event]()
    record = b"\x16\x03\x03\x00\x01x"
    stream.feed(Chunk(1, 1, "t.pcap", 0, INFO + record), out)
    stream.proceed(out)
    assert stream.proceed(out) == LayerBegins(tls.LAYER)
    assert stream.withdraw(out, joins=False) == [Chunk(1, 1, "t.pcap", len(INFO), record)]
    assert (stream.state, stream.end) == (StreamState.FRAMING, len(INFO))


def test_a_proof_comes_before_the_frames_that_prove() -> None:
    stream, out = FrameStream(Direction.ORIGINATOR, Quota(), True), list[Event]()
    stream.feed(Chunk(1, 1, "t.pcap", 0, PUB * 3), out)
    found = stream.proceed(out)
    assert isinstance(found, Proven) and found.chain.frames == 3
    assert stream.frames == 0
    stream.set_kind(Kind.CLIENT, False, False, True)
    assert stream.proceed(out) is None
    assert stream.frames == 3
