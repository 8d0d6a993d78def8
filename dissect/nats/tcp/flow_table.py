"""Segments -> flows: assigns each segment to its connection, and ends connections.

A flow is one TCP connection. It begins with a SYN or, midstream, with any segment between two endpoints that
have no flow. The originator is the side that sent the SYN, or did not send the SYN-ACK. Midstream, the first
sender counts as the originator, since ports prove nothing; if the NATS frames show otherwise, the caller
calls `Flow.swap`. The next flow between the same ports begins with a SYN that has another sequence number;
or, after the flow was closed, with bytes whose sequence numbers are far from its own; or with packets whose
sequence and acknowledgement numbers are both far from its own (see `strays`). Flows on different paths may
have the same endpoints at the same time (see `paths`).

A flow is closed when both sides have sent FIN, when one has and the other was never seen, or when one has
sent RST near its current position (any other RST ends nothing, RFC 9293, 3.5.3). Late packets still belong to
it, so it is over `linger_ns` later, unless the sender of the RST continued. A flow is also over after
`idle_ns` of silence, when there are too many flows, or when the capture ends. Both times are rounded up to a
whole second. A flow depends only on its own packets and on the times of others, so processes can share flows.

`ByteStream` reassembles one direction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from heapq import nsmallest

from ..durations import CLOCK_STEP_NS
from ..schema.anomalies import Anomaly
from ..types import (
    ELSEWHERE,
    NEVER_NS,
    TICK_NS,
    Direction,
    Item,
    Segment,
    passed_ns,
)
from .checksum import is_damaged, is_wrong, take_damaged
from .deadlines import Deadlines
from .ends import beginning, ends, oddity
from .flow import (
    ByteStream,
    Delivery,
    End,
    Flow,
    Route,
    Side,
    Stray,
    community_id,
    completed,
    is_another,
    is_closed,
    move_routes,
    reversed_key,
    session_id,
    sides_by_key,
    worth,
)
from .limits import FlowLimits
from .packed_flow import pack, unpack
from .paths import chosen, learn_path
from .strays import fitting, is_stray, left_out
from .window import fills_window, learn_scale, note_window

_FIN, _SYN, _RST, _ACK = 1, 2, 4, 16

# This many of the flows that became complete last are not packed: their last acknowledgement is yet to come.
_UNPACKED = 16


class FlowTable:
    """All flows that are not over. `new_stream` makes the reassembly of a direction. No flow expires before
    `next_expiry_ns`. `evicted` counts flows that were dropped because there were too many, and `relieved`
    counts directions whose gaps were given up because too many bytes waited."""

    def __init__(
        self, new_stream: Callable[[], ByteStream], limits: FlowLimits = FlowLimits()
    ) -> None:
        self.evicted = self.relieved = 0
        self._new_stream = new_stream
        self._limits = limits
        self._routes: dict[bytes, Route] = {}  # by the keys of segments
        self._closed: dict[bytes, Route] = {}  # the same, for flows that linger
        self._shared: dict[bytes, list[Flow]] = {}  # flows with the same keys, if there are several
        self._packed: dict[bytes, Flow] = {}  # closed flows whose sides are packed, by `Flow.key`
        self._unpacked: dict[Flow, None] = {}  # the flows that became complete last
        self.flows = Deadlines()  # all flows
        self.next_expiry_ns = self.flows.next_ns
        self.clock_ns = NEVER_NS  # the time of the packet before
        self._waiting: dict[Side, tuple[Flow, int]] = {}  # number of waiting bytes, by side
        self._waiting_bytes = 0

    def add(self, segment: Segment) -> list[Delivery]:
        """Adds a segment; returns the deliveries that it causes, often none: ends of flows; bytes of its own
        direction; and, if its ACK proves a loss, a gap of the other direction with the bytes after it. When
        a flow becomes complete, an empty delivery of each direction comes last.

        Ends come first, in the order in which the flows began. The end of a flow is two deliveries,
        ORIGINATOR, then RESPONDER, with `flow.over` set and possibly with empty lists; the flow is no
        longer in the table. The caller must not change the result.
        """
        route = self._routes.get(segment.key)
        is_plain = segment.flags & 0x117 == _ACK and segment.ts_ns <= self.next_expiry_ns
        if route is None or not is_plain:
            return self._add_rare(segment)
        flow, side, receiver = route
        stream = side.stream
        if stream.checks and segment.length and is_wrong(segment):
            return self._add_rare(segment)
        if receiver.stream.held or segment.seq != stream.next_seq:
            if segment.path not in side.paths:
                return self._add_rare(segment)
            if is_stray(route, segment):
                return self._add_stray(route, segment)
        self.clock_ns = segment.ts_ns
        side.packets += 1
        return self._note_time(flow, segment) + self._feed(route, segment)

    def tick(self, ts_ns: int) -> list[Delivery]:
        """The ends of the flows that have expired by `ts_ns`."""
        return ends(self._passed(ts_ns))

    def finish(self) -> Iterator[Delivery]:
        """The ends of all remaining flows, in the order in which they began. Empties the table."""
        left = sorted(self.flows, key=beginning, reverse=True)
        for flow in left:
            if flow.closed_ns is not None and not is_closed(flow):
                self._reopen(flow)
        self._routes.clear()
        self._closed.clear()
        self._shared.clear()
        self._packed.clear()
        self._unpacked.clear()
        self.flows.clear()
        self._waiting.clear()
        while left:
            unpack(left[-1], self._new_stream)
            yield from ends([left.pop()])

    def route(self, key: bytes) -> Route | None:
        """The route of segments with this key, if their flow is open and no other has the same key."""
        return self._routes.get(key)

    def deadlines(self) -> dict[Flow, list[int]]:
        """All flows, with the times after which each must be checked, for `restore` of another table."""
        for flow in [*self._packed.values()]:
            self._unpack(flow)
        return self.flows.times()

    def restore(self, flow: Flow, deadlines: Iterable[int]) -> None:
        """Adds a flow of another table."""
        self.flows.add(flow, deadlines)
        self._set_next_expiry()
        self._add_routes(flow)
        if self.clock_ns == NEVER_NS or self.clock_ns < flow.last_ns:
            self.clock_ns = flow.last_ns
        for side in flow.sides:
            if side.stream.held:  # if too many bytes wait now, the next segment gives up gaps
                self._waiting[side] = flow, side.stream.held_bytes
                self._waiting_bytes += side.stream.held_bytes

    def drop(self, flow: Flow) -> None:
        """Forgets a flow that another table continues."""
        self._remove(flow)

    def _add_rare(self, segment: Segment) -> list[Delivery]:
        """`add` for segments that open or close flows, or that come when flows are closed or may expire."""
        key, ts_ns, flags = segment.key, segment.ts_ns, segment.flags
        ended = self._passed(ts_ns)
        routes = self._routes_of(key)
        route = chosen(routes, segment) if routes else None
        if route is not None and is_another(route, segment):
            self._remove(route[0])
            ended.append(route[0])
            route = None
        if route is None:
            if len(self.flows) >= self._limits.max_flows:
                ended += self._evict()
            route = self._open(segment)
        flow, side, _ = route
        deliveries = ends(ended, segment)
        if is_damaged(side, segment):
            items = take_damaged(side, segment)
            deliveries += self._note_time(flow, segment)
            return self._weigh(flow, [*deliveries, (flow, side.direction, items)])
        if is_stray(route, segment):
            return deliveries + self._add_stray(route, segment)
        if segment.path not in side.paths:
            learn_path(route, segment)
        deliveries += self._note_time(flow, segment)
        if flags & ELSEWHERE and not side.is_part:
            side.is_part = True
            odd = oddity(segment, side.stream.offset, Anomaly.MPTCP_ELSEWHERE)
            deliveries.append((flow, side.direction, [odd]))
        side.packets += 1
        if flags & _SYN:
            self._learn(route, segment)
        deliveries += self._reset(route, segment) if flags & _RST else self._feed(route, segment)
        if flags & (_FIN | _RST):
            self._close(flow, side, segment)
        return deliveries if flow.closed_ns is None else deliveries + self._complete(flow)

    def _add_stray(self, route: Route, segment: Segment) -> list[Delivery]:
        """Handles a segment that fits no window: it waits until another shows that it began a new flow."""
        flow, side, _ = route
        if not (found := fitting(route, segment)):
            items: list[Item] = list(left_out(side))
            side.stray = Stray(segment, segment.payload, side.packets)
            return [(flow, side.direction, items)] if items else []
        self._remove(flow)
        deliveries = ends([flow])
        for each in (*found, segment):
            deliveries += self.add(each)
        return deliveries

    def _feed(self, route: Route, segment: Segment) -> list[Delivery]:
        """Passes a segment to the reassembly of both directions. The items of the acknowledged direction come
        first, because they were sent earlier."""
        deliveries: list[Delivery] = []
        flow, side, peer = route
        flags = segment.flags
        if not segment.window or side.window_watched:
            note_window(side, peer, segment)
        side.window_full += fills_window(side, segment)
        if flags & _ACK:
            items = peer.stream.acked(segment)
            if items:
                deliveries.append((flow, peer.direction, items))
        side.bytes += segment.length
        if segment.length or flags & (_SYN | _FIN):
            items = side.stream.push(segment)
            if items:
                deliveries.append((flow, side.direction, items))
        return self._weigh(flow, deliveries)

    def _weigh(self, flow: Flow, deliveries: list[Delivery]) -> list[Delivery]:
        """Updates the count of waiting bytes. If too many wait in all flows, relieves the sides with the most
        until an eighth of the limit is free, so that this is rare."""
        waiting = self._waiting
        for side in flow.sides:
            if side in waiting:
                self._waiting_bytes -= waiting.pop(side)[1]
            if side.stream.held:
                now = side.stream.held_bytes
                self._waiting_bytes += now
                waiting[side] = flow, now
        limit = self._limits.held_bytes
        if self._waiting_bytes > limit:
            for side in sorted(waiting, key=lambda side: waiting[side][1], reverse=True):
                self.relieved += 1
                flow, held = waiting.pop(side)
                self._waiting_bytes -= held
                deliveries.append((flow, side.direction, side.stream.relieve()))
                if self._waiting_bytes <= limit - limit // 8:
                    break
        return deliveries

    def _complete(self, flow: Flow) -> list[Delivery]:
        """Returns the deliveries of `completed`, and packs complete flows except the latest ones."""
        if deliveries := completed(flow):
            self._unpacked[flow] = None
        while len(self._unpacked) > _UNPACKED:
            other = next(iter(self._unpacked))
            del self._unpacked[other]
            if other.key in self._shared:
                continue
            pack(other)
            if other.packed:
                self._packed[other.key] = other
                for key in (other.key, reversed_key(other.key)):
                    self._closed.pop(key, None)
        return deliveries

    def _packed_route(self, key: bytes) -> Route | None:
        """If a packed flow has segments with this key, unpacks it and returns their route."""
        flow = self._packed.get(key) or self._packed.get(reversed_key(key))
        if flow is None:
            return None
        self._unpack(flow)
        return self._closed[key]

    def _unpack(self, flow: Flow) -> None:
        """Restores a flow that is packed."""
        del self._packed[flow.key]
        unpack(flow, self._new_stream)
        self._unpacked[flow] = None
        self._set_routes(flow, self._closed)

    def _routes_of(self, key: bytes) -> list[Route]:
        """The routes of all flows that have segments with this key."""
        if key in self._shared:
            return [sides_by_key(flow, key) for flow in self._shared[key]]
        route = self._routes.get(key) or self._closed.get(key) or self._packed_route(key)
        return [] if route is None else [route]

    def _add_routes(self, flow: Flow) -> None:
        """Routes the segments of a flow to it, or to it and to the flows that have the same keys."""
        others = [route[0] for route in self._routes_of(flow.key)]
        if not others:
            self._set_routes(flow, self._routes if flow.closed_ns is None else self._closed)
            return
        flows = [*others, flow]
        for each in flows:
            each.is_shared = True
            move_routes(each, self._routes, {})
            move_routes(each, self._closed, {})
        for key in (flow.key, reversed_key(flow.key)):
            self._shared[key] = flows

    def _leave_shared(self, flow: Flow) -> None:
        """Removes a flow from those with the same keys. If one is left, its segments are routed to it."""
        if flows := self._shared.get(flow.key):
            flows.remove(flow)
            if len(flows) == 1:
                for key in (flow.key, reversed_key(flow.key)):
                    self._shared.pop(key, None)
                self._add_routes(flows[0])

    def _set_routes(self, flow: Flow, routes: dict[bytes, Route]) -> None:
        """Routes the segments of a flow to it."""
        one, other = flow.sides
        routes[other.key] = flow, other, one
        # Set last: if an endpoint connects to itself, both keys are the same.
        routes[one.key] = flow, one, other

    def _open(self, segment: Segment) -> Route:
        """Opens a flow; returns the route of the segment."""
        key, flags, ts_ns = segment.key, segment.flags, segment.ts_ns
        back = reversed_key(key)
        accepting = flags & (_SYN | _ACK) == _SYN | _ACK
        direction = Direction.RESPONDER if accepting else Direction.ORIGINATOR
        side = Side(key, direction, self._new_stream())
        peer = Side(back, direction.other, self._new_stream())
        rivals = self._routes_of(key)
        name = session_id(community_id(key), ts_ns)
        if any(route[0].id == name for route in rivals):
            name = session_id(community_id(key), ts_ns, segment.path)
        flow = Flow(
            id=name,
            key=key,
            capture=segment.capture,
            first_ns=ts_ns,
            last_ns=ts_ns,
            midstream=not flags & _SYN,
            accepted=accepting,
            sides=(side, peer),
        )
        self.flows.add(flow, [])
        self._set_deadline(flow)
        self._add_routes(flow)
        return flow, side, peer

    def _learn(self, route: Route, segment: Segment) -> None:
        """Handles a SYN. In a flow that began without one, it shows who opened the connection. But once bytes
        were delivered, the roles do not change; if they are wrong, the flow stays midstream."""
        flow, side, peer = route
        learn_scale(side, peer, segment)
        opener = Direction.RESPONDER if segment.flags & _ACK else Direction.ORIGINATOR
        if flow.midstream:
            if side.direction is not opener and not side.stream.offset + peer.stream.offset:
                flow.swap()
            flow.midstream = side.direction is not opener

    def _reset(self, route: Route, segment: Segment) -> list[Delivery]:
        """Handles a RST. Its acknowledgement number may be anything, and its payload is a diagnostic text."""
        flow, side, _ = route
        stream = side.stream
        if stream.near(segment.seq):
            side.reset = max(stream.position(segment.seq), stream.offset)
            return []
        odd = oddity(segment, stream.position(segment.seq), Anomaly.RST_OUT_OF_WINDOW)
        return [(flow, side.direction, [odd])]

    def _close(self, flow: Flow, side: Side, segment: Segment) -> None:
        """Handles a FIN or RST: records who ended the flow, and lets it linger once it is closed."""
        if not segment.flags & _RST:
            side.fin = True
        elif side.reset is None:
            return
        if flow.end is End.OPEN:
            flow.end = End.RST if segment.flags & _RST else End.FIN
            flow.ended_by, flow.ended_ns = side.direction, segment.ts_ns
        if flow.closed_ns is None and is_closed(flow):
            flow.closed_ns = segment.ts_ns
            move_routes(flow, self._routes, self._closed)
            self._set_deadline(flow)

    def _reopen(self, flow: Flow) -> None:
        """Reopens a flow that was closed too early: the sender of a RST continued, or a side appeared
        that had never been seen."""
        flow.closed_ns = None
        move_routes(flow, self._closed, self._routes)
        if flow.end is End.RST:
            flow.end, flow.ended_by, flow.ended_ns = End.OPEN, None, None
        for side in flow.sides:
            side.reset = None

    def _set_deadline(self, flow: Flow) -> None:
        self.flows.check(flow, self._deadline(flow))
        self._set_next_expiry()

    def _set_next_expiry(self) -> None:
        self.next_expiry_ns = self.flows.next_ns

    def _deadline(self, flow: Flow) -> int:
        """The time after which any packet shows that the flow is over: the end of a second (see `Tick`)."""
        deadline = flow.last_ns + self._limits.idle_ns
        if flow.closed_ns is not None:
            deadline = min(deadline, flow.closed_ns + self._limits.linger_ns)
        return deadline - deadline % TICK_NS + TICK_NS - 1

    def _passed(self, now_ns: int) -> list[Flow]:
        """Removes and returns the flows that have expired by the time of a packet. If that is far ahead of
        the packet before, the next packet has to agree: a single wrong time ends no flow."""
        until_ns = passed_ns(self.clock_ns, now_ns)
        self.clock_ns = now_ns
        ended = self._expired(until_ns) if until_ns > self.flows.next_ns else []
        self._set_next_expiry()
        return ended

    def _note_time(self, flow: Flow, segment: Segment) -> list[Delivery]:
        """Notes the time of a segment of a flow. If the clock was set back, both directions get an
        anomaly."""
        ts_ns = segment.ts_ns
        if ts_ns >= flow.last_ns - CLOCK_STEP_NS:
            flow.last_ns = max(flow.last_ns, ts_ns)
            return []
        flow.past_ns, flow.last_ns = flow.latest_ns, ts_ns
        self._set_deadline(flow)
        return [
            (flow, way, [oddity(segment, flow.side(way).stream.offset, Anomaly.CLOCK_BACK)])
            for way in Direction
        ]

    def _expired(self, now_ns: int) -> list[Flow]:
        """Removes and returns the flows that have expired by `now_ns`."""
        ended = []
        for flow in self.flows.due(now_ns):
            if flow.closed_ns is not None and not is_closed(flow):
                self._reopen(flow)
            if self._deadline(flow) >= now_ns:
                self._set_deadline(flow)
                continue
            if flow.end is End.OPEN:
                flow.end = End.IDLE
            self._remove(flow)
            ended.append(flow)
        return ended

    def _evict(self) -> list[Flow]:
        """Removes and returns the flows of least `worth`: an eighth of all, so that the search is rare."""
        ended = nsmallest(len(self.flows) // 8 + 1, self.flows, key=worth)
        for flow in ended:
            self.evicted += 1
            if flow.closed_ns is None:
                flow.end, flow.ended_by, flow.ended_ns = End.EVICTED, None, None
            self._remove(flow)
        return ended

    def _remove(self, flow: Flow) -> None:
        if flow.packed:
            self._unpack(flow)
        flow.over = True
        self.flows.remove(flow)
        self._unpacked.pop(flow, None)
        move_routes(flow, self._routes, {})
        move_routes(flow, self._closed, {})
        self._leave_shared(flow)
        for side in flow.sides:
            if side in self._waiting:
                self._waiting_bytes -= self._waiting.pop(side)[1]
