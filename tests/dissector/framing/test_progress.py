"""A stream that another reader has continued reads on as if it had read everything itself."""

from __future__ import annotations

from itertools import accumulate, combinations

import pytest

from dissect.nats.framing.events import Batch, Event
from dissect.nats.framing.frame_stream import FrameStream
from dissect.nats.framing.progress import Progress
from dissect.nats.framing.resync.resynchronizer import Quota
from dissect.nats.types import Chunk, Direction
from natsync.protocol import Context, Kind, Role

FRAMES = (
    b"PING\r\n",  # read by the stream itself, which then reads frames
    b"PUB a 3\r\nabc\r\n",
    b"HPUB b 12 70000\r\nNATS/1.0\r\n\r\n" + bytes(69_988) + b"\r\n",
    b"PONG\r\n",
)
TEXT = b"".join(FRAMES)
ENDS = tuple(accumulate(map(len, FRAMES)))


def chunk(start: int, end: int) -> Chunk:
    return Chunk(start, 1, "", start, TEXT[start:end])


def reading_stream(payloads: bool = False) -> FrameStream:
    stream = FrameStream(Direction.ORIGINATOR, Quota(), payloads)
    stream.set_kind(Kind.CLIENT, False, False, True)
    stream.expect((Context(Role.CLIENT),), True, False)
    stream.start()
    read(stream, 0, ENDS[0])
    return stream


def read(stream: FrameStream, start: int, end: int) -> list[Event]:
    out: list[Event] = []
    found = stream.feed(chunk(start, end), out)
    while found is not None:
        found = stream.proceed(out)
    return out


def frames_of(events: list[Event]) -> list[tuple[str, int, int]]:
    return [
        (frame.op, frame.offset, frame.total_bytes)
        for event in events
        if isinstance(event, Batch)
        for frame in event.frames
    ]


def progress_at(start: int, end: int, frames: int) -> Progress:
    """Where another reader stands that reads from `start` to `end`."""
    alone = reading_stream()
    read(alone, ENDS[0], end)
    given = alone.give()
    assert given
    return given._replace(frames=frames, first=chunk(start, end))


PLACES = [6, 9, 20, 23, 37, 46, 51, 50_000, 60_000, 70_035, 70_036, 70_037, 70_038, 70_040]


@pytest.mark.parametrize("early, late", [*combinations(PLACES, 2)])
def test_frames_go_on_where_another_reader_stopped(early: int, late: int) -> None:
    stream = reading_stream()
    if early > ENDS[0]:
        read(stream, ENDS[0], early)
    frames = sum(early < end <= late for end in ENDS)
    stream.take(progress_at(early, late, frames))
    out = read(stream, late, len(TEXT))
    whole = frames_of(read(reading_stream(), ENDS[0], len(TEXT)))
    assert frames_of(out) == [frame for frame in whole if frame[1] + frame[2] > late]
    assert stream.frames == len(ENDS)
    assert stream.finish([]) is None
    assert stream.counts.framed == len(TEXT)


def test_a_stream_that_keeps_payloads_is_not_given_within_one() -> None:
    stream = reading_stream(payloads=True)
    assert stream.give()
    read(stream, ENDS[0], ENDS[0] + len(b"PUB a 3\r\nab"))
    assert stream.give() is None
    read(stream, ENDS[0] + len(b"PUB a 3\r\nab"), ENDS[1])
    assert stream.give()
