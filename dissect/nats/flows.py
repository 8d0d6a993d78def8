"""Segments -> flows: who talks to whom, since when, and how it ended.

A flow is one TCP connection. It begins with a SYN; or with any segment between two endpoints that have no
flow (midstream). The originator is who sent the SYN, or did not send the SYN-ACK; midstream, who was
seen first, since ports prove nothing: a layer that learns better from the conversation calls
`FlowTable.swap`. A SYN with another sequence number than the flow's begins the next flow between the
same ports. A flow is over `linger_ns` after both sides said FIN or one said RST (late packets still
belong to it), after `idle_ns` of silence, or when the capture ends.

Flows are named by Community ID v1 (https://github.com/corelight/community-id-spec), which other tools
compute as well, and, as ports are reused, by the time of the first packet.

The table is handed what reassembles one direction, see `ByteStream`, and feeds it.
"""

from __future__ import annotations

import base64
import hashlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import nsmallest
from ipaddress import ip_address
from typing import Protocol

from .wire import Direction, Item, Segment

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16
_TCP = 6


class End(Enum):
    """How a flow ended: by what was seen first."""

    FIN = "fin"
    RST = "rst"
    OPEN = "open"


class ByteStream(Protocol):
    """One direction's reassembly: `reassembly.Stream`. `held` is what waits: while it is empty, an
    acknowledgement only has to be left in `ack`."""

    ack: Segment | None
    offset: int
    missing_bytes: int
    retransmitted_bytes: int
    out_of_order: int

    @property
    def held(self) -> Sequence[object]: ...
    def push(self, segment: Segment) -> list[Item]: ...
    def acked(self, segment: Segment) -> list[Item]: ...
    def finish(self) -> list[Item]: ...
    def fits(self, isn: int) -> bool: ...


class Side:
    """One direction of a flow. `packets` counts all of its packets, `bytes` their TCP payload,
    repetitions included; what is lost and repeated in it is counted by its `stream`."""

    __slots__ = ("key", "flow", "direction", "stream", "peer", "packets", "bytes", "fin")
    flow: Flow
    peer: Side

    def __init__(self, key: bytes, direction: Direction, stream: ByteStream) -> None:
        self.key = key
        self.direction = direction
        self.stream = stream
        self.packets = 0
        self.bytes = 0
        self.fin = False


@dataclass(slots=True, eq=False)
class Flow:
    """One TCP connection. Flows compare and hash by identity.

    `id` is the session id; `originator` and `responder` are "ip:port", "[ip]:port" for IPv6.
    `midstream`: neither SYN nor SYN-ACK was seen, so that the originator is a guess. `ended_by` is who
    sent the first FIN or RST. `over`: nothing more will be delivered.
    """

    id: str
    community_id: str
    originator: str
    responder: str
    first_ns: int
    last_ns: int
    midstream: bool
    sides: tuple[Side, Side]
    end: End = End.OPEN
    ended_by: Direction | None = None
    closed: bool = False
    over: bool = False

    def side(self, direction: Direction) -> Side:
        """The counters of one direction."""
        first, second = self.sides
        return first if first.direction is direction else second


# Items of one direction of one flow, in stream order.
Delivery = tuple[Flow, Direction, list[Item]]


@dataclass(frozen=True, slots=True)
class FlowLimits:
    """When flows go. NATS peers ping each other every few minutes: a day of silence is none of theirs.
    A minute is TIME_WAIT in Linux."""

    max_flows: int = 16384
    idle_ns: int = 24 * 3600 * 10**9
    linger_ns: int = 60 * 10**9


_DEFAULTS = FlowLimits()
_NOTHING: list[Delivery] = []


