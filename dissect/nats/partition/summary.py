"""Builds the summary of a flow in one chunk, packet by packet.

The builder relies only on facts that hold for any state of the flow: one decoder, which learned nothing new
in between, read consecutive frames from known bytes of known packets. All other bytes become steps for the
true framing to read, or the flow has no summary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from natsync.protocol import Connect, Context, Decoder, HPub, Info, ProtocolError, Pub

from ..engine.connections import Connection
from ..framing import FinishedFraming, FrameStream
from ..framing.contexts import mirrored
from ..framing.events import Batch, Event
from ..sessions import SessionDelta
from ..tcp.strays import is_near
from ..tcp.window import unit_that_fits
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
# The largest number of bytes of a flow to feed: with more, reading its packets is as fast.
_FED_BYTES = 4 << 20
# The largest number of bytes without a frame: more are probably encrypted or compressed, and are read again.
_UNREAD_BYTES = 1 << 16
# The number of reply subjects to remember: more than a session does.
_ASKED = 1 << 14
_new = object.__new__


class PacketBytes(NamedTuple):
    """The payload of a packet that is in no step yet: stream offsets `start` to `end`."""

    packet_index: int
    start: int
    end: int
    segment: Segment

    def place(self) -> Chunk:
        """The packet without its bytes."""
        segment, place = self.segment, _new(Chunk)  # calling the class takes 4 times as long
        place.ts_ns, place.number, place.capture = segment.ts_ns, segment.number, segment.capture
        place.offset, place.data = self.start, b""
        return place

    def chunk(self, start: int, end: int) -> Chunk:
        """The bytes between two offsets."""
        segment = self.segment
        first = self.end - len(segment.payload)
        data = segment.payload[start - first : end - first]
        return Chunk(segment.ts_ns, segment.number, segment.capture, start, data)


class DirectionBuilder:
    """One direction of a flow. All bytes before `at` are in steps. `context`, if known, parses the next
    bytes. It is compared by identity: a decoder makes a new one whenever it learns something."""

    __slots__ = (
        "builder number key packets first_seq ack_seq next_seq size last peer early fills"
        " piece pending at context skip stream decoder first ts_ns"
    ).split()

    def __init__(self, builder: FlowSummaryBuilder, number: int, key: bytes) -> None:
        self.builder = builder
        self.number = number
        self.key = key
        self.packets = self.early = 0
        self.first_seq = self.next_seq = self.ack_seq = -1
        self.size = 0
        self.last: Segment | None = None
        self.peer: DirectionBuilder
        self.fills: dict[int, int] = {}
        self.piece: PacketBytes | None = None  # of the last packet that had bytes
        self.pending: deque[PacketBytes] = deque()
        self.at = self.ts_ns = 0
        self.context: Context | None = None
        self.skip: FrameRun | None = None
        self.stream: FrameStream | None = None
        self.decoder: Decoder | None = None  # once the builder reads the frames itself
        self.first: PacketBytes | None = None  # the packet where the frame in progress begins

    def open(self, context: Context) -> None:
        """From now on, the builder decodes the frames itself. If no byte of this direction was seen, the
        next one is taken for the first of a frame; using the summary proves this, too."""
        self.decoder = Decoder(
            context.sender, context.kind, payloads=self.builder.payloads, offset=self.at
        )
        self.decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
        for piece in self.pending:
            self.decoder.feed(piece.chunk(max(piece.start, self.at), piece.end).data)
            assert not self.decoder.read()
        self.first = self.pending[0] if self.pending else None
        self.ts_ns = self.stream.ts_ns if self.stream else 0

    def follow(self, segment: Segment) -> bool:
        """Counts a segment. Returns False if it is not a plain ACK, complete, and the next in order, or
        if its window is 0."""
        self.packets += 1
        self.last = segment
        builder = self.builder
        if segment.ts_ns > builder.last_ns:
            builder.last_ns = segment.ts_ns
        if segment.flags & 0x17 != _ACK or not segment.window:
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
        latest = self.peer.last
        if latest is None:
            self.early = end
        elif not (self.next_seq - latest.ack & 0xFFFFFFFF) % latest.window:
            if unit := unit_that_fits(self.next_seq, latest):
                self.fills[unit] = self.fills.get(unit, 0) + 1
        builder.packet_index += 1
        self.piece = piece = tuple.__new__(PacketBytes, (builder.packet_index, start, end, segment))
        if builder.steps is not None:
            self.pending.append(piece)
            if self.context is None:
                builder.deltas = None
            builder.fed_bytes += length
            if builder.fed_bytes > _FED_BYTES:
                builder.give_up()
        return True

    def drained(self, end: int) -> list[tuple[int, Chunk, bool]]:
        """The bytes up to `end` that are in no step yet: packet index, bytes, whether all of a packet."""
        chunks = []
        pending = self.pending
        while self.at < end:
            piece = pending[0]
            stop = min(end, piece.end)
            whole = self.at == piece.start and stop == piece.end
            chunks.append((piece.packet_index, piece.chunk(self.at, stop), whole))
            self.at = stop
            if stop == piece.end:
                pending.popleft()
        return chunks

    def summary(self) -> DirectionSummary:
        """The summary of this direction."""
        last = replace(self.last, payload=b"") if self.last else None
        piece = self.piece
        chunk = piece.chunk(piece.start, piece.end) if piece else None
        numbers = self.packets, self.first_seq, self.size
        windows = self.early, self.fills
        return DirectionSummary(self.key, *numbers, last, chunk, self.ack_seq, *windows)


class FlowSummaryBuilder:
    """Observes a flow that may have begun in an earlier chunk. With `payloads`, frames keep their payloads.

    `packet_index` counts packets with payload. When `steps` is None, only packets are counted. While the
    builder is `alone`, no flow table knows the flow; it has `failed` when a packet was not the next one.
    """

    def __init__(self, key: bytes, back: bytes, payloads: bool = False) -> None:
        self.payloads = payloads
        one, other = DirectionBuilder(self, 0, key), DirectionBuilder(self, 1, back)
        one.peer, other.peer = other, one
        self.directions = one, other
        self.packet_index = 0
        self.last_ns = 0
        self.fed_bytes = 0  # that are pending, or in steps
        self.steps: list[tuple[int, Step]] | None = []
        self.deltas: Deltas | None = None
        self.key = key
        self.alone = False
        self.failed = False
        self._connection: Connection | None = None
        self._asked: set[bytes] = set()

    def stand_alone(self) -> Connection | None:
        """From now on segments go to `read` and no longer to the framing. Returns the connection, which
        is not needed any more; None if the context of a direction is not known yet."""
        connection = self._connection
        if connection is None or not connection.framing.is_steady:
            return None
        contexts = [direction.context for direction in self.directions]
        for direction, context in zip(self.directions, contexts):
            if direction.size and (context is None or context.kind is None):
                return None
        first, second = contexts
        for direction, context in (self.directions[0], first or second), (
            self.directions[1],
            second or first,
        ):
            assert context
            direction.open(context if context is direction.context else mirrored(context))
        self.alone = True
        self._connection = None
        return connection

    def read(self, direction: DirectionBuilder, segment: Segment) -> None:
        """Adds a segment of a flow that only this builder observes."""
        if self.failed:
            return
        if not direction.follow(segment):
            self.failed = True
            self.give_up()
        elif segment.length and self.steps is not None:
            self._decode(direction, segment)

    def _decode(self, direction: DirectionBuilder, segment: Segment) -> None:
        """Decodes the frames that the latest packet completes, as `FrameStream.feed` does."""
        decoder, piece = direction.decoder, direction.piece
        assert decoder and piece
        if segment.ts_ns > direction.ts_ns:
            direction.ts_ns = segment.ts_ns
        try:
            frames = decoder.receive(segment.payload)
            while frames:
                batch = _new(Batch)
                batch.direction, batch.frames, batch.gap = Direction.ORIGINATOR, frames, None
                batch.ts_ns, batch.last = direction.ts_ns, piece.place()
                batch.first = direction.first.place() if direction.first else batch.last
                direction.first = piece
                if direction.context is None or frames[-1].__class__ in _GREETINGS:
                    self._resume(direction, decoder)
                else:
                    self._pass(direction, batch)
                if decoder.offset == direction.size:
                    direction.first = None
                    return
                frames = decoder.read() if decoder.has_more else []
        except ProtocolError:  # for the stitch, which knows the state before
            self.give_up()
            return
        if direction.first is None:
            direction.first = piece

    def give_up(self) -> None:
        """Drops the steps: the summary will only count packets and bytes."""
        self.steps = self.deltas = self._connection = None
        self._asked.clear()
        for direction in self.directions:
            direction.pending.clear()

    def observe(self, connection: Connection, events: Sequence[Event]) -> None:
        """Adds the events that the framing made from the latest packet."""
        framing = connection.framing
        # Another connection may follow; frames in a layer are in none of the bytes that are known here.
        if isinstance(framing, FinishedFraming) or connection.over or framing.stack:
            self.give_up()
            return
        if self._connection and len(events) == 1:
            batch = events[0]
            side = connection.flow.sides[0]
            of_first = (batch.direction is side.direction) is (side.key == self.directions[0].key)
            direction = self.directions[0] if of_first else self.directions[1]
            if isinstance(batch, Batch) and _goes_on(direction, batch):
                self._pass(direction, batch)
                return
        self._connection = connection
        batches: dict[Direction, list[Batch]] = {}
        for event in events:
            if isinstance(event, Batch):
                batches.setdefault(event.direction, []).append(event)
        for way, some in batches.items():
            key = connection.flow.side(way).key
            direction = next(direction for direction in self.directions if direction.key == key)
            self._take(direction, framing.stream(way), some)

    def _take(self, direction: DirectionBuilder, stream: FrameStream, batches: list[Batch]) -> None:
        """Adds frames that were completed in one direction."""
        direction.stream = stream
        if all(_goes_on(direction, batch) for batch in batches):
            for batch in batches:
                self._pass(direction, batch)
        else:
            self._feed(direction, stream.decoder, batches[-1].last)

    def _feed(self, direction: DirectionBuilder, reader: Decoder | None, last: Chunk | Gap) -> None:
        """Adds a step that feeds these bytes; from the decoder's position on, the context is known."""
        assert self.steps is not None
        self.deltas = None
        self._feed_silent(direction)
        # A first byte that looks like a TCP keep-alive is not part of the stream.
        if reader is not None and any(_is_of(piece, last) for piece in direction.pending):
            self._resume(direction, reader)

    def _feed_silent(self, direction: DirectionBuilder) -> None:
        """Adds steps that feed the bytes before the latest packet, which have completed nothing."""
        assert self.steps is not None and direction.piece
        if direction.context:
            for _, chunk, whole in direction.drained(direction.piece.start):
                self.steps.append((self.packet_index, Bytes(direction.number, chunk, whole, True)))
        direction.context = direction.skip = None

    def _resume(self, direction: DirectionBuilder, reader: Decoder) -> None:
        """Adds steps that feed the bytes up to the decoder's position, from where the context is known."""
        assert self.steps is not None
        self.deltas = None
        self._feed_silent(direction)
        for packet_index, chunk, whole in direction.drained(reader.offset):
            self.steps.append((packet_index, Bytes(direction.number, chunk, whole, False)))
        direction.context = reader.context
        direction.skip = FrameRun(direction.number, direction.at, direction.at, reader.context)
        self.steps.append((self.packet_index, direction.skip))

    def _pass(self, direction: DirectionBuilder, batch: Batch) -> None:
        """Adds whole frames to the current run of frames."""
        assert self.steps is not None and direction.skip
        frames, skip = batch.frames, direction.skip
        end = frames[-1].offset + frames[-1].total_bytes
        pending = direction.pending
        while pending and pending[0].end <= end:
            pending.popleft()
        self.fed_bytes -= end - direction.at
        direction.at = skip.end = end
        skip.frames += len(frames)
        skip.ts_ns = batch.ts_ns
        deltas = self.deltas or Deltas([None, None])
        delta = deltas.sums[direction.number] or SessionDelta()
        if delta.add(batch, self._asked):
            if self.deltas is None:
                self.deltas = deltas
                self.steps.append((self.packet_index, deltas))
            deltas.sums[direction.number] = delta
        else:
            self.deltas = None
            for frame in frames:
                if isinstance(frame, (Pub, HPub)) and frame.reply:
                    self._ask(frame.reply)
            kept = batch if self.alone else lightened(batch)
            self.steps.append((self.packet_index, FrameBatch(direction.number, kept)))

    def _ask(self, reply: bytes) -> None:
        if len(self._asked) >= _ASKED:
            self._asked.clear()
        self._asked.add(reply)

    def summary(self, latest_ns: int, carries: bool) -> ChunkSummary:
        """The summary of the flow. `latest_ns` is the latest time of any packet in the chunk; without
        `carries`, sums by subject are left out."""
        steps = self._all_steps()
        if steps is not None:
            name_operations(steps)
            if not carries:
                leave_out_carried(steps)
        one, other = self.directions
        return ChunkSummary(latest_ns, self.last_ns, (one.summary(), other.summary()), steps)

    def _all_steps(self) -> list[Step] | None:
        """The steps in order, with the remaining bytes at the end."""
        if self.steps is None or not self.steps and self.fed_bytes > _UNREAD_BYTES:
            return None
        steps = list(self.steps)
        for direction in self.directions:
            silent = direction.context is not None
            for packet_index, chunk, whole in direction.drained(direction.size):
                feed = Bytes(direction.number, chunk, whole, silent)
                steps.append((self.packet_index + 1 if silent else packet_index, feed))
        return [step for _, step in sorted(steps, key=lambda step: step[0])]


def _goes_on(direction: DirectionBuilder, batch: Batch) -> bool:
    """Whether the same decoder, with the same context, read this batch and the one before in its
    direction."""
    reader = direction.stream and direction.stream.decoder
    if not reader or reader.context is not direction.context:
        return False
    return batch.frames[-1].__class__ not in _GREETINGS  # the decoder stops after those


def _is_of(piece: PacketBytes, chunk: Chunk | Gap) -> bool:
    """Whether reassembly made a chunk from these bytes."""
    if not isinstance(chunk, Chunk) or chunk.offset + len(chunk.data) != piece.end:
        return False
    return chunk.number == piece.segment.number and chunk.capture == piece.segment.capture
