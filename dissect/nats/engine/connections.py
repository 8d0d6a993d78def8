"""Segments -> connections with their events, in an order that is the same on every machine.

The events that a segment releases come in groups: first one group for each flow that the segment shows to be
over, ordered by the beginning of the flow; then the events of the segment itself. After the last segment,
each remaining flow is a group, ordered by its beginning.

This order lets several processes divide the flows. Each process reads all packets, but makes segments only
for both directions of its own flows (see `flow.undirected`). Packets of other shards give a `Tick` now and
then, because their time may end flows. Each process has its share of the limits (`Options.share`). Sort
keys ascend in each process and are never equal in two, so merging the groups by sort key gives exactly the
groups of a single process. Only drops caused by a limit of the whole capture (number of flows, held bytes)
depend on how flows are divided; they are reported where they happen.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from natsync.protocol import Kind

from ..framing import (
    ConnectionFraming,
    FinishedFraming,
    Quota,
    Trace,
    Verdict,
    finished,
    is_traced,
    without_bytes,
)
from ..framing.events import Event, RolesSwapped
from ..options import Options, Payload
from ..secrets.key_log import KeyLogs
from ..tcp.flow import Delivery, Flow
from ..tcp.flow_table import FlowTable
from ..tcp.reassembly import Stream
from ..transport.layer import LayerOptions
from ..types import NEVER_NS, Direction, Item, Segment, Tick

_AFTER_ALL = NEVER_NS


@dataclass(slots=True, eq=False)
class Connection:
    """A flow and its framing. `capture` is the file of its first packet. `finished` is true after its last
    frame, if it carries NATS and was closed; `over` is true after its last event."""

    flow: Flow
    framing: ConnectionFraming | FinishedFraming
    finished: bool = False
    over: bool = False

    @property
    def capture(self) -> str:
        """The file of the first packet."""
        return self.flow.capture

    @property
    def is_nats(self) -> bool:
        """Whether the connection is known to carry NATS."""
        return self.framing.verdict is Verdict.NATS


class ReleaseKey(NamedTuple):
    """When a group was released: the number of the packet that released it, or a larger number after the last
    packet. For the same packet, flows that are over come first, ordered by their beginning.
    """

    packet: int
    first_ns: int = _AFTER_ALL
    session: str = ""


class PacketEvents(NamedTuple):
    """A group: connections, each at most once, with their new events. A connection without NATS has no events
    and comes once, when it is over. A NATS connection comes without events when its framing is finished.
    """

    release: ReleaseKey
    connections: list[tuple[Connection, list[Event]]]


class ConnectionTable:
    """Connections with their new events: call `feed` any number of times, then `finish`.

    Frames keep their payloads if `options` show them or `payloads` is true. All connections share
    `key_logs`, the TLS secrets; None means only those in `options.keylog`. `alive` has the connections of
    flows that are open in `table` and have captured bytes; `quota` limits the bytes that their
    resynchronizers hold.
    """

    def __init__(
        self, options: Options, payloads: bool = False, key_logs: KeyLogs | None = None
    ) -> None:
        self.table = FlowTable(partial(Stream, options.stream_limits), options.flow_limits)
        self.quota = Quota()
        self.alive: dict[Flow, Connection] = {}
        self._options = options
        self.key_logs = KeyLogs(options.keylog) if key_logs is None else key_logs
        self._layers = LayerOptions(self.key_logs)
        self._payloads = payloads or options.payload is not Payload.NONE

    def feed(self, source: Iterable[Segment | Tick]) -> Iterator[PacketEvents]:
        """The groups that each segment or tick releases."""
        alive, add, tick = self.alive, self.table.add, self.table.tick
        for segment in source:
            deliveries = add(segment) if segment.__class__ is Segment else tick(segment.ts_ns)
            if not deliveries:
                continue
            flow, direction, items = deliveries[0]
            connection = alive.get(flow)
            if connection is None or len(deliveries) > 1:
                yield from self._groups(deliveries, segment.ordinal)
                continue
            events = connection.framing.feed(direction, items)
            if isinstance(events, RolesSwapped):
                events = self._swap_roles(connection, events)
            if events:
                yield PacketEvents(ReleaseKey(segment.ordinal), [(connection, events)])

    def restore(self, connection: Connection) -> None:
        """Adds a restored connection, whose flow the table has."""
        self.alive[connection.flow] = connection

    def finish(self) -> Iterator[PacketEvents]:
        """The groups of all remaining flows, after the last segment."""
        yield from self._groups(self.table.finish(), _AFTER_ALL)

    def _groups(self, deliveries: Iterable[Delivery], packet: int) -> Iterator[PacketEvents]:
        """The groups of these deliveries: one for each flow that is over, then one for all others."""
        some: list[Delivery] = []
        for delivery in deliveries:
            some.append(delivery)
            flow, direction, _ = delivery
            if flow.over and direction is Direction.RESPONDER:
                yield PacketEvents(ReleaseKey(packet, flow.first_ns, flow.id), self._take(some))
                some = []
        taken = self._take(some)
        if taken:
            yield PacketEvents(ReleaseKey(packet), taken)

    def _take(self, deliveries: Iterable[Delivery]) -> list[tuple[Connection, list[Event]]]:
        """The connections of these deliveries, with their new events. If a delivery swaps the roles of a
        flow, the directions of its next deliveries are still the old ones."""
        taken: dict[Connection, list[Event]] = {}
        swapped: set[Flow] = set()
        for flow, direction, items in deliveries:
            connection = self.alive.get(flow)
            if connection is None:
                if not items and not flow.over:
                    continue
                connection = self.alive[flow] = self._connection(flow, direction, items)
            framing = connection.framing
            over = flow.over and direction is Direction.RESPONDER
            direction = direction.other if flow in swapped else direction
            results = [framing.feed(direction, items)] if items else []
            if over:
                results.append(framing.finish())
                connection.finished = connection.over = True
                del self.alive[flow]
            elif flow.complete and direction is Direction.RESPONDER:
                _finish_framing(connection)
            events: list[Event] = []
            for result in results:
                if isinstance(result, RolesSwapped):
                    swapped ^= {flow}
                    result = self._swap_roles(connection, result)
                events += result
            if events or connection.finished:
                taken[connection] = taken[connection] + events if connection in taken else events
        return list(taken.items())

    def _swap_roles(self, connection: Connection, swapped: RolesSwapped) -> list[Event]:
        """Exchanges originator and responder of a flow, as its framing requires."""
        connection.flow.swap()
        return swapped.events

    def _connection(self, flow: Flow, direction: Direction, items: Sequence[Item]) -> Connection:
        hint = self._hint(flow)
        trace = _trace(flow, direction, items) if is_traced() else None
        if hint is None and flow.over and not any(side.bytes for side in flow.sides):
            return Connection(flow, without_bytes())
        framing = ConnectionFraming(
            flow.midstream, self._payloads, self.quota, hint, self._layers, trace
        )
        return Connection(flow, framing)

    def _hint(self, flow: Flow) -> Kind | None:
        """The kind that the user set for a port of the flow. The responder's port comes first."""
        hints = self._options.port
        if not hints:
            return None
        ports = [int(end.rpartition(":")[2]) for end in (flow.responder, flow.originator)]
        return next((hints[port] for port in ports if port in hints), None)


def _trace(flow: Flow, direction: Direction, items: Sequence[Item]) -> Trace:
    """The trace of a connection, which begins with these items."""
    trace = Trace(flow.id)
    if items:
        trace.at(direction, items[0])
    start = "joined midstream" if flow.midstream else "seen from its handshake"
    payload = "" if items or any(side.bytes for side in flow.sides) else ", without payload"
    trace.note(f"connection {flow.originator} > {flow.responder}, TCP {start}{payload}")
    return trace


def _finish_framing(connection: Connection) -> None:
    """Finishes the framing of a complete flow if it carries NATS."""
    framing = connection.framing
    if framing.verdict is Verdict.NATS and not isinstance(framing, FinishedFraming):
        connection.framing = finished(framing)
        connection.finished = True
