"""Advances a flow's saved state across a chunk without rereading its packets.

`advance` takes a true state and the summary of the flow in the next chunk, which a survey made without
knowing the state (see chunk_summary.py). It proves each step of the summary for this state. If a step cannot
be proven, the packets have to be read.
"""

from __future__ import annotations

from natsync.protocol import Context, Frame, HMsg, HPub, Kind, LMsg, Msg, RHMsg, Role

from ..durations import CLOCK_STEP_NS
from ..engine.connections import Connection
from ..engine.session_tables import SessionTables
from ..framing import ConnectionFraming, FinishedFraming, Verdict
from ..framing.events import Batch, RolesSwapped
from ..sessions import SessionDelta
from ..tcp.flow import End, Flow, Side
from ..tcp.window import may_fill_window
from ..types import Chunk, Direction, Gap
from .chunk_summary import (
    Bytes,
    ChunkSummary,
    Deltas,
    DirectionSummary,
    FrameBatch,
    SkippedFrames,
    Step,
)

# Operations whose grammar is the same in every context.
_FREE = frozenset({"PING", "PONG", "+OK"})
# Kinds of connections whose two sides use the same grammar. Only CONNECT differs: the framing reads it.
_EVEN = (Kind.ROUTE, Kind.LEAFNODE)
# Operations of gateways with the same grammar as on a route with accounts. A survey takes a gateway for such
# a route.
_GATEWAY = {Role.CLIENT: {"RMSG", "HMSG"}, Role.SERVER: {"RS+", "A+", "A-"}}


def advance(
    flow: Flow,
    deadlines: list[int],
    connection: Connection | None,
    session_tables: SessionTables | None,
    summary: ChunkSummary,
) -> bool:
    """Brings the state of a flow to the end of the chunk that `summary` describes. Returns False if that
    cannot be proven; the state is then unusable."""
    sides = _sides(flow, summary)
    if sides is None or not _is_quiet(flow) or min(deadlines) < summary.latest_ns:
        return False
    if summary.least_ns < flow.last_ns - CLOCK_STEP_NS:
        return False
    for side, direction in zip(sides, summary.directions):
        if side.stream.held or direction.size and side.stream.next_seq != direction.first_seq:
            return False
        if direction.wrong and side.stream.checks:
            return False
        if direction.packets and direction.path not in side.paths:
            return False
        # The flow table would not count packets without bytes if they were strays.
        if direction.ack_seq >= 0:
            if not all(map(side.stream.near, (direction.ack_seq - 1, direction.ack_seq + 1))):
                return False
        if may_fill_window(side, direction.first_seq, direction.early):
            return False
    if any(direction.size for direction in summary.directions):
        if connection is None or not _apply_steps(connection, session_tables, sides, summary):
            return False
    for side, peer, direction in zip(sides, sides[::-1], summary.directions):
        _count(side, peer, direction)
    flow.last_ns = max(flow.last_ns, summary.last_ns)
    return True


def _sides(flow: Flow, summary: ChunkSummary) -> tuple[Side, Side] | None:
    """The sides of the flow in the order of the directions of the summary."""
    one, other = flow.sides
    keys = tuple(direction.key for direction in summary.directions)
    if keys == (one.key, other.key):
        return one, other
    return (other, one) if keys == (other.key, one.key) else None


def _is_quiet(flow: Flow) -> bool:
    """Whether neither side has begun to close the connection or has closed its receive window."""
    marks = (side.fin or side.reset is not None or side.stray is not None for side in flow.sides)
    watched = any(side.window_watched for side in flow.sides)
    ended = flow.over or flow.closed_ns is not None or flow.end is not End.OPEN
    return not (ended or watched or any(marks))


def _count(side: Side, peer: Side, direction: DirectionSummary) -> None:
    """Updates the counts of flow table and reassembly."""
    side.packets += direction.packets
    side.bytes += direction.size
    side.window_full += sum(
        count for unit, count in direction.fills.items() if unit == side.window_unit
    )
    if direction.chunk and direction.source:
        side.stream.advance(_moved(direction.chunk, side.stream.offset), direction.source)
    if direction.last:
        peer.stream.ack = direction.last


def _apply_steps(
    connection: Connection,
    session_tables: SessionTables | None,
    sides: tuple[Side, Side],
    summary: ChunkSummary,
) -> bool:
    """Applies the steps of the summary to framing and session. Returns False if one cannot be proven."""
    framing = connection.framing
    if framing.verdict is Verdict.OTHER:
        return True
    if isinstance(framing, FinishedFraming):
        return False
    if framing.stack:  # frames are inside a layer: their bytes are not the packets' bytes
        return False
    with_bytes = [
        (side, direction.size)
        for side, direction in zip(sides, summary.directions)
        if direction.size
    ]
    streams = [framing.stream(side.direction) for side, _ in with_bytes]
    if any(stream.end != side.stream.offset for stream, (side, _) in zip(streams, with_bytes)):
        return False
    if all(stream.is_opaque for stream in streams):
        if not framing.is_steady:
            return False
        for stream, (_, size) in zip(streams, with_bytes):
            stream.count_opaque(size)
        return True
    # There are no session tables before the connection is known to carry NATS.
    if session_tables is None or summary.steps is None:
        return False
    steps = Advance(framing, session_tables, sides)
    return all(steps.apply(step) for step in summary.steps)


