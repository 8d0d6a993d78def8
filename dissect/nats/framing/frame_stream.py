"""One direction of a NATS connection: chunks and gaps in, batches of frames and notes out.

`state.STREAM` lists the states and their transitions. A gap inside a body of known length does not end
FRAMING; a gap that contains a control line, or bytes that are not a frame, does. Each byte is counted in one
field of `counts`. A fact about the connection (a `Discovery`) is returned before the following bytes are
read, because it may change how they are parsed. The caller handles it, and calls `proceed` for the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, auto

from natsync.protocol import Connect, Context, Decoder, Frame, Info, Kind, ProtocolError, Role

from ..schema.anomalies import Anomaly
from ..transport.decide import Begin, layer_in_place_of_frame
from ..transport.layer import Layer, rest_of
from ..transport.patterns import FIRST_BYTES, greets
from ..types import EARLIEST_NS, Chunk, Direction, Gap, Item, Oddity
from .contexts import ALL
from .events import Batch, Event, gap_anomaly, note_of, note_of_oddity
from .progress import Progress
from .resync.chain import Chain
from .resync.resynchronizer import Loss, Quota, Resynchronizer
from .state import STREAM, StreamEvent, StreamState, next_state
from .trace import Trace

_HANDSHAKE = frozenset({Info, Connect})
_ROLES = {Direction.ORIGINATOR: Role.CLIENT, Direction.RESPONDER: Role.SERVER}


@dataclass(slots=True)
class ByteCounts:
    """The byte counts of one stream, complete when the stream is finished.

    - `framed`: captured bytes of frames that were delivered;
    - `skipped`: captured bytes that were not decoded; those that are `opaque` belong to another layer (TLS,
      S2, WebSocket, a PROXY header), and the others lie between proven frames;
    - `missing`: bytes that were sent but not captured, inside frames or between them;
    - `unfinished`: the beginning of a frame that never ended.
    """

    framed: int = 0
    skipped: int = 0
    missing: int = 0
    unfinished: int = 0
    opaque: int = 0

    @property
    def span(self) -> int:
        """The number of bytes that were sent."""
        return self.framed + self.skipped + self.missing + self.unfinished


@dataclass(frozen=True, slots=True)
class Greeting:
    """An INFO or a CONNECT was read."""

    frame: Info | Connect


@dataclass(frozen=True, slots=True)
class Proven:
    """Consecutive frames prove where a frame begins."""

    chain: Chain


class Unread(Enum):
    """Nothing was discovered, but there are items left to read."""

    MORE = auto()


Discovery = Greeting | Proven | Begin | Unread
"""What a stream reports before it reads on. If a layer begins, its bytes are not read yet."""

_MORE = Unread.MORE


class FrameStream:
    """Reads the bytes of one sender. `context` determines how they are parsed; the connection sets it with
    `set_kind`. `decoder` is set while the stream is FRAMING, `resync` while it is SEEKING."""

    def __init__(
        self, direction: Direction, quota: Quota, payloads: bool, trace: Trace | None = None
    ) -> None:
        self.direction = direction
        self.state = StreamState.SEEKING
        self.context = Context(_ROLES[direction], None)
        self.counts = ByteCounts()
        self.frames = 0
        self.from_start = False  # whether frames were read from its first byte on
        self.layer: Layer | None = None  # the layer that made the stream opaque
        self.end = 0  # offset after the last item
        self.ts_ns = EARLIEST_NS  # the latest time so far: a frame needs all bytes before its end
        self.decoder: Decoder | None = None
        self.resync: Resynchronizer | None = Resynchronizer(quota)
        self._quota = quota
        self.keeps_payloads = payloads
        self._trace = trace
        self._contexts: tuple[Context, ...] = ALL
        self._is_nats = False
        self._confirmed = False  # whether the kind is confirmed
        self._kindless = True  # whether the kind is unknown
        # Items to read, the next one last. An empty list takes a tenth of the memory of an empty deque.
        self._pending: list[Chunk | Gap] = []
        self._proof: Chain | None = None  # the proven frames at which reading resumes
        self._between = True  # whether the next byte begins a frame
        self._base = 0  # the offset at which the decoder began
        self._failed_at = -1  # the latest offset at which bytes were not a frame
        self._gap_bytes = 0  # missing bytes of the frame in progress
        self._gap: Anomaly | None = None  # the reason why they are missing
        self._recent: list[Chunk] = []  # chunks of the frame in progress, while the kind is unknown
        self._first: Chunk | Gap | None = None  # the packet in which the frame in progress begins

    def swap_roles(self, named: bool) -> None:
        """Gives the stream the other role. Its direction does not change if rows have already `named` it."""
        sender = Role.SERVER if self.context.sender is Role.CLIENT else Role.CLIENT
        self.context = self.context.replace(sender=sender)
        if not named:
            self.direction = self.direction.other
        if self.decoder and self._between:  # within a frame, what is left of it is read as before
            self._open(self.decoder.offset)

    def set_kind(self, kind: Kind | None, dedicated: bool, lnocu: bool, confirmed: bool) -> None:
        """Sets how control lines are parsed from here on. Unless `confirmed`, a line that does not fit is not
        an error, but shows that the kind is another one."""
        self.context = Context(self.context.sender, kind, dedicated, lnocu)
        self._confirmed = confirmed
        self._kindless = kind is None
        if kind:
            self._recent = []
        if self.decoder:
            self.decoder.learn(kind, dedicated=dedicated, lnocu=lnocu)

    def expect(self, contexts: tuple[Context, ...], is_nats: bool, again: bool) -> None:
        """Sets the contexts in which frames may prove themselves, and whether the stream is known to be
        NATS. With `again`, held bytes are searched again."""
        self._contexts, self._is_nats = contexts, is_nats
        if self.resync and again:
            self.resync.narrow(contexts)
        elif self.resync and not self.resync.buffer.items:
            self.resync.contexts = contexts

    def start(self) -> None:
        """Starts to read frames at the first byte of the stream, with the held bytes."""
        if self.state is not StreamState.SEEKING or self.resync is None:
            return
        buffer = self.resync.buffer
        if buffer.skipped or buffer.missing or buffer.items and isinstance(buffer.items[0], Gap):
            return
        self._leave(self.resync, buffer.start)
        self._move(StreamEvent.STARTS)

    def become_opaque(self, layer: Layer, out: list[Event]) -> None:
        """Marks the rest of the stream, including the bytes that are held, as opaque."""
        if self.resync:
            start = self.resync.buffer.start
            self._note_skipped(self.resync, self.resync.latest, start, out)
            self._leave(self.resync, start)
        elif self.decoder:
            self._close(self.decoder)
        self._move(StreamEvent.LAYER)
        self.layer = layer
        if self._trace:
            self._trace.note(f"opaque: the bytes of {layer.name} cannot be decoded")

    def withdraw(self, out: list[Event], joins: bool) -> list[Item]:
        """Removes and returns the unread items, for a layer. If it `joins` late, held items are skipped."""
        if self.resync:
            start = self.end if joins else self.resync.buffer.start
            self._note_skipped(self.resync, self.resync.latest, start, out)
            self._leave(self.resync, start)
            self.resync = Resynchronizer(self._quota, self._contexts, self._is_nats)
        elif self.decoder:
            self._open(self.decoder.offset)
        items: list[Item] = list(reversed(self._pending))
        self._pending.clear()
        if items:
            self.end = items[0].offset
        return items

    def __getstate__(self) -> dict[str, object]:
        """Leaves out the bytes of the packet in which the frame in progress begins."""
        first = None if self._between else self._first
        if isinstance(first, Chunk):
            first = replace(first, offset=0, data=b"")
        return {**self.__dict__, "_first": first}

    def stands_at(self, offset: int) -> bool:
        """Whether a frame begins at `offset`, no later byte was read, and the context is known."""
        if self.decoder is None or self._kindless:
            return False
        return self.decoder.offset == self.end == offset

    def advance(self, end: int, frames: int, ts_ns: int) -> None:
        """Replaces `feed` for whole frames up to `end` that were read elsewhere. None of them may be an INFO
        or a CONNECT."""
        assert self.decoder
        self.decoder.pass_over(end - self.decoder.offset)
        self.end, self._between = end, True
        self.frames += frames
        self.ts_ns = max(self.ts_ns, ts_ns)

    def give(self) -> Progress | None:
        """Where the stream stands, for another reader that reads on; None if only this one can."""
        decoder = self.decoder
        if decoder is None or self.state is not StreamState.FRAMING or self._kindless:
            return None
        if self._pending or self._proof or self._gap or self._gap_bytes:
            return None
        if decoder.context.sender is not self.context.sender:
            return None
        if self.keeps_payloads and decoder.body_left:
            return None
        line, headers = decoder.unfinished
        left, first = decoder.body_left, None if self._between else self._first
        return Progress(decoder.offset, self.end, self.ts_ns, line, headers, left, first=first)

    def take(self, progress: Progress) -> None:
        """Goes on where another reader has stopped. It has read no INFO or CONNECT, and knows all bytes of
        the line and of the headers in progress."""
        assert self.decoder
        if progress.frames:
            self.decoder.offset = progress.start
            self._open(progress.start)
            self.frames += progress.frames
            self.end = progress.start
        if self.end == progress.start:
            self._first = progress.first
        self._between = progress.end == progress.start
        self.ts_ns = progress.ts_ns
        for piece in progress.bytes_after(self.end - progress.start):
            self.decoder.receive(piece)
        self.end = progress.end

    @property
    def is_opaque(self) -> bool:
        """Whether bytes are counted but not decoded."""
        return self.state is StreamState.OPAQUE

    def count_opaque(self, size: int) -> None:
        """Replaces `feed` for opaque bytes."""
        self.end += size
        self.counts.skipped += size
        self.counts.opaque += size

    def feed(self, item: Item, out: list[Event]) -> Discovery | None:
        """Reads the next item and appends events to `out`. Returns a discovery, or None when everything
        was read."""
        decoder = self.decoder
        if decoder is None or item.__class__ is not Chunk:
            return self._take_rare(item, out)
        # Nearly all bytes take this path.
        data = item.data
        if self._between:
            if data[:1] not in FIRST_BYTES:
                layer = layer_in_place_of_frame(data, self.frames) if data else None
                if layer:
                    self._pending.append(item)
                    return Begin(layer, (self.direction,), f"{layer.name} in place of a frame")
            self._first = item
            self._between = False
        self.end = end = item.offset + len(data)
        if item.ts_ns > self.ts_ns:
            self.ts_ns = item.ts_ns
        if self._kindless:
            if self._first is item:
                self._recent = []
            self._recent.append(item)
        try:
            frames = decoder.receive(data)
            while frames:
                found = self._add_batch(frames, item, out)
                if decoder.offset == end:
                    self._between = True
                    return found
                if found is not None:  # it may change how the rest is read
                    self._open(decoder.offset)
                    self._pending.append(rest_of(item, decoder.offset))
                    return found
                frames = decoder.read() if decoder.has_more else []
        except ProtocolError as error:
            self._fail(error, item, decoder, out)
            return _MORE
        return None

    def proceed(self, out: list[Event]) -> Discovery | None:
        """Reads the rest of the items, up to the next discovery."""
        found: Discovery | None = _MORE
        while found is _MORE:
            if self._proof:
                self._accept(self._proof, out)
            if not self._pending:
                return None
            found = self._read(self._pending.pop(), out) or _MORE
        return found

    def finish(self, out: list[Event]) -> Discovery | None:
        """Ends the stream. Call it until it returns no discovery."""
        if (found := self.proceed(out)) is not None:
            return found
        resync, decoder = self.resync, self.decoder
        if resync:
            if resync.finish():
                self._proof = resync.chain
                assert self._proof
                return Proven(self._proof)
            self._note_skipped(resync, resync.latest, self.end, out)
            self._leave(resync, self.end)
        elif decoder:
            at = decoder.offset
            left = self.end - at - self._gap_bytes
            self.counts.unfinished += left
            if left and self._first:
                out.append(note_of(self.direction, self._first, Anomaly.UNFINISHED, at, left))
            self._close(decoder)
        self._move(StreamEvent.END)
        return None

    def _move(self, event: StreamEvent) -> None:
        self.state = next_state(STREAM, self.state, event)

    def _take_rare(self, item: Item, out: list[Event]) -> Discovery | None:
        """`feed` for items that are not chunks, and for streams that are not FRAMING."""
        if isinstance(item, Oddity):
            if item.anomaly is Anomaly.CLOCK_BACK:
                self.ts_ns = EARLIEST_NS
            out.append(note_of_oddity(self.direction, item))
            return None
        if isinstance(item, Gap) and not item.noted:
            out.append(note_of(self.direction, item, gap_anomaly(item), item.offset, item.length))
            if self._trace:
                self._trace.at(self.direction, item)
                self._trace.note(f"gap: {item.length} bytes are {gap_anomaly(item).value}")
        self._pending.insert(0, item)
        return _MORE

    def _read(self, item: Chunk | Gap, out: list[Event]) -> Discovery | None:
        """Reads an item as the state requires."""
        self.end = item.offset + (len(item.data) if isinstance(item, Chunk) else item.length)
        if self.decoder:
            if isinstance(item, Chunk):
                return self.feed(item, out)
            return self._take_gap(item, self.decoder, out)
        if self.resync:
            if not self.resync.push(item):
                return None
            self._proof = self.resync.chain
            assert self._proof
            return Proven(self._proof)
        if self.state is StreamState.STARTING:
            self._pending.append(item)
            if isinstance(item, Chunk):
                self._move(StreamEvent.CHUNK)
                self.from_start = True
                self._open(item.offset)
            else:
                self._seek(Loss(item, self.end, 0))
        elif isinstance(item, Gap):
            self.counts.missing += item.length
        else:
            self.counts.skipped += len(item.data)
            self.counts.opaque += len(item.data)
        return None

    def _add_batch(
        self, frames: list[Frame], item: Chunk | Gap, out: list[Event]
    ) -> Greeting | None:
        """Appends the batch of frames that `item` completes."""
        first = self._first or item
        out.append(Batch(self.direction, self.ts_ns, first, item, frames, self._gap))
        self._first = item
        self.frames += len(frames)
        if self._gap is not None:
            self.counts.framed -= self._gap_bytes
            self._gap_bytes = 0
            self._gap = None
        if self._recent and isinstance(item, Chunk):
            self._recent = [item]
        last = frames[-1]
        if last.__class__ in _HANDSHAKE:
            assert isinstance(last, (Info, Connect))
            return Greeting(last)
        return None

    def _take_gap(self, gap: Gap, decoder: Decoder, out: list[Event]) -> Discovery | None:
        inside = min(decoder.body_left, gap.length)
        outside = gap.length - inside
        end = gap.offset + gap.length
        self.counts.missing += gap.length
        found = None
        if inside:
            decoder.skip(inside)
            self._gap_bytes += inside
            self._gap = gap_anomaly(gap)
            self.ts_ns = max(self.ts_ns, gap.ts_ns)
            frames = decoder.read()
            self._between = bool(frames)
            if frames:
                found = self._add_batch(frames, gap, out)
        if outside:
            self._lose(gap, decoder, end, [], outside)
        return found

    def _fail(self, error: ProtocolError, item: Chunk, decoder: Decoder, out: list[Event]) -> None:
        """Handles bytes at `decoder.offset` that are not a frame, or not a frame of the known kind."""
        start = decoder.offset
        held = self._recent if self._kindless else [item]
        chunks = [rest_of(chunk, start) for chunk in held if chunk.offset + len(chunk.data) > start]
        if self._confirmed:
            at = start if error.offset is None else error.offset
            out.append(note_of(self.direction, item, Anomaly.PROTOCOL_ERROR, at, 0, error.reason))
        if self._trace:
            self._trace.at(self.direction, item)
            self._trace.note("rejected: the bytes are no frame of this kind of connection", start)
        self._lose(item, decoder, chunks[0].offset if chunks else start, chunks)

    def _lose(
        self,
        item: Chunk | Gap,
        decoder: Decoder,
        resume: int,
        chunks: list[Chunk],
        missing: int = 0,
    ) -> None:
        """Ends framing at `decoder.offset`, and searches for a frame from `resume` on, first in `chunks`. The
        bytes in between are skipped, except for the `missing` bytes that were not captured."""
        start = decoder.offset
        self._close(decoder)
        skipped = resume - start - self._gap_bytes - missing
        self.counts.skipped += skipped
        self._gap_bytes = 0
        self._gap = None
        if self._trace:
            self._trace.note("no frame begins here: frames are searched", resume)
        resync = self._seek(Loss(item, start if skipped else resume, skipped))
        # The same bytes may be a frame of another kind, but they are tried again only once: each offset is
        # read at most twice, whatever the bytes are.
        if start == self._failed_at:
            resync.refute(start)
        self._failed_at = start
        self._pending.extend(reversed(chunks))

    def _seek(self, loss: Loss) -> Resynchronizer:
        self._move(StreamEvent.LOSS)
        self.resync = Resynchronizer(self._quota, self._contexts, self._is_nats, loss)
        return self.resync

    def _accept(self, chain: Chain, out: list[Event]) -> None:
        """Reads frames that were proven."""
        resync = self.resync
        assert resync
        self._proof = None
        buffer = resync.buffer
        run = buffer.run_at(chain.start)
        if run and not (buffer.skipped or buffer.missing) and chain.start == buffer.start:
            self.from_start = resync.begins_stream and greets(bytes(run.data[:16]))
        self._note_skipped(resync, buffer.items[0], chain.start, out)
        if self._trace:
            ops = " ".join(sorted(chain.ops))
            frames = f"{chain.frames} frame{'s' * (chain.frames > 1)} ({ops})"
            self._trace.note(f"reading resumes, proven by {frames}: {chain.proof}", chain.start)
        self._leave(resync, chain.start)
        self._move(StreamEvent.PROVEN)
        self._open(chain.start)

    def _open(self, start: int) -> None:
        """Begins to read frames at `start`."""
        if self.decoder:
            self._close(self.decoder)
        context = self.context
        self._base = start
        self.decoder = Decoder(
            context.sender, context.kind, payloads=self.keeps_payloads, offset=start
        )
        if context != self.decoder.context:  # on routes
            self.decoder.learn(dedicated=context.dedicated, lnocu=context.lnocu)
        self._recent = []
        self._between = True

    def _close(self, decoder: Decoder) -> None:
        self.counts.framed += decoder.offset - self._base
        self.decoder = None

    def _leave(self, resync: Resynchronizer, start: int) -> None:
        """Ends the search. The held bytes from `start` on are read next."""
        self._pending.extend(reversed(resync.release(start)))
        self.counts.skipped += resync.buffer.skipped
        self.counts.missing += resync.buffer.missing
        self.resync = None

    def _note_skipped(
        self, resync: Resynchronizer, item: Chunk | Gap | None, stop: int, out: list[Event]
    ) -> None:
        offset, length = resync.skipped(stop)
        if length and item:
            out.append(note_of(self.direction, item, Anomaly.SKIPPED, offset, length))
