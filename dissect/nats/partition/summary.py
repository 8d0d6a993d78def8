"""A flow of a stretch, followed packet by packet: the making of its stride.

What the stages found is not believed but where it is sure to hold for any state: that frames were read, one
behind the other by one decoder that was told nothing new meanwhile, from bytes of packets that are known.
All else is fed, or there is no stride.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from natsync.protocol import (
    Connect,
    Context,
    Decoder,
    HPub,
    Info,
    ProtocolError,
    Pub,
)

from ..engine.connections import Connection
from ..framing import FrameStream
from ..framing.contexts import mirrored
from ..framing.events import Batch, Event
from ..sessions import SessionDelta
from ..tcp.strays import is_near
from ..types import Chunk, Direction, Gap, Segment
from .chunk_summary import (
    Bytes,
    ChunkSummary,
    Deltas,
    DirectionSummary,
    FrameBatch,
    FrameRun,
    Step,
    leave_out_carried,
    lightened,
    name_operations,
)

_GREETINGS = frozenset({Info, Connect})
_ACK = 16
# How many bytes of a flow may have to be fed: beyond, reading its packets costs no more.
_FED_BYTES = 4 << 20
# How many reply subjects are known at a time: more than a session remembers.
_ASKED = 1 << 14


class PacketBytes(NamedTuple):
    """A packet's bytes of which no use was made yet, from `start` on."""

    turn: int
    start: int
    end: int
    segment: Segment

    def place(self) -> Chunk:
        """The packet without its bytes."""
        segment = self.segment
        return Chunk(segment.ts_ns, segment.number, segment.capture, self.start, b"")

    def chunk(self, start: int, end: int) -> Chunk:
        """The part between two offsets."""
        segment = self.segment
        first = self.end - len(segment.payload)
        data = segment.payload[start - first : end - first]
        return Chunk(segment.ts_ns, segment.number, segment.capture, start, data)


class DirectionBuilder:
    """One direction of a flow. `at`: before it all bytes are in steps. `context` is how what comes next is
    read, while that is known: the very object that `reader` has. Each decoder makes its own, and another one
    whenever it is told something new."""

    __slots__ = (
        "trail",
        "number",
        "key",
        "packets",
        "first_seq",
        "ack_seq",
        "next_seq",
        "size",
        "last",
        "piece",
        "pending",
        "at",
        "context",
        "skip",
        "stream",
        "decoder",
        "first",
        "ts_ns",
    )

    def __init__(self, trail: FlowSummaryBuilder, number: int, key: bytes) -> None:
        self.trail = trail
        self.number = number
        self.key = key
        self.packets = 0
        self.first_seq = self.next_seq = self.ack_seq = -1
        self.size = 0
        self.last: Segment | None = None
        self.piece: PacketBytes | None = None  # of the last packet that had bytes
        self.pending: deque[PacketBytes] = deque()
        self.at = 0
        self.context: Context | None = None
        self.skip: FrameRun | None = None
        self.stream: FrameStream | None = None
        self.decoder: Decoder | None = None  # once the builder reads the frames itself
        self.first: PacketBytes | None = None  # the packet where the frame in progress begins
        self.ts_ns = 0

    def open(self, context: Context) -> None:
        """The builder reads the frames itself from now on. If nothing was seen of this direction, the next
        byte is taken for the first one of a frame; that is proven, as all else, when the summary is used.
        """
        self.decoder = Decoder(
            context.sender, context.kind, payloads=self.trail.payloads, offset=self.at
        )
        self.decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
        for piece in self.pending:
            self.decoder.feed(piece.chunk(max(piece.start, self.at), piece.end).data)
            assert not self.decoder.read()
        self.first = self.pending[0] if self.pending else None
        self.ts_ns = self.stream.ts_ns if self.stream else 0

    def follow(self, segment: Segment) -> bool:
        """Takes a segment; whether it takes the short way."""
        self.packets += 1
        self.last = segment
        trail = self.trail
        if segment.ts_ns > trail.last_ns:
            trail.last_ns = segment.ts_ns
        if segment.flags & 0x17 != _ACK:
            return False
        length = segment.length
        seq = segment.seq
        if not length:
            if self.next_seq >= 0:
                return is_near(seq, self.next_seq)
            self.ack_seq = self.ack_seq if self.ack_seq >= 0 else seq
            return (seq - self.ack_seq + 1) & 0xFFFFFFFF <= 2
        if seq != self.next_seq:
            if self.next_seq >= 0:
                return False
            self.first_seq = seq
        if len(segment.payload) != length:
            return False
        self.next_seq = seq + length & 0xFFFFFFFF
        start = self.size
        self.size = end = start + length
        trail.turn += 1
        self.piece = piece = PacketBytes(trail.turn, start, end, segment)
        if trail.steps is not None:
            self.pending.append(piece)
            if self.context is None:
                trail.tally = None
            trail.fed_bytes += length
            if trail.fed_bytes > _FED_BYTES:
                trail.give_up()
        return True

    def drained(self, end: int) -> list[tuple[int, Chunk, bool]]:
        """The bytes up to `end` that were not used yet, by turns; whether they are whole packets."""
        chunks = []
        pending = self.pending
        while self.at < end:
            piece = pending[0]
            stop = min(end, piece.end)
            whole = self.at == piece.start and stop == piece.end
            chunks.append((piece.turn, piece.chunk(self.at, stop), whole))
            self.at = stop
            if stop == piece.end:
                pending.popleft()
        return chunks

    def course(self) -> DirectionSummary:
        """All of it."""
        last, piece = self.last, self.piece
        if last:
            place = last.ts_ns, last.number, last.capture, last.key
            last = Segment(*place, last.seq, last.ack, last.flags, b"", last.length)
        chunk = piece.chunk(piece.start, piece.end) if piece else None
        numbers = self.packets, self.first_seq, self.size
        return DirectionSummary(self.key, *numbers, last, chunk, self.ack_seq)


