"""Segments -> connections: flows with what is said on them, in an order that is the same on every machine.

What a segment releases comes in groups. First each flow that it shows to be over, as a group of its own,
by their beginnings; then what the segment itself makes available. When the segments end, every flow that
is left is a group, by its beginning.

So the work may be spread over processes. Each reads all packets, but makes segments of its own flows
only, of both directions of each: what belongs together is said by `flow.undirected`. Packets of other
shards give a `Tick` now and then: the time that may end flows. Each process takes `Options.share` of the
limits. Releases are
never equal, in no two processes, and ascend in each; merged by release, the groups are those of a single
process, one by one. Only what a limit of the whole capture drops (the number of flows, what waits) depends
on how flows are spread; it is reported where it happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from natsync.protocol import Kind

from ..framing import ConnectionFraming, Quota
from ..framing.events import Event, RolesSwapped
from ..options import Options, Payload
from ..tcp.flow import Flow
from ..tcp.flow_table import Delivery, FlowTable
from ..tcp.reassembly import Stream
from ..transport.detect import Verdict
from ..transport.layer import LayerOptions
from ..types import NEVER_NS, Direction, Segment, Tick

_AFTER_ALL = NEVER_NS


@dataclass(slots=True, eq=False)
class Connection:
    """A flow and what is said on it. `capture` is the file of its first packet. `over`: that was all."""

    flow: Flow
    framing: ConnectionFraming
    over: bool = False

    @property
    def capture(self) -> str:
        """The file where it begins."""
        return self.flow.capture

    @property
    def is_nats(self) -> bool:
        """Whether it is known to carry NATS."""
        return self.framing.verdict is Verdict.NATS


class SortKey(NamedTuple):
    """When a group came free: with which packet of all that were read (what comes behind the last one, with
    one that never was). With the same packet, flows that are over come first, each by its beginning.
    """

    packet: int
    first_ns: int = _AFTER_ALL
    session: str = ""


class PacketEvents(NamedTuple):
    """What was released at once: connections, each once, and the events that are new in each. Talks that
    carry
    no NATS have none; they come once, when they are over."""

    release: SortKey
    connections: list[tuple[Connection, list[Event]]]


def packet_events(
    source: Iterable[Segment | Tick], options: Options, payloads: bool = False
) -> Iterator[PacketEvents]:
    """What every segment or tick releases. Frames have their payloads where `options` show them, or with
    `payloads`."""
    table = ConnectionTable(options, payloads)
    yield from table.feed(source)
    yield from table.finish()


class ConnectionTable:
    """`packet_events` in steps: add segments any number of times, then `finish`. `alive` has the connections
    of the flows that are alive in `table`, if any bytes were captured of them; `quota` is what their
    resynchronizers may hold.
    """

    def __init__(self, options: Options, payloads: bool = False) -> None:
        self.table = FlowTable(partial(Stream, options.stream_limits), options.flow_limits)
        self.quota = Quota()
        self.alive: dict[Flow, Connection] = {}
        self._options = options
        self._layers = LayerOptions(options.key_logs)
        self._payloads = payloads or options.payload is not Payload.NONE

    def feed(self, source: Iterable[Segment | Tick]) -> Iterator[PacketEvents]:
        """What every segment or tick releases."""
        alive, add, tick = self.alive, self.table.add, self.table.tick
        new = tuple.__new__  # a third of the time of calling the classes, for every packet
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
                key = new(SortKey, (segment.ordinal, _AFTER_ALL, ""))
                yield new(PacketEvents, (key, [(connection, events)]))

    def restore(self, connection: Connection) -> None:
        """Go on with a connection from elsewhere, whose flow the table has."""
        self.alive[connection.flow] = connection

    def finish(self) -> Iterator[PacketEvents]:
        """What is left, when no more segments come."""
        yield from self._groups(self.table.finish(), _AFTER_ALL)

    def _groups(self, deliveries: Iterable[Delivery], packet: int) -> Iterator[PacketEvents]:
        """What the deliveries complete: every flow that is over by itself, then the rest."""
        some: list[Delivery] = []
        for delivery in deliveries:
            some.append(delivery)
            flow, direction, _ = delivery
            if flow.over and direction is Direction.RESPONDER:
                yield PacketEvents(SortKey(packet, flow.first_ns, flow.id), self._take(some))
                some = []
        taken = self._take(some)
        if taken:
            yield PacketEvents(SortKey(packet), taken)

    def _take(self, deliveries: Iterable[Delivery]) -> list[tuple[Connection, list[Event]]]:
        """What the deliveries complete. Their directions are those from before the first of them."""
        taken: dict[Connection, list[Event]] = {}
        swapped: set[Flow] = set()
        for flow, direction, items in deliveries:
            connection = self.alive.get(flow)
            if connection is None:
                connection = self.alive[flow] = self._connection(flow)
            framing = connection.framing
            over = flow.over and direction is Direction.RESPONDER
            direction = direction.other if flow in swapped else direction
            results = [framing.feed(direction, items)] if items else []
            if over:
                results.append(framing.finish())
                connection.over = True
                del self.alive[flow]
            events: list[Event] = []
            for result in results:
                if isinstance(result, RolesSwapped):
                    swapped ^= {flow}
                    result = self._swap_roles(connection, result)
                events += result
            if events or connection.over:
                taken[connection] = taken[connection] + events if connection in taken else events
        return list(taken.items())

    def _swap_roles(self, connection: Connection, swapped: RolesSwapped) -> list[Event]:
        """Exchanges originator and responder of a flow, as its framing has found out."""
        connection.flow.swap()
        return swapped.events

    def _connection(self, flow: Flow) -> Connection:
        hint = self._hint(flow)
        framing = ConnectionFraming(flow.midstream, self._payloads, self.quota, hint, self._layers)
        return Connection(flow, framing)

    def _hint(self, flow: Flow) -> Kind | None:
        """What the user says about the flow's ports. Who listens there is the responder."""
        hints = self._options.hints
        if not hints:
            return None
        ports = [int(end.rpartition(":")[2]) for end in (flow.responder, flow.originator)]
        return next((hints[port] for port in ports if port in hints), None)
