"""Builds the summary of a flow in one chunk, packet by packet.

The builder relies only on facts that hold for any state of the flow: a decoder, whose context did not change
in between, decoded consecutive frames from known bytes of known packets. All other bytes become steps that
the true framing has to read; if there are too many, the flow has no summary.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from natsync.protocol import Connect, Context, Decoder, HPub, Info, ProtocolError, Pub

from ..durations import CLOCK_STEP_NS
from ..engine.connections import Connection
from ..framing import FinishedFraming, FrameStream
from ..framing.contexts import mirrored
from ..framing.events import Batch, Event
from ..sessions import SessionDelta, is_plain
from ..tcp.checksum import is_partial, is_right, is_wrong
from ..tcp.strays import is_near
from ..tcp.window import unit_that_fits
from ..types import EARLIEST_NS, NEVER_NS, NO_PATH, Chunk, Direction, Gap, Segment
from .chunk_summary import (
    Bytes,
    ChunkSummary,
    Deltas,
    DirectionSummary,
    FrameBatch,
    SkippedFrames,
    Step,
    leave_out_carried,
    lightened,
    name_operations,
)

_GREETINGS = frozenset({Info, Connect})
_ACK = 16
# The largest number of bytes of a flow in a summary. Reading the packets again is as fast as feeding more.
_FED_BYTES = 4 << 20
# The largest number of bytes without any frame. More bytes are probably encrypted or compressed.
_UNREAD_BYTES = 1 << 16
# The number of reply subjects to remember; a session remembers fewer.
_REPLY_SUBJECTS = 1 << 14


class PacketBytes(NamedTuple):
    """The payload of a packet, from offset `start` to `end` of its direction, while no step contains it."""

    packet_index: int
    start: int
    end: int
    segment: Segment

    def place(self) -> Chunk:
        """The packet without its bytes."""
        segment = self.segment
        return Chunk(segment.ts_ns, segment.number, segment.capture, self.start, b"")

    def chunk(self, start: int, end: int) -> Chunk:
        """The bytes between two offsets."""
        segment = self.segment
        first = self.end - len(segment.payload)
        data = segment.payload[start - first : end - first]
        return Chunk(segment.ts_ns, segment.number, segment.capture, start, data)


class DirectionBuilder:
    """One direction of a flow. All bytes before offset `at` are in steps; `context`, if known, is the context
    of the next bytes. Contexts are compared by identity: a decoder makes a new one whenever it changes.
    """

    __slots__ = (
        "builder index key path packets first_seq ack_seq next_seq size last peer early fills"
        " piece pending at context skip stream decoder first ts_ns checks wrong"
    ).split()

    def __init__(self, builder: FlowSummaryBuilder, index: int, key: bytes) -> None:
        self.builder = builder
        self.index = index
        self.key = key
        self.path = NO_PATH  # of all packets
        self.packets = self.early = 0
        self.first_seq = self.next_seq = self.ack_seq = -1
        self.size = 0
        self.checks = self.wrong = False
        self.last: Segment | None = None
        self.peer: DirectionBuilder
        self.fills: dict[int, int] = {}
        self.piece: PacketBytes | None = None  # the last packet that has bytes
        self.pending: deque[PacketBytes] = deque()
        self.at, self.ts_ns = 0, EARLIEST_NS
        self.context: Context | None = None
        self.skip: SkippedFrames | None = None
        self.stream: FrameStream | None = None
        self.decoder: Decoder | None = None  # once the builder decodes frames itself
        self.first: PacketBytes | None = None  # the packet where the frame in progress begins

    def open(self, context: Context) -> None:
        """From now on, the builder itself decodes the frames of this direction. If none of its bytes was
        seen yet, the next byte is assumed to begin a frame; `advance` proves this, too."""
        self.decoder = Decoder(
            context.sender, context.kind, payloads=self.builder.payloads, offset=self.at
        )
        self.decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
        for piece in self.pending:
            self.decoder.feed(piece.chunk(max(piece.start, self.at), piece.end).data)
            assert not self.decoder.read()
        self.first = self.pending[0] if self.pending else None
        self.ts_ns = self.stream.ts_ns if self.stream else EARLIEST_NS

    def follow(self, segment: Segment) -> bool:
        """Counts a segment. Returns whether it takes the fast path of flow table and reassembly."""
        self.packets += 1
        self.last = segment
        if self.packets == 1:
            self.path, self.checks = segment.path, is_right(segment)
        elif segment.path != self.path:
            return False
        builder = self.builder
        if segment.ts_ns > builder.last_ns:
            builder.last_ns = segment.ts_ns
        elif segment.ts_ns < builder.last_ns - CLOCK_STEP_NS:
            return False
        if segment.ts_ns < builder.least_ns:
            builder.least_ns = segment.ts_ns
        if segment.flags & 0x117 != _ACK or not segment.window:
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
        if (self.checks or not self.wrong) and is_wrong(segment):
            # As in the flow table: of a side whose checksums are right, this segment waits for a true copy.
            if self.checks and not is_partial(segment):
                return False
            self.checks, self.wrong = False, True
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
        self.piece = piece = PacketBytes(builder.packet_index, start, end, segment)
        if builder.steps is not None:
            self.pending.append(piece)
            if self.context is None:
                builder.deltas = None
            builder.fed_bytes += length
            if builder.fed_bytes > _FED_BYTES:
                builder.give_up()
        return True

    def drained(self, end: int) -> list[tuple[int, Chunk, bool]]:
        """Removes the pending bytes before `end`. Returns them as packet index, bytes, and whether these are
        all bytes of the packet."""
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
        source = replace(piece.segment, payload=b"") if piece else None
        return DirectionSummary(
            key=self.key,
            packets=self.packets,
            first_seq=self.first_seq,
            size=self.size,
            last=last,
            chunk=chunk,
            ack_seq=self.ack_seq,
            early=self.early,
            fills=self.fills,
            source=source,
            path=self.path,
            wrong=self.wrong,
        )


class FlowSummaryBuilder:
    """Observes a flow that may have begun in an earlier chunk. With `payloads`, frames keep their payloads.
    `packet_index` counts the packets with payload. Without `steps`, only packets and bytes are counted. If
    the builder is `alone`, no flow table has the flow; it has `failed` once a packet was out of order.
    """

    def __init__(self, key: bytes, back: bytes, payloads: bool = False) -> None:
        self.payloads = payloads
        one, other = DirectionBuilder(self, 0, key), DirectionBuilder(self, 1, back)
        one.peer, other.peer = other, one
        self.directions = one, other
        self.packet_index, self.last_ns, self.least_ns = 0, EARLIEST_NS, NEVER_NS
        self.fed_bytes = 0  # pending ones, and those in steps
        self.steps: list[tuple[int, Step]] | None = []
        self.deltas: Deltas | None = None
        self.key = key
        self.alone = False
        self.failed = False
        self._connection: Connection | None = None
        self._reply_subjects: set[bytes] = set()

    def stand_alone(self) -> Connection | None:
        """Makes the builder decode the frames itself: from now on, segments go to `read`. Returns the
        connection, no longer needed; None if a direction is not decoded in a known context."""
        connection = self._connection
        if connection is None or not connection.framing.is_steady:
            return None
        for direction in self.directions:
            context = direction.context
            if direction.size and not (context and context.kind and _is_decoded(direction)):
                return None
        first, second = (direction.context for direction in self.directions)
        for direction, context in zip(self.directions, (first or second, second or first)):
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
                last = piece.place()
                first = direction.first.place() if direction.first else last
                batch = Batch(Direction.ORIGINATOR, direction.ts_ns, first, last, frames, None)
                direction.first = piece
                if direction.context is None or frames[-1].__class__ in _GREETINGS:
                    self._resume(direction, decoder)
                else:
                    self._skip_frames(direction, batch)
                if decoder.offset == direction.size:
                    direction.first = None
                    return
                frames = decoder.read() if decoder.has_more else []
        except ProtocolError:
            # The stitch reads these packets, because it knows the state before them.
            self.give_up()
            return
        if direction.first is None:
            direction.first = piece

    def give_up(self) -> None:
        """Drops the steps: the summary will only count packets and bytes."""
        self.steps = self.deltas = self._connection = None
        self._reply_subjects.clear()
        for direction in self.directions:
            direction.pending.clear()

    def observe(self, connection: Connection, events: Sequence[Event]) -> None:
        """Adds the events that the framing made from the latest packet."""
        framing = connection.framing
        # After the end, a new connection may have these ports; in a layer, frames are not bytes of packets.
        if isinstance(framing, FinishedFraming) or connection.over or framing.stack:
            self.give_up()
            return
        if self._connection and len(events) == 1:
            batch = events[0]
            side = connection.flow.sides[0]
            of_first = (batch.direction is side.direction) is (side.key == self.directions[0].key)
            direction = self.directions[0] if of_first else self.directions[1]
            if isinstance(batch, Batch) and _continues(direction, batch):
                self._skip_frames(direction, batch)
                return
        # On other paths, there may be another connection between these ports.
        if self._connection not in (None, connection):
            self.give_up()
            return
        self._connection = connection
        batches: dict[Direction, list[Batch]] = {}
        for event in events:
            if isinstance(event, Batch):
                batches.setdefault(event.direction, []).append(event)
        for way, some in batches.items():
            key = connection.flow.side(way).key
            direction = next(direction for direction in self.directions if direction.key == key)
            self._add_batches(direction, framing.stream(way), some)

    def _add_batches(
        self, direction: DirectionBuilder, stream: FrameStream, batches: list[Batch]
    ) -> None:
        """Adds the batches of one direction."""
        direction.stream = stream
        if all(_continues(direction, batch) for batch in batches):
            for batch in batches:
                self._skip_frames(direction, batch)
        else:
            self._feed(direction, stream.decoder, batches[-1].last)

    def _feed(self, direction: DirectionBuilder, reader: Decoder | None, last: Chunk | Gap) -> None:
        """Ends the skipped frames: the bytes so far become steps."""
        assert self.steps is not None
        self.deltas = None
        self._feed_silent(direction)
        # Reassembly drops a first byte that looks like a TCP keep-alive, so `last` may be another packet.
        if reader is not None and any(_became(piece, last) for piece in direction.pending):
            self._resume(direction, reader)

    def _feed_silent(self, direction: DirectionBuilder) -> None:
        """Adds steps for the bytes before the latest packet, which have completed no frame."""
        assert self.steps is not None and direction.piece
        if direction.context:
            for _, chunk, whole in direction.drained(direction.piece.start):
                self.steps.append((self.packet_index, Bytes(direction.index, chunk, whole, True)))
        direction.context = direction.skip = None

    def _resume(self, direction: DirectionBuilder, reader: Decoder) -> None:
        """Adds steps for the bytes up to the decoder's position. From there on, frames are skipped."""
        assert self.steps is not None
        self.deltas = None
        self._feed_silent(direction)
        for packet_index, chunk, whole in direction.drained(reader.offset):
            self.steps.append((packet_index, Bytes(direction.index, chunk, whole, False)))
        direction.context = reader.context
        direction.skip = SkippedFrames(direction.index, direction.at, direction.at, reader.context)
        self.steps.append((self.packet_index, direction.skip))

    def _skip_frames(self, direction: DirectionBuilder, batch: Batch) -> None:
        """Adds the frames of a batch to the skipped frames, and to the sums or steps for the session."""
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
        if is_plain(batch, self._reply_subjects):
            if self.deltas is None:
                self.deltas = Deltas([None, None])
                self.steps.append((self.packet_index, self.deltas))
            sums, at = self.deltas.sums, direction.index
            delta = sums[at] = sums[at] or SessionDelta()
            delta.add(batch)
        else:
            self.deltas = None
            for frame in frames:
                if isinstance(frame, (Pub, HPub)) and frame.reply:
                    self._remember_reply_subject(frame.reply)
            kept = batch if self.alone else lightened(batch)
            self.steps.append((self.packet_index, FrameBatch(direction.index, kept)))

    def _remember_reply_subject(self, reply: bytes) -> None:
        if len(self._reply_subjects) >= _REPLY_SUBJECTS:
            self._reply_subjects.clear()
        self._reply_subjects.add(reply)

    def summary(self, latest_ns: int, carries: bool) -> ChunkSummary:
        """The summary of the flow. `latest_ns` is as in `ChunkSummary`; `carries` keeps sums by subject."""
        if (steps := self._all_steps()) is not None:
            name_operations(steps)
            if not carries:
                leave_out_carried(steps)
        one, other = self.directions
        directions = one.summary(), other.summary()
        return ChunkSummary(latest_ns, self.last_ns, directions, steps, self.least_ns)

    def _all_steps(self) -> list[Step] | None:
        """All steps in order. The last ones have the bytes that are still pending."""
        if self.steps is None or not self.steps and self.fed_bytes > _UNREAD_BYTES:
            return None
        steps = list(self.steps)
        for direction in self.directions:
            silent = direction.context is not None
            for packet_index, chunk, whole in direction.drained(direction.size):
                feed = Bytes(direction.index, chunk, whole, silent)
                steps.append((self.packet_index + 1 if silent else packet_index, feed))
        return [step for _, step in sorted(steps, key=lambda step: step[0])]


def _is_decoded(direction: DirectionBuilder) -> bool:
    """Whether the stream is decoded, still in this context; it is not while it is searched for frames."""
    reader = direction.stream and direction.stream.decoder
    return reader is not None and reader.context is direction.context


def _continues(direction: DirectionBuilder, batch: Batch) -> bool:
    """Whether one decoder, in one context, decoded this batch and the previous one of its direction."""
    # After an INFO or CONNECT, the context may change.
    return _is_decoded(direction) and batch.frames[-1].__class__ not in _GREETINGS


def _became(piece: PacketBytes, chunk: Chunk | Gap) -> bool:
    """Whether reassembly made this chunk from this packet."""
    if not isinstance(chunk, Chunk) or chunk.offset + len(chunk.data) != piece.end:
        return False
    return chunk.number == piece.segment.number and chunk.capture == piece.segment.capture