class FlowSummaryBuilder:
    """A flow that may have begun before. `turn` counts packets with bytes. Without `steps` nothing is known
    but the packets. With `payloads` frames are read with theirs."""

    def __init__(self, key: bytes, back: bytes, payloads: bool = False) -> None:
        self.payloads = payloads
        self.tracks = DirectionBuilder(self, 0, key), DirectionBuilder(self, 1, back)
        self.turn = 0
        self.last_ns = 0
        self.fed_bytes = 0  # that are pending, or in steps
        self.steps: list[tuple[int, Step]] | None = []
        self.tally: Deltas | None = None
        self.key = key
        self.alone = False
        self.failed = False
        self._talk: Connection | None = None
        self._asked: set[bytes] = set()

    def stand_alone(self) -> Connection | None:
        """From now on segments come to `read`, and the framing is left behind. Returns the connection, which
        no one else needs any more; None if it is not yet known how each direction is read."""
        connection = self._talk
        if connection is None or not connection.framing.is_steady:
            return None
        contexts = [track.context for track in self.tracks]
        for track, context in zip(self.tracks, contexts):
            if track.size and (context is None or context.kind is None):
                return None
        first, second = contexts
        for track, context in (self.tracks[0], first or second), (self.tracks[1], second or first):
            assert context
            track.open(context if context is track.context else mirrored(context))
        self.alone = True
        self._talk = None
        return connection

    def read(self, track: DirectionBuilder, segment: Segment) -> None:
        """Takes a segment of a flow that only this builder observes."""
        if self.failed:
            return
        if not track.follow(segment):
            self.failed = True
            self.give_up()
        elif segment.length and self.steps is not None:
            self._decode(track, segment)

    def _decode(self, track: DirectionBuilder, segment: Segment) -> None:
        """Reads what the latest packet completes, as `FrameStream.take` does."""
        decoder, piece = track.decoder, track.piece
        assert decoder and piece
        if segment.ts_ns > track.ts_ns:
            track.ts_ns = segment.ts_ns
        decoder.feed(segment.payload)
        try:
            frames = decoder.read()
            while frames:
                last = piece.place()
                first = last if track.first is None else track.first.place()
                batch = Batch(Direction.ORIGINATOR, track.ts_ns, first, last, frames, None)
                track.first = piece
                if track.context is None or frames[-1].__class__ in _GREETINGS:
                    self._resume(track, decoder)
                else:
                    self._pass(track, batch)
                if decoder.offset == track.size:
                    track.first = None
                    return
                frames = decoder.read()
        except ProtocolError:  # for the stitch, which knows the state before
            self.give_up()
            return
        if track.first is None:
            track.first = piece

    def give_up(self) -> None:
        """Nothing more is to be said of what is in the bytes."""
        self.steps = self.tally = self._talk = None
        self._asked.clear()
        for track in self.tracks:
            track.pending.clear()

    def hear(self, connection: Connection, events: Sequence[Event]) -> None:
        """Takes what the framing makes of the latest packet."""
        if connection.over:  # another one may follow
            self.give_up()
            return
        if self._talk and len(events) == 1:
            batch = events[0]
            side = connection.flow.sides[0]
            of_first = (batch.direction is side.direction) is (side.key == self.tracks[0].key)
            track = self.tracks[0] if of_first else self.tracks[1]
            if isinstance(batch, Batch) and _goes_on(track, batch):
                self._pass(track, batch)
                return
        self._talk = connection
        batches: dict[Direction, list[Batch]] = {}
        for event in events:
            if isinstance(event, Batch):
                batches.setdefault(event.direction, []).append(event)
        for way, some in batches.items():
            key = connection.flow.side(way).key
            track = next(track for track in self.tracks if track.key == key)
            self._take(track, connection.framing.stream(way), some)

    def _take(self, track: DirectionBuilder, stream: FrameStream, batches: list[Batch]) -> None:
        """Frames of one direction were completed."""
        track.stream = stream
        if all(_goes_on(track, batch) for batch in batches):
            for batch in batches:
                self._pass(track, batch)
        else:
            self._feed(track, stream.decoder, batches[-1].last)

    def _feed(self, track: DirectionBuilder, reader: Decoder | None, last: Chunk | Gap) -> None:
        """What came is to be fed; from where the decoder stands now, it is known how to read."""
        assert self.steps is not None
        self.tally = None
        self._feed_silent(track)
        # A first byte that is taken for a keep-alive is none of the stream's.
        if reader is not None and any(_is_of(piece, last) for piece in track.pending):
            self._resume(track, reader)

    def _feed_silent(self, track: DirectionBuilder) -> None:
        """Feeds what came before the latest packet, if that has completed nothing."""
        assert self.steps is not None and track.piece
        if track.context:
            for _, chunk, whole in track.drained(track.piece.start):
                self.steps.append((self.turn, Bytes(track.number, chunk, whole, True)))
        track.context = track.skip = None

    def _resume(self, track: DirectionBuilder, reader: Decoder) -> None:
        """Feeds the rest up to where the decoder stands; from there on it is known how to read."""
        assert self.steps is not None
        self.tally = None
        self._feed_silent(track)
        for turn, chunk, whole in track.drained(reader.offset):
            self.steps.append((turn, Bytes(track.number, chunk, whole, False)))
        track.context = reader.context
        track.skip = FrameRun(track.number, track.at, track.at, reader.context)
        self.steps.append((self.turn, track.skip))

    def _pass(self, track: DirectionBuilder, batch: Batch) -> None:
        """Frames that need not be fed: the next ones, read from the latest packet on."""
        assert self.steps is not None and track.skip
        frames, skip = batch.frames, track.skip
        end = frames[-1].offset + frames[-1].total_bytes
        pending = track.pending
        while pending and pending[0].end <= end:
            pending.popleft()
        self.fed_bytes -= end - track.at
        track.at = skip.end = end
        skip.frames += len(frames)
        skip.ts_ns = batch.ts_ns
        tally = self.tally or Deltas([None, None])
        amount = tally.sums[track.number] or SessionDelta()
        if amount.take(batch, self._asked):
            if self.tally is None:
                self.tally = tally
                self.steps.append((self.turn, tally))
            tally.sums[track.number] = amount
        else:
            self.tally = None
            for frame in frames:
                if isinstance(frame, (Pub, HPub)) and frame.reply:
                    self._ask(frame.reply)
            told = batch if self.alone else lightened(batch)
            self.steps.append((self.turn, FrameBatch(track.number, told)))

    def _ask(self, reply: bytes) -> None:
        if len(self._asked) >= _ASKED:
            self._asked.clear()
        self._asked.add(reply)

    def stride(self, latest_ns: int, carries: bool) -> ChunkSummary:
        """All of it."""
        steps = self._all_steps()
        if steps is not None:
            name_operations(steps)
            if not carries:
                leave_out_carried(steps)
        one, other = self.tracks
        return ChunkSummary(latest_ns, self.last_ns, (one.course(), other.course()), steps)

    def _all_steps(self) -> list[Step] | None:
        """The steps in their order, with what is left at the end."""
        if self.steps is None:
            return None
        steps = list(self.steps)
        for track in self.tracks:
            silent = track.context is not None
            for turn, chunk, whole in track.drained(track.size):
                feed = Bytes(track.number, chunk, whole, silent)
                steps.append((self.turn + 1 if silent else turn, feed))
        return [step for _, step in sorted(steps, key=lambda step: step[0])]


def _goes_on(track: DirectionBuilder, batch: Batch) -> bool:
    """Whether what read this is what read the direction before, and in the same way."""
    reader = track.stream and track.stream.decoder
    if not reader or reader.context is not track.context:
        return False
    return batch.frames[-1].__class__ not in _GREETINGS  # the decoder stops behind those


def _is_of(piece: PacketBytes, chunk: Chunk | Gap) -> bool:
    """Whether a chunk is what reassembly made of these bytes."""
    if not isinstance(chunk, Chunk) or chunk.offset + len(chunk.data) != piece.end:
        return False
    return chunk.number == piece.segment.number and chunk.capture == piece.segment.capture