class Advance:
    """Applies the steps of a summary one by one, until one cannot be proven."""

    def __init__(
        self, framing: ConnectionFraming, session_tables: SessionTables, sides: tuple[Side, Side]
    ) -> None:
        self._framing = framing
        self._session_tables = session_tables
        self._sides = sides
        self._bases = [side.stream.offset for side in sides]
        self._contexts: list[Context | None] = [None, None]  # of the frames that are being skipped
        self._before_ns = [0, 0]  # the latest packet before the skipped frames

    def apply(self, step: Step) -> bool:
        """Applies a step; returns False if it cannot be proven."""
        if isinstance(step, Deltas):
            return all(
                self._add_delta(index, delta) for index, delta in enumerate(step.sums) if delta
            )
        if isinstance(step, FrameBatch):
            self._add_batch(step.index, step.batch)
            return True
        return self._skip(step) if isinstance(step, SkippedFrames) else self._feed(step)

    def _feed(self, step: Bytes) -> bool:
        index, framing, session_tables = step.index, self._framing, self._session_tables
        self._contexts[index] = None
        stream = framing.stream(self._direction(index))
        reader = stream.decoder
        chunk = _moved(step.chunk, self._bases[index])
        events = framing.feed(stream.direction, [chunk])
        if isinstance(events, RolesSwapped):
            return False
        if events:
            session_tables.update(session_tables.due(events))
        if step.silent and events:
            return False
        # A resynchronizer may not be fed parts of a packet: its result depends on where packets begin.
        if step.silent or not step.whole:
            if reader is None or stream.decoder is not reader or not session_tables.is_clear:
                return False
        return all(map(self._holds, (0, 1)))

    def _holds(self, index: int) -> bool:
        """Whether frames that are being skipped would still be parsed in the same context and released at
        once. A summary may feed bytes later than they arrived: that must not change their meaning.
        """
        context = self._contexts[index]
        if context is None:
            return True
        reader = self._framing.stream(self._direction(index)).decoder
        return reader is not None and reader.context == context and self._is_plain

    @property
    def _is_plain(self) -> bool:
        return self._framing.is_steady and self._session_tables.is_clear

    def _skip(self, step: SkippedFrames) -> bool:
        index = step.index
        stream = self._framing.stream(self._direction(index))
        reader = stream.decoder
        start, end = step.start + self._bases[index], step.end + self._bases[index]
        if reader is None or not (stream.stands_at(start) and self._is_plain):
            return False
        if not _are_alike(reader.context, step):
            return False
        if not self._framing.adds_no_evidence(stream, step.ops):
            return False
        self._contexts[index] = reader.context
        self._before_ns[index] = stream.ts_ns
        stream.advance(end, step.frames, step.ts_ns)
        return True

    def _add_batch(self, index: int, batch: Batch) -> None:
        base = self._bases[index]
        frames = [_placed(frame, base) for frame in batch.frames]
        last = _moved(batch.last, base)
        first = last if batch.first is batch.last else _moved(batch.first, base)
        ts_ns = max(self._before_ns[index], batch.ts_ns)
        self._session_tables.update(
            [Batch(self._direction(index), ts_ns, first, last, frames, None)]
        )

    def _add_delta(self, index: int, delta: SessionDelta) -> bool:
        if delta.ok:
            ts_ns = max(self._before_ns[index], delta.ok.ts_ns)
            offset = delta.ok.offset + self._bases[index]
            delta.ok = delta.ok._replace(
                direction=self._direction(index), ts_ns=ts_ns, offset=offset
            )
        return self._session_tables.add_delta(self._direction(index), delta)

    def _direction(self, index: int) -> Direction:
        return self._sides[index].direction


def _are_alike(context: Context, skip: SkippedFrames) -> bool:
    """Whether both contexts parse the control lines of these operations in the same way."""
    summarized, ops = skip.context, skip.ops - _FREE
    if not ops:
        return True
    if context.kind is Kind.GATEWAY and summarized.kind is Kind.ROUTE and not summarized.dedicated:
        return ops <= _GATEWAY[context.sender]
    if context.kind in _EVEN:
        context = context.replace(sender=summarized.sender)
    if "LS-" not in ops:  # the only operation whose grammar depends on lnocu
        context = context.replace(lnocu=summarized.lnocu)
    return context == summarized


def _moved(chunk: Chunk | Gap, base: int) -> Chunk:
    assert isinstance(chunk, Chunk)
    return Chunk(chunk.ts_ns, chunk.number, chunk.capture, chunk.offset + base, chunk.data)


def _placed(frame: Frame, base: int) -> Frame:
    body = frame.headers if isinstance(frame, (HPub, HMsg, RHMsg, LMsg)) else b""
    if isinstance(frame, (Msg, HMsg)):
        body += frame.payload  # if the summary kept it
    return frame.placed(frame.offset + base, frame.total_bytes, body)
