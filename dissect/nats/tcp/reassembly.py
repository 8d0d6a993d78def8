"""One direction of a flow: segments in the order they were captured -> chunks in the order they were sent.

Every byte of the stream is delivered once, as part of a `Chunk` or of a `Gap`: after `finish`, bytes
delivered + bytes missing = span of sequence numbers from the start of the stream. The start is the SYN
(RFC 9293) or, without one, the first byte seen. The first copy of a byte counts. A later copy that differs is
reported as an `Oddity` if the first one is still stored. Stored are the bytes that wait and the latest chunk
(only its last bytes once the flow is complete).

A late packet may still fill a gap. The gap is delivered when
- the receiver has acknowledged bytes after it, which proves that they were sent, and nothing fills it
  within a short time (captures swap neighbouring packets, also between directions); or
- too many bytes wait after it (`Limits`), or after the gaps of all streams (`relieve`); an `Oddity` reports
  this; or
- the stream ends.

If the start is unknown, the first segments wait too, because the capture may have swapped the first two:
until the receiver acknowledges them, until there are several, or for a second.

Positions are sequence numbers unwrapped to 64 bits, counted from the start of the stream. A repetition is at
most one window before the current position; every other segment is ahead of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace

from ..schema.anomalies import Anomaly
from ..types import DAMAGED, Chunk, FlowPath, Gap, Item, Segment
from .buffer import Piece, Run, compare_bytes, damaged_between, end_of, is_copy, report
from .flow import CompleteStream
from .limits import Limits

_FIN, _SYN, _ACK = 1, 2, 16
_ODD = _FIN | _SYN | DAMAGED
_MASK = 0xFFFFFFFF
_NEVER = -1  # not a sequence number
_WINDOW = 1 << 30  # the largest window of TCP (RFC 7323)
NEAR = 64 << 20  # larger than any window in use
_PIECE_BYTES = 512  # memory of a piece without its payload
CLOSE = 1 << 16  # from copies of a packet on other paths, captured at nearly the same time
_LAST_BYTES = 64  # stored bytes of a complete stream, with which late copies are compared
_WITNESS = Segment(0, 0, "", b"", 0, 0, _ACK, b"", 0)
_DEFAULTS = Limits()


class Stream:
    """Takes segments and returns items. `ack` is the latest acknowledging segment of the other direction:
    call `acked` for such a segment; while `held` is empty, setting `ack` is enough."""

    __slots__ = (
        "offset",
        "missing_bytes",
        "retransmitted_bytes",
        "duplicate_bytes",
        "out_of_order",
        "held",
        "ack",
        "isn",
        "checks",
        "_limits",
        "_seq",
        "next_seq",
        "_base_seq",
        "_settled",
        "_held_bytes",
        "_held_pieces",
        "_fin",
        "_last",
        "_source",
        "_proved",
        "_proved_ns",
        "_proved_packets",
    )

    def __init__(self, limits: Limits = _DEFAULTS) -> None:
        self.offset = 0  # of the next byte to deliver
        self.missing_bytes = 0
        self.retransmitted_bytes = 0
        self.duplicate_bytes = 0
        self.out_of_order = 0
        self.held: list[Run] = []  # sorted, with gaps between them and before the first
        self.ack: Segment | None = None
        self.isn: int | None = None
        self.checks = False
        self._limits = limits
        self._seq = _NEVER  # sequence number of `offset`, once any is known
        self.next_seq = _NEVER  # `_seq` while nothing waits: a segment there is delivered at once
        self._base_seq = _NEVER  # sequence number of offset 0
        self._settled = False  # whether the start is final
        self._held_bytes = self._held_pieces = 0
        self._fin: tuple[int, Segment] | None = None  # where the stream ends
        self._last: Chunk | None = None
        self._source = _WITNESS  # the segment with the bytes of `_last`
        self._proved = _NEVER  # an acknowledged position after a gap; the next two: since when
        self._proved_ns = 0
        self._proved_packets = 0

    def push(self, segment: Segment) -> list[Item]:
        """Adds a segment of this direction; returns the items that become available."""
        payload = segment.payload
        length = segment.length
        seq = segment.seq
        if seq == self.next_seq and len(payload) == length and length and not segment.flags & _ODD:
            chunk = Chunk(segment.ts_ns, segment.number, segment.capture, self.offset, payload)
            self.offset += length
            self._seq = self.next_seq = (seq + length) & _MASK
            self._last, self._source = chunk, segment
            return [chunk]
        items: list[Item] = []
        self._take(segment, items)
        self._judge(segment, items)
        return items

    def acked(self, segment: Segment) -> list[Item]:
        """Adds an acknowledging segment of the other direction; returns the items that become available."""
        self.ack = segment
        items: list[Item] = []
        if self.held:
            self._judge(segment, items)
        return items

    def advance(self, last: Chunk, source: Segment) -> None:
        """Replaces `push` for many consecutive, complete segments while nothing waits. Only the last segment,
        `source`, and its chunk are needed."""
        end = last.offset + len(last.data)
        self._move_to(end)
        self.next_seq = self._seq
        self._last, self._source = last, source

    @property
    def end(self) -> int:
        """The position after the last byte that was delivered or waits."""
        return self.held[-1].end if self.held else self.offset

    @property
    def is_complete(self) -> bool:
        """Whether all bytes up to the FIN were delivered. Only oddities can come after that."""
        return self._settled and self._fin is not None and self._fin[0] <= self.offset

    def shorten(self) -> None:
        """Frees the memory of the latest chunk except its last bytes. Called when the flow is complete."""
        if self._last is not None:
            data = self._last.data[-_LAST_BYTES:]
            offset = self._last.offset + len(self._last.data) - len(data)
            self._last = replace(self._last, offset=offset, data=data)
            self._source = replace(self._source, payload=b"")

    def packed(self) -> CompleteStream:
        """The state of a complete stream in which nothing waits, for `unpack`."""
        assert self._fin
        counts = self.missing_bytes, self.retransmitted_bytes, self.duplicate_bytes
        numbers = self.offset, self.isn, self._seq, self._base_seq, self._fin[0]
        ack = (self.ack.ack, self.ack.window) if self.ack else None
        last = (self._last.offset, self._last.data) if self._last else None
        first = self._source
        source = first.ts_ns, first.seq, first.header, tuple(first.path)
        return CompleteStream((*counts, self.out_of_order), *numbers, ack, last, source)

    def unpack(self, state: CompleteStream) -> None:
        """Restores the state that `packed` returned. The stream must be new."""
        self.missing_bytes, self.retransmitted_bytes, self.duplicate_bytes = state.counts[:3]
        self.out_of_order = state.counts[3]
        self.offset, self.isn, self._settled = state.offset, state.isn, True
        self._seq, self._base_seq, self._fin = state.seq, state.base_seq, (state.fin, _WITNESS)
        if state.ack:
            self.ack = replace(_WITNESS, ack=state.ack[0], window=state.ack[1])
        self._last = Chunk(0, 0, "", *state.last) if state.last else None
        ts_ns, seq, header, path = state.source
        self._source = replace(_WITNESS, ts_ns=ts_ns, seq=seq, header=header, path=FlowPath(*path))

    @property
    def held_bytes(self) -> int:
        """The memory in bytes that waiting segments take."""
        return self._held_bytes + self._held_pieces * _PIECE_BYTES

    def relieve(self) -> list[Item]:
        """Gives up all gaps, to free memory for other streams."""
        items: list[Item] = []
        self._settle(items)
        while self.held:
            self._give_up_gap(items, Anomaly.LIMIT)
        return items

    def finish(self) -> list[Item]:
        """Ends the stream; returns everything that waits, the gaps between, and a gap at the end if a FIN or
        an acknowledgement proves that more was sent."""
        items: list[Item] = []
        self._settle(items)
        while self.held:
            self._give_up_gap(items)
        if self._fin is not None:
            self._skip_to(*self._fin, items)
        elif self.ack is not None and self._settled:
            end = self.position(self.ack.ack)
            # An ack of one more than the bytes seen acknowledges a FIN that was not captured: a FIN takes one
            # number. An ack that is ahead by more than a window does not belong to this connection.
            if end != self.offset + 1 and end - self.offset <= _WINDOW:
                self._skip_to(end, self.ack, items)
        return items

    def fits(self, isn: int) -> bool:
        """Whether a SYN with this sequence number can belong to this stream, and not to a later
        connection between the same ports."""
        if self.isn is not None or self._seq == _NEVER:
            return self.isn is None or self.isn == isn
        if self._settled:
            return self._base_seq == (isn + 1) & _MASK
        lowest = self.held[0].start if self.held else 0
        return 0 <= lowest - self.position(isn + 1) < self._limits.held_bytes

    def shows(self, segment: Segment) -> bool | None:
        """Whether a segment on another path continues or repeats these bytes; None if it may repeat bytes
        that are no longer stored."""
        seq = segment.seq
        if segment.flags & _SYN and self.isn is not None:
            return self.isn == seq
        seq += bool(segment.flags & _SYN)
        if self._seq == _NEVER:
            return self.ack is None or seq & _MASK == self.ack.ack
        origin = self.position(seq)
        first = self.held[0].start if self.held and not self._settled else 0
        if segment.flags & _SYN:
            return origin == first
        if segment.length > 1 and (found := self._compared(origin, segment)) is not None:
            return found
        if origin in (self.offset, *(run.end for run in self.held)):
            return True
        return None if max(first, self.offset - CLOSE) <= origin < self.offset else False

    def _compared(self, origin: int, segment: Segment) -> bool | None:
        """Whether a segment at position `origin` has the bytes that are stored for its positions; None if
        there are none."""
        items: list[Item] = []
        end = origin + len(segment.payload)
        stored = [(self._last.offset, self._last.data)] if self._last else []
        stored += [(piece.start, piece.payload) for run in self.held for piece in run.pieces]
        shared = [(at, data) for at, data in stored if at < end and origin < at + len(data)]
        for at, data in shared:
            compare_bytes(at, data, origin, segment, items)
        return not items if shared else None

    def near(self, seq: int) -> bool:
        """Whether this sequence number is plausible at the current position."""
        return self._seq == _NEVER or abs(self.position(seq) - self.offset) <= NEAR

    def position(self, seq: int) -> int:
        """The stream position of a sequence number; `offset` if no number is known yet."""
        if self._seq == _NEVER:
            return self.offset
        return self.offset + ((seq - self._seq + _WINDOW) & _MASK) - _WINDOW

    def _open(self, isn: int) -> None:
        """Handles a SYN: the stream starts after it."""
        if self.isn is not None or not self.fits(isn):
            return
        self.isn = isn
        if self._seq == _NEVER:
            self._seq = (isn + 1) & _MASK
        if not self._settled:
            self._start_at(self.position(isn + 1))

    def _settle(self, items: list[Item]) -> None:
        """If the start is not final, sets it to the first of the waiting bytes."""
        if not self._settled and self.held:
            self._start_at(self.held[0].start)
            self._advance(items)

    def _start_at(self, start: int) -> None:
        """Makes positions count from `start`; until now, they counted from an arbitrary byte."""
        self._base_seq = self._seq = (self._seq + start) & _MASK
        for run in self.held:
            run.move(-start)
        if self._fin is not None:
            self._fin = self._fin[0] - start, self._fin[1]
        self._settled = True

    def _take(self, segment: Segment, items: list[Item]) -> None:
        """Adds a segment that is not simply the next one."""
        seq = segment.seq
        if segment.flags & _SYN:
            self._open(seq)
            seq += 1
        if segment.length or segment.flags & _FIN:
            if self._seq == _NEVER:
                self._seq = seq & _MASK
            origin = self.position(seq)
            end = self._end(origin, segment, items)
            start = origin
            if self._is_probe(segment, end):
                start = end
            elif self._settled and start < self.offset:
                start = self._repeated(origin, end, segment, items)
            if self.held and not segment.flags & DAMAGED:
                self._replace_damaged(origin, end, segment, items)
            if start < end:
                self._hold(origin, start, end, segment, items)
        self._advance(items)

    def _is_probe(self, segment: Segment, end: int) -> bool:
        """Whether a segment is a keep-alive: a repetition of the last byte, with any content (RFC 9293,
        3.8.4). If the last byte is unknown, a zero byte that fills no gap counts as one."""
        if segment.length != 1 or segment.flags & _FIN:
            return False
        if self._settled and end <= self.offset:
            return end == self.offset
        unknown = not self._settled or self.offset + 1 < end <= self._acked_position()
        return segment.payload in (b"", b"\0") and unknown

    def _end(self, origin: int, segment: Segment, items: list[Item]) -> int:
        """The end of the segment's bytes, excluding those after a FIN."""
        end = origin + segment.length
        if self._fin is not None and end > self._fin[0]:
            start, end = max(origin, self._fin[0]), max(origin, self._fin[0])
            report(Anomaly.DATA_AFTER_FIN, start, origin + segment.length, segment, items)
        elif segment.flags & _FIN and end >= self.offset:
            self._fin = end, segment
        return end

    def _repeated(self, origin: int, end: int, segment: Segment, items: list[Item]) -> int:
        """The position where the new bytes begin in a segment that starts with old ones."""
        known = min(end, self.offset)
        if origin < 0 and self.isn is None:
            report(Anomaly.DATA_BEFORE_START, origin, min(end, 0), segment, items)
        self._count_repeated(max(0, known - max(0, origin)), segment, self._source)
        if self._last is not None:
            compare_bytes(self._last.offset, self._last.data, origin, segment, items)
        return known

    def _count_repeated(self, count: int, segment: Segment, first: Segment) -> None:
        """Counts bytes that come again, after the segment `first` had them or others that follow."""
        if is_copy(segment, first):
            self.duplicate_bytes += count
        else:
            self.retransmitted_bytes += count

    def _hold(self, origin: int, start: int, end: int, segment: Segment, items: list[Item]) -> None:
        """Stores the new bytes between `start` and `end`; the segment's first byte is at `origin`."""
        held = self.held
        index = bisect_right(held, start, key=end_of)
        late = False
        while start < end:
            run = held[index] if index < len(held) else None
            if run is not None and run.start <= start:
                known = min(end, run.end)
                run.compare(start, origin, segment, items)
                first = run.at(start).segment
                self._count_repeated(known - start, segment, first)
                start = known
                index += 1
                continue
            gap_end = end if run is None else min(end, run.start)
            payload = segment.payload[start - origin : gap_end - origin]
            self._fill(index, Piece(start, gap_end, payload, segment))
            late = late or run is not None
            start = gap_end
            index = bisect_right(held, start, key=end_of)
        self.out_of_order += late

    def _fill(self, index: int, piece: Piece) -> None:
        """Puts a piece between the runs before and at `index`, and joins those that touch."""
        held = self.held
        self._held_bytes += len(piece.payload)
        self._held_pieces += 1
        if index and held[index - 1].end == piece.start:
            index -= 1
            held[index].append(piece)
        else:
            held.insert(index, Run(piece))
        if index + 1 < len(held) and held[index + 1].start == piece.end:
            held[index].pieces += held[index + 1].pieces
            held[index].end = held.pop(index + 1).end

    def _replace_damaged(self, origin: int, end: int, segment: Segment, items: list[Item]) -> None:
        """Removes damaged bytes of which a segment from `origin` to `end` has a true copy."""
        for piece in damaged_between(self.held, origin, end):
            start, stop = max(piece.start, origin), min(piece.end, end)
            compare_bytes(piece.start, piece.payload, origin, segment, items)
            self.retransmitted_bytes += stop - start
            index = bisect_right(self.held, piece.start, key=end_of)
            self.held[index : index + 1] = self.held[index].without(piece)
            self._held_bytes -= len(piece.payload)
            self._held_pieces -= 1
            for left in (piece.part(piece.start, start), piece.part(stop, piece.end)):
                if left.start < left.end:
                    self._fill(bisect_right(self.held, left.start, key=end_of), left)

    def _advance(self, items: list[Item]) -> None:
        """Delivers the bytes that no longer wait, up to a damaged piece."""
        if not (self._settled and self.held and self.held[0].start == self.offset):
            return
        run = self.held.pop(0)
        for at, piece in enumerate(run.pieces):
            if piece.segment.flags & DAMAGED:
                self.held.insert(0, Run.of(run.pieces[at:]))
                break
            self._deliver(piece, items)

    @property
    def _awaited(self) -> int:
        """The position whose acknowledgement shows that the receiver has what the first waiting bytes wait
        for: the bytes of a gap, or, if they are damaged, a true copy."""
        first = self.held[0]
        return first.pieces[0].end if first.start == self.offset else first.start

    def _deliver(self, piece: Piece, items: list[Item]) -> None:
        start, end, payload, segment = piece
        self._held_bytes -= len(payload)
        self._held_pieces -= 1
        if payload:
            self._last = Chunk(segment.ts_ns, segment.number, segment.capture, start, payload)
            self._source = segment
            items.append(self._last)
            self._move_to(start + len(payload))
        self._skip_to(end, segment, items, truncated=True)

    def _judge(self, now: Segment, items: list[Item]) -> None:
        """Decides, at each segment of the flow, whether waiting bytes must wait further."""
        limits = self._limits
        if self.held and not self._settled:
            first = self.held[0]
            if (
                self._held_pieces >= limits.start_segments
                or now.ts_ns - first.pieces[0].segment.ts_ns >= limits.patience_ns
                or self._acked_position() > first.start
            ):
                self._settle(items)
        if self._settled:
            while self._held_bytes > limits.held_bytes or self._held_pieces > limits.held_segments:
                self._give_up_gap(items, Anomaly.LIMIT)
            if self.held:
                self._doubt(now, items)
        plain = self._settled and not self.held and self._fin is None
        self.next_seq = self._seq if plain else _NEVER

    def _doubt(self, now: Segment, items: list[Item]) -> None:
        """Gives up gaps whose bytes the receiver has acknowledged, after a short wait."""
        awaited = self._awaited
        if self._proved < awaited:
            position = self._acked_position()
            if position >= awaited:
                self._proved, self._proved_ns, self._proved_packets = position, now.ts_ns, 0
            return
        self._proved_packets += 1
        if (
            self._proved_packets >= self._limits.patience_packets
            or now.ts_ns - self._proved_ns >= self._limits.patience_ns
        ):
            while self.held and self._awaited <= self._proved:
                self._give_up_gap(items)
            self._proved = _NEVER

    def _acked_position(self) -> int:
        """The position up to which the receiver is known to have everything."""
        return self.offset - _WINDOW if self.ack is None else self.position(self.ack.ack)

    def _give_up_gap(self, items: list[Item], why: Anomaly | None = None) -> None:
        """Gives up what the first waiting bytes wait for."""
        first = self.held[0]
        if first.start == self.offset:
            first.use_damaged(items if self.checks else [])
            self.checks = False
            self._advance(items)
            return
        if why:
            report(why, self.offset, first.start, first.pieces[0].segment, items)
        self._skip_to(first.start, first.pieces[0].segment, items)
        self._advance(items)

    def _skip_to(
        self, end: int, witness: Segment, items: list[Item], truncated: bool = False
    ) -> None:
        """Adds a gap from the current position to `end`, if `end` is ahead, and moves there."""
        length = end - self.offset
        if length > 0:
            gap = Gap(
                witness.ts_ns, witness.number, witness.capture, self.offset, length, truncated
            )
            items.append(gap)
            self.missing_bytes += length
            self._move_to(end)

    def _move_to(self, offset: int) -> None:
        self._seq = (self._seq + offset - self.offset) & _MASK
        self.offset = offset
