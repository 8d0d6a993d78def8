"""One direction of a NATS connection: chunks and gaps in, batches of frames and notes out.

A stream is in one of three states, and changes between them in one place each:
- framing: a decoder reads; a PROXY header may be in front of its first frame. A gap inside a body of known
  length does not stop it (`_take_gap`); a gap that swallows a control line, or bytes that are no frame, do
  (`_lose`), and it is
- seeking, until a seeker has proven where a frame begins (`_resume`);
- opaque: TLS, S2 or WebSocket from here on, counted, not decoded.

Every byte ends in one field of the ledger.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from natsync.protocol import Connect, Context, Decoder, Frame, Info, Kind, ProtocolError, Role

from ..anomalies import Anomaly
from ..transport.detect import greets, new_layer
from ..transport.proxy import is_partial, proxy_header
from ..types import Chunk, Direction, Gap, Item, Oddity
from .byte_counts import ByteCounts
from .events import Batch, Event, Note
from .resync import Chain, Resynchronizer
from .resync_buffer import rest_of

_HANDSHAKE = frozenset({Info, Connect})
_ROLES = {Direction.ORIGINATOR: Role.CLIENT, Direction.RESPONDER: Role.SERVER}


class FrameStream:
    """One sender's bytes. `learn` is told every INFO and CONNECT, before what follows them is read;
    `prove` every chain of frames that a seeker found, before they are read; `seeker_for` makes a seeker.

    `context` is how to read the sender, as far as it is known; the conversation changes it with `adopt`.
    `reader` is what reads, while it is known where frames begin.
    """

    def __init__(
        self,
        direction: Direction,
        learn: Callable[[FrameStream, Info | Connect], None],
        prove: Callable[[FrameStream, Chain], None],
        seeker_for: Callable[[FrameStream], Resynchronizer],
        payloads: bool,
    ) -> None:
        self.direction = direction
        self.context = Context(_ROLES[direction], None)
        self.ledger = ByteCounts()
        self.frames = 0
        self.whole = False  # whether it was read from its first byte on
        self.opaque = ""  # what it changed to: tls, s2 or websocket
        self.proxied_for: str | None = None  # by what a PROXY header says
        self.begun = False  # it is to be read from its first byte, which is still to come
        self.end = 0  # offset behind the last item
        self._learn = learn
        self._prove = prove
        self._seeker_for = seeker_for
        self._payloads = payloads
        self._certain = False  # of the kind
        self._kindless = True
        self._between = True  # whether the next byte begins a frame
        self.reader: Decoder | None = None
        self._base = 0  # where the decoder began
        self._holes = 0  # missing bytes in the frame in progress
        self._flaw: Anomaly | None = None
        self._recent: list[Chunk] = []  # the frame in progress, while the kind is not known
        self.ts_ns = 0  # of the latest packet: a frame is complete when all before it is there
        self._first: Chunk | Gap | None = None  # the packet where the frame in progress begins
        self._sought = 0  # where the bytes begin that no frame was found in
        self._dropped = 0  # how many of them the seeker was not given
        self._latest: Chunk | Gap | None = None
        self.seeker: Resynchronizer | None = seeker_for(self)

    def turn(self, named: bool) -> None:
        """The sender is the other side than was thought; it keeps its name if it is `named` already."""
        sender = Role.SERVER if self.context.sender is Role.CLIENT else Role.CLIENT
        self.context = replace(self.context, sender=sender)
        if not named:
            self.direction = self.direction.other

    def adopt(self, kind: Kind | None, dedicated: bool, lnocu: bool, certain: bool) -> None:
        """Says how to read control lines from here on. If that is not certain, a line that does not fit
        is no error: the kind is another one."""
        self.context = Context(self.context.sender, kind, dedicated, lnocu)
        self._certain = certain
        self._kindless = kind is None
        if kind:
            self._recent = []
        if self.reader:
            self.reader.learn(kind, dedicated=dedicated, lnocu=lnocu)

    def begin(self, out: list[Event]) -> None:
        """The stream starts with a frame, or a PROXY header: what is held, and what comes, is read from
        there."""
        seeker = self.seeker
        if not seeker or seeker.window.skipped or seeker.window.missing:
            return
        items = seeker.window.items
        if not (items and isinstance(items[0], Gap)):
            self.begun = True
            self._open(seeker, out)

    def _open(self, seeker: Resynchronizer, out: list[Event]) -> None:
        """Begins to read, as soon as it is clear whether there is a PROXY header."""
        window = seeker.window
        head = bytes(window.runs[0].data) if window.runs else b""
        unbroken = len(window.runs) == 1 and window.end == window.runs[0].end
        if not head or unbroken and is_partial(head):
            return
        self.begun = False
        self.whole = True
        header = proxy_header(head)
        if header:
            self.proxied_for = header.source
            self.ledger.opaque += header.size
        self._resume(window.start + (header.size if header else 0), out)

    def hide(self, name: str, out: list[Event]) -> None:
        """From here on the bytes are something else than NATS; those that are held, too."""
        held: list[Chunk | Gap] = []
        if self.seeker:
            seeker = self.seeker
            held = seeker.release(seeker.window.start)
            self._note_skipped(seeker, self._latest, seeker.window.start, out)
            self._book(seeker)
        self.seeker = self.reader = None
        self.begun = False
        self.opaque = name
        for item in held:
            self._take(item, out)

    def __getstate__(self) -> dict[str, object]:
        """Of the packet where the frame in progress begins, only the number is told later."""
        first = None if self._between else self._first
        if isinstance(first, Chunk):
            first = replace(first, offset=0, data=b"")
        return {**self.__dict__, "_first": first}

    def stands_at(self, offset: int) -> bool:
        """Whether a frame begins at `offset`, of which nothing was taken yet, and it is known how to read."""
        if self.reader is None or self._kindless:
            return False
        return self.reader.offset == self.end == offset

    def pass_over(self, end: int, frames: int, ts_ns: int) -> None:
        """As `take`, for whole frames up to `end` that others have read; none is INFO or CONNECT."""
        assert self.reader
        self.reader.pass_over(end - self.reader.offset)
        self.end, self._between = end, True
        self.frames += frames
        self.ts_ns = max(self.ts_ns, ts_ns)

    @property
    def is_hidden(self) -> bool:
        """Whether what comes is counted, and not looked at."""
        return self.reader is None and self.seeker is None

    def hide_more(self, size: int) -> None:
        """As `take`, for bytes that are not looked at."""
        self.end += size
        self.ledger.skipped += size
        self.ledger.opaque += size

    def take(self, item: Item, out: list[Event]) -> None:
        """Takes the next item; what it completes is appended to `out`."""
        decoder = self.reader
        if decoder is None or item.__class__ is not Chunk:
            if isinstance(item, Oddity):
                self._note(out, item, item.anomaly, item.offset, item.length)
                return
            if isinstance(item, Gap):
                self._note(out, item, _flaw(item), item.offset, item.length)
            self._take(item, out)
            return
        # The way of nearly all bytes.
        data = item.data
        self.end = end = item.offset + len(data)
        if self._between:
            self._first = item
            self._between = False
        if item.ts_ns > self.ts_ns:
            self.ts_ns = item.ts_ns
        if self._kindless:
            if self._first is item:
                self._recent = []
            self._recent.append(item)
        decoder.feed(data)
        try:
            frames = decoder.read()
            while frames:
                self._hand_on(frames, item, out)
                if decoder.offset == end:
                    self._between = True
                    return
                frames = decoder.read()
        except ProtocolError as error:
            self._fail(error, item, decoder, out)

    def finish(self, out: list[Event]) -> None:
        """Nothing more comes."""
        if self.begun and self.seeker and self.seeker.window.runs:
            self._resume(self.seeker.window.start, out)
        while self.seeker and self.seeker.finish() and self.seeker.chain:
            self._accept(self.seeker.chain, out)
        if seeker := self.seeker:
            seeker.release(self.end)
            self._note_skipped(seeker, self._latest, self.end, out)
            self._book(seeker)
        elif decoder := self.reader:
            self.ledger.framed += decoder.offset - self._base
            left = self.end - decoder.offset - self._holes
            self.ledger.unfinished += left
            if left and self._first:
                self._note(out, self._first, Anomaly.UNFINISHED, decoder.offset, left)
        self.seeker = self.reader = None
        # The connection's, which would not be freed at once in a cycle.
        del self._learn, self._prove, self._seeker_for

    @property
    def pings(self) -> set[str]:
        """The operations of all that was seen, if they are complete and nothing else is there."""
        seeker = self.seeker
        if not seeker or not seeker.chain:
            return set()
        window, chain = seeker.window, seeker.chain
        whole = chain.next == window.end and chain.start == window.start
        return chain.ops if whole and not (window.skipped or window.missing) else set()

    def _take(self, item: Chunk | Gap, out: list[Event]) -> None:
        """As `take`, for an item that was noted before."""
        decoder = self.reader
        if isinstance(item, Chunk):
            if decoder:
                self.take(item, out)
                return
            self.end = item.offset + len(item.data)
        else:
            self.end = item.offset + item.length
            if decoder:
                self._take_gap(item, decoder, out)
                return
        if self.seeker:
            self._seek(item, self.seeker, out)
        elif isinstance(item, Gap):
            self.ledger.missing += item.length
        else:
            self.end = item.offset
            self.hide_more(len(item.data))

    def _seek(self, item: Chunk | Gap, seeker: Resynchronizer, out: list[Event]) -> None:
        self._latest = item
        if self.begun and (seeker.window.runs or isinstance(item, Chunk)):
            seeker.hold(item)
            self._open(seeker, out)
        elif seeker.push(item) and seeker.chain:
            self._accept(seeker.chain, out)

    def _hand_on(self, frames: list[Frame], item: Chunk | Gap, out: list[Event]) -> None:
        """Gives the frames that `item` completes."""
        out.append(Batch(self.direction, self.ts_ns, self._first or item, item, frames, self._flaw))
        self._first = item
        self.frames += len(frames)
        if self._flaw is not None:
            self.ledger.framed -= self._holes
            self._holes = 0
            self._flaw = None
        last = frames[-1]
        if last.__class__ in _HANDSHAKE:
            assert isinstance(last, (Info, Connect))
            self._learn(self, last)
        if self._recent and isinstance(item, Chunk):
            self._recent = [item]

    def _take_gap(self, gap: Gap, decoder: Decoder, out: list[Event]) -> None:
        inside = min(decoder.body_left, gap.length)
        end = gap.offset + gap.length
        self.ledger.missing += gap.length
        if inside:
            decoder.skip(inside)
            self._holes += inside
            self._flaw = _flaw(gap)
            if gap.ts_ns > self.ts_ns:
                self.ts_ns = gap.ts_ns
            try:
                frames = decoder.read()
                self._between = bool(frames)
                if frames:
                    self._hand_on(frames, gap, out)
            except ProtocolError as error:
                self._fail(error, gap, decoder, out)
                return
        if inside < gap.length:
            self._lose(decoder, end, [], out, gap.length - inside)

    def _fail(
        self, error: ProtocolError, item: Chunk | Gap, decoder: Decoder, out: list[Event]
    ) -> None:
        """The bytes at `decoder.offset` are no frame, or none of a kind that is known."""
        start = decoder.offset
        held = self._recent if self._kindless else [item]
        chunks = [
            rest_of(piece, start)
            for piece in held
            if isinstance(piece, Chunk) and piece.offset + len(piece.data) > start
        ]
        begins_here = chunks and chunks[0].offset == start
        name = new_layer([chunk.data for chunk in chunks], self.frames) if begins_here else ""
        if name:
            self._close(decoder, start)
            self.reader = None
            self.opaque = name
            self.ledger.skipped += self.end - start
            self.ledger.opaque += self.end - start
            return
        if self._certain:
            offset = start if error.offset is None else error.offset
            self._note(out, item, Anomaly.PROTOCOL_ERROR, offset, 0, error.reason)
        self._lose(decoder, chunks[0].offset if chunks else start, chunks, out)

    def _lose(
        self, decoder: Decoder, resume: int, chunks: list[Chunk], out: list[Event], lost: int = 0
    ) -> None:
        """Framing ends at `decoder.offset`; a frame is sought from `resume` on, in `chunks` first.
        What is between the two is skipped, but for the `lost` bytes that are missing."""
        self._close(decoder, decoder.offset)
        self._dropped = resume - decoder.offset - self._holes - lost
        self.ledger.skipped += self._dropped
        self._holes = 0
        self._flaw = None
        self.reader = None
        self._sought = decoder.offset if self._dropped else resume
        self.seeker = self._seeker_for(self)
        for chunk in chunks:
            self._take(chunk, out)

    def _close(self, decoder: Decoder, offset: int) -> None:
        self.ledger.framed += offset - self._base

    def _accept(self, chain: Chain, out: list[Event]) -> None:
        """A seeker has found frames: read from there."""
        seeker = self.seeker
        assert seeker
        window = seeker.window
        run = window.run_at(chain.start)
        if run and not (window.skipped or window.missing) and chain.start == window.start:
            self.whole = self._sought == 0 and greets(bytes(run.data[:16]))
        self._prove(self, chain)
        self._note_skipped(seeker, seeker.window.items[0], chain.start, out)
        self._resume(chain.start, out)

    def _resume(self, start: int, out: list[Event]) -> None:
        seeker = self.seeker
        assert seeker
        items = seeker.release(start)
        self._book(seeker)
        self.seeker = None
        context = self.context
        self._base = start
        self.reader = Decoder(context.sender, context.kind, payloads=self._payloads, offset=start)
        self.reader.learn(dedicated=context.dedicated, lnocu=context.lnocu)
        self._recent = []
        self._between = True
        for item in items:
            self._take(item, out)

    def _book(self, seeker: Resynchronizer) -> None:
        self.ledger.skipped += seeker.window.skipped
        self.ledger.missing += seeker.window.missing

    def _note_skipped(
        self, seeker: Resynchronizer, item: Chunk | Gap | None, stop: int, out: list[Event]
    ) -> None:
        before = sum(
            min(len(held.data), max(0, stop - held.offset))
            for held in seeker.window.items
            if isinstance(held, Chunk)
        )
        length = self._dropped + seeker.window.skipped + before
        self._dropped = 0
        if length and item:
            self._note(out, item, Anomaly.SKIPPED, self._sought, length)

    def _note(
        self,
        out: list[Event],
        item: Item,
        anomaly: Anomaly,
        offset: int,
        length: int,
        text: str = "",
    ) -> None:
        place = self.direction, item.ts_ns, item.number, item.capture
        out.append(Note(*place, anomaly, offset, length, text))


def _flaw(gap: Gap) -> Anomaly:
    return Anomaly.TRUNCATED if gap.truncated else Anomaly.LOST