class FlowTable:
    """All flows that are alive: `FlowTable(Stream)`. `evicted` counts those that were given up because
    there were too many."""

    def __init__(
        self, new_stream: Callable[[], ByteStream], limits: FlowLimits = _DEFAULTS
    ) -> None:
        self.evicted = 0
        self._new_stream = new_stream
        self._limits = limits
        self._idle_ns = limits.idle_ns
        self._sides: dict[bytes, Side] = {}  # by the key of the segments that the side sends
        self._closed: deque[tuple[int, Flow]] = deque()  # until when it lingers
        self._sweep_ns: int | None = None
        self._due_ns = 0

    def add(self, segment: Segment) -> list[Delivery]:
        """What this segment makes available: nothing (often), bytes of its own direction, a gap and
        what follows it in the other one (an ack proves a loss), or the end of an older flow.

        The end of a flow is two deliveries, ORIGINATOR, then RESPONDER, with `flow.over` set and
        possibly with empty lists: after them the flow is gone from the table. The result is not to be
        changed.
        """
        side = self._sides.get(segment.key)
        ts_ns = segment.ts_ns
        if side is None or segment.flags & 0x17 != _ACK or ts_ns > self._due_ns:
            return self._add_rare(segment)
        flow = side.flow
        if ts_ns > flow.last_ns:
            if ts_ns - flow.last_ns > self._idle_ns:
                return self._add_rare(segment)
            flow.last_ns = ts_ns
        side.packets += 1
        peer = side.peer.stream
        if peer.held:
            return self._feed(side, segment)
        peer.ack = segment
        if segment.length:
            side.bytes += segment.length
            items = side.stream.push(segment)
            if items:
                return [(flow, side.direction, items)]
        return _NOTHING

    def finish(self) -> Iterator[Delivery]:
        """The ends of all flows that are left, by their beginning. The table is empty afterwards."""
        left = dict.fromkeys(side.flow for side in self._sides.values())
        for flow in sorted(left, key=lambda flow: (flow.first_ns, flow.id)):
            yield from self._end(flow)
        self._closed.clear()

    def swap(self, flow: Flow) -> None:
        """Exchange originator and responder of a flow: what comes from now on says the new direction.
        The caller turns round what it already holds."""
        flow.originator, flow.responder = flow.responder, flow.originator
        for side in flow.sides:
            side.direction = side.direction.other
        if flow.ended_by is not None:
            flow.ended_by = flow.ended_by.other

    def _add_rare(self, segment: Segment) -> list[Delivery]:
        """`add`, for segments that open, close or outlive flows."""
        ts_ns = segment.ts_ns
        deliveries = list(self._expire(ts_ns)) if ts_ns > self._due_ns else []
        side = self._sides.get(segment.key)
        if side is not None and (
            ts_ns - side.flow.last_ns > self._idle_ns
            or (segment.flags & _SYN and not side.stream.fits(segment.seq))
        ):
            deliveries += self._end(side.flow)
            side = None
        if side is None:
            if len(self._sides) >= 2 * self._limits.max_flows:
                deliveries += self._evict()
            side = self._open(segment)
        flow = side.flow
        flow.last_ns = max(flow.last_ns, ts_ns)
        side.packets += 1
        if segment.flags & _SYN:
            self._learn(side, segment.flags)
        deliveries += self._feed(side, segment)
        if segment.flags & (_FIN | _RST):
            self._close(side, segment)
        return deliveries

    def _feed(self, side: Side, segment: Segment) -> list[Delivery]:
        """Both directions' reassembly get what the segment says about them. The acknowledged
        direction's items come first: they were sent before."""
        deliveries: list[Delivery] = []
        flags = segment.flags
        if flags & _RST:
            # Its number may be anything, and its payload is a text for people (RFC 9293).
            return deliveries
        if flags & _ACK:
            peer = side.peer
            items = peer.stream.acked(segment)
            if items:
                deliveries.append((side.flow, peer.direction, items))
        side.bytes += segment.length
        if segment.length or flags & (_SYN | _FIN):
            items = side.stream.push(segment)
            if items:
                deliveries.append((side.flow, side.direction, items))
        return deliveries

    def _open(self, segment: Segment) -> Side:
        """A new flow; the side that sent the segment."""
        key, flags, ts_ns = segment.key, segment.flags, segment.ts_ns
        back = reversed_key(key)
        accepting = flags & (_SYN | _ACK) == _SYN | _ACK
        direction = Direction.RESPONDER if accepting else Direction.ORIGINATOR
        side = Side(key, direction, self._new_stream())
        peer = Side(back, direction.other, self._new_stream())
        originator, responder = endpoints(back if accepting else key)
        name = community_id(key)
        session = hashlib.sha1(f"{name}|{ts_ns}".encode()).hexdigest()[:16]
        flow = Flow(
            session, name, originator, responder, ts_ns, ts_ns, not flags & _SYN, (side, peer)
        )
        side.flow = peer.flow = flow
        side.peer, peer.peer = peer, side
        self._sides[back] = peer
        self._sides[key] = side  # after the other: an endpoint that talks to itself has one key
        return side

    def _learn(self, side: Side, flags: int) -> None:
        """A SYN in a flow that began without one: it was late. It says who opened the connection; but
        nobody is turned round once bytes were delivered, then the flow stays midstream."""
        flow = side.flow
        opener = Direction.RESPONDER if flags & _ACK else Direction.ORIGINATOR
        if flow.midstream:
            if side.direction is not opener and not side.stream.offset + side.peer.stream.offset:
                self.swap(flow)
            flow.midstream = side.direction is not opener

    def _close(self, side: Side, segment: Segment) -> None:
        """A FIN or RST: note who ended the flow, and let it linger once it is closed."""
        flow = side.flow
        reset = segment.flags & _RST
        side.fin = side.fin or not reset
        if flow.end is End.OPEN:
            flow.end = End.RST if reset else End.FIN
            flow.ended_by = side.direction
        if not flow.closed and (reset or side.peer.fin):
            flow.closed = True
            until_ns = segment.ts_ns + self._limits.linger_ns
            self._closed.append((until_ns, flow))
            self._due_ns = min(self._due_ns, until_ns)

    def _expire(self, now_ns: int) -> Iterator[Delivery]:
        """End the flows whose time has come, and set the time to look again."""
        while self._closed and self._closed[0][0] < now_ns:
            flow = self._closed.popleft()[1]
            if not flow.over:
                yield from self._end(flow)
        if self._sweep_ns is None or now_ns > self._sweep_ns:
            self._sweep_ns = now_ns + self._idle_ns // 4
            for side in list(self._sides.values()):
                if now_ns - side.flow.last_ns > self._idle_ns and not side.flow.over:
                    yield from self._end(side.flow)
        self._due_ns = self._sweep_ns
        if self._closed:
            self._due_ns = min(self._due_ns, self._closed[0][0])

    def _evict(self) -> Iterator[Delivery]:
        """End the flows that are missed least: closed ones, then those without a byte of payload, then
        the longest silent. An eighth of all goes, so that the search is rare."""

        def worth(flow: Flow) -> tuple[bool, bool, int]:
            return not flow.closed, any(side.bytes for side in flow.sides), flow.last_ns

        flows = dict.fromkeys(side.flow for side in self._sides.values())
        for flow in nsmallest(len(flows) // 8 + 1, flows, key=worth):
            self.evicted += 1
            yield from self._end(flow)

    def _end(self, flow: Flow) -> list[Delivery]:
        flow.over = True
        for side in flow.sides:
            if self._sides.get(side.key) is side:
                del self._sides[side.key]
        return [(flow, way, flow.side(way).stream.finish()) for way in Direction]


def reversed_key(key: bytes) -> bytes:
    """The key of the segments that go the other way."""
    size = (len(key) - 4) // 2
    return key[size : 2 * size] + key[:size] + key[-2:] + key[-4:-2]


def endpoints(key: bytes) -> tuple[str, str]:
    """Source and target as text."""
    size = (len(key) - 4) // 2
    return _endpoint(key[:size], key[-4:-2]), _endpoint(key[size : 2 * size], key[-2:])


def _endpoint(address: bytes, port: bytes) -> str:
    text = str(ip_address(address))
    return f"{f'[{text}]' if len(address) == 16 else text}:{int.from_bytes(port, 'big')}"


def community_id(key: bytes) -> str:
    """Community ID v1 of a TCP flow, seed 0: the same for both directions."""
    size = (len(key) - 4) // 2
    source, target = key[:size] + key[-4:-2], key[size : 2 * size] + key[-2:]
    low, high = sorted((source, target))
    text = b"\0\0" + low[:size] + high[:size] + bytes((_TCP, 0)) + low[size:] + high[size:]
    return "1:" + base64.b64encode(hashlib.sha1(text).digest()).decode("ascii")
