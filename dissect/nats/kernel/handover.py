"""What must hold to hand a connection over to the kernel, and what moves.

Everything that is not listed here is at rest while the conditions hold, or follows from frames that the
kernel passes on. The rules for flows are those of `partition.advance`; a summary of `partition` has to prove
the same of packets whose state it does not know.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from natsync.protocol import (
    Context,
    Frame,
    HMsg,
    HPub,
    Kind,
    LMsg,
    Msg,
    Ok,
    Ping,
    Pong,
    Pub,
    RHMsg,
    RMsg,
    Role,
    Sub,
    Unsub,
)

from ..engine.connections import Connection
from ..engine.session_tables import SessionTables
from ..framing import ConnectionFraming
from ..framing.frame_stream import FrameStream
from ..framing.progress import Progress
from ..sessions.endpoint import Endpoint
from ..tcp.flow import End, Flow, Side
from ..types import Direction
from .state import LINE_BYTES

OPERATIONS: tuple[type[Frame], ...] = (
    Pub,
    HPub,
    Msg,
    HMsg,
    RMsg,
    RHMsg,
    LMsg,
    Ok,
    Ping,
    Pong,
    Sub,
    Unsub,
)
"""The classes of the operations of `state.Op`."""

_KEY_SIZES = (12, 36)


class OwnedWay(NamedTuple):
    """One direction of a connection that may be handed over; `stream` and `progress` are None if no packet
    of it is expected."""

    side: Side
    stream: FrameStream | None
    progress: Progress | None
    endpoint: Endpoint | None


@dataclass(slots=True, eq=False)
class Owned:
    """A connection that the kernel follows in a slot. `subs` has the rows of the subscriptions of each way,
    by sid, and `epochs` the epochs in which they were added."""

    flow: Flow
    connection: Connection
    tables: SessionTables
    ways: tuple[OwnedWay, ...]
    slot: int = 0
    subs: tuple[dict[bytes, int], ...] = field(default_factory=lambda: ({}, {}))
    epochs: list[int] = field(default_factory=lambda: [0, 0])


def is_quiet(flow: Flow) -> bool:
    """Whether nothing waits in a flow, and neither side has begun to close it or has closed its window."""
    if flow.over or flow.complete or flow.packed or flow.is_shared:
        return False
    if flow.closed_ns is not None or flow.end is not End.OPEN:
        return False
    one, other = flow.sides
    if one.key == other.key or len(one.key) not in _KEY_SIZES:
        return False
    for side in flow.sides:
        if side.fin or side.reset is not None or side.stray is not None or side.window_watched:
            return False
        if side.is_part or side.stream.held:
            return False
    return one.stream.next_seq >= 0 or other.stream.next_seq >= 0


def candidate(
    flow: Flow, connection: Connection | None, tables: SessionTables | None
) -> Owned | None:
    """The connection, if it may be handed over now."""
    if connection is None or tables is None or not is_quiet(flow):
        return None
    framing = connection.framing
    if not isinstance(framing, ConnectionFraming) or not framing.is_steady or not tables.is_clear:
        return None
    if tables.layers and (framing.kind is not Kind.CLIENT or tables.awaited() is None):
        return None
    session = tables.session
    ways = []
    for side in flow.sides:
        endpoint = None
        if session:
            is_originator = side.direction is Direction.ORIGINATOR
            endpoint = session.originator if is_originator else session.responder
            if endpoint.last_error:
                return None
        if side.stream.next_seq < 0:
            ways.append(OwnedWay(side, None, None, endpoint))
            continue
        stream = framing.stream(side.direction)
        progress = stream.give()
        if progress is None or progress.end != side.stream.offset:
            return None
        if len(progress.line) + len(progress.headers) > LINE_BYTES:
            return None
        ways.append(OwnedWay(side, stream, progress, endpoint))
    return Owned(flow, connection, tables, tuple(ways))


def grammar_of(context: Context) -> str:
    """The name of the grammar of a context in `lines`."""
    from_client = context.sender is Role.CLIENT
    match context.kind:
        case Kind.CLIENT:
            return "CLIENT" if from_client else "SERVER"
        case Kind.ROUTE:
            return "DEDICATED" if context.dedicated else "ROUTE"
        case Kind.GATEWAY:
            return "GATEWAY" if from_client else "GATEWAY_BACK"
        case _:
            return "LEAFNODE"


def readable(owned: Owned, stream: FrameStream, operations: frozenset[int]) -> int:
    """Those operations, as bits, that add nothing to what is known about the kind of the connection."""
    framing = owned.connection.framing
    assert isinstance(framing, ConnectionFraming)
    bits = 0
    for op in operations:
        if framing.adds_no_evidence(stream, {OPERATIONS[op].op}):
            bits |= 1 << op
    return bits


def countable(endpoint: Endpoint | None) -> int:
    """The operations, as bits, of which a frame was counted: the order of the others is yet to be seen."""
    if endpoint is None:
        return 0
    return sum(1 << op for op, kind in enumerate(OPERATIONS) if endpoint.counts.get(kind))
