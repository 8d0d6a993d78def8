"""Surveys a partition without knowing the packets before it: finds the states and summaries of its flows.

    survey = Survey(tables, options)
    survey.run(segments)
    survey.states()     # of flows that begin here: their states at the end
    survey.summaries()  # of flows that may have begun earlier, for `Checkpoints.advanced`

The survey runs the stages of a dissection without making records. For each flow that joins in midstream, a
builder observes whether its packets are in order, which frames were decoded from which bytes, and which of
these frames a session has to process.

A flow that joined in midstream and has sent `_SETTLED_PACKETS` packets most likely began in an earlier
partition. From then on only its builder is updated: bytes go directly to a decoder, without flow table,
reassembly and session, which takes half the time (see docs/spark.md). Such a flow has no state. If it turns
out that it did begin here, its packets are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..engine.connections import PacketEvents
from ..engine.session_tables import ReleasedRows
from ..options import Options
from ..secrets.key_log import KeyLogs
from ..tables import needs_payloads
from ..tcp.flow import reversed_key, undirected
from ..types import EARLIEST_NS, Segment, Tick
from .checkpoint import Checkpoints
from .summary import DirectionBuilder, FlowSummaryBuilder

# The number of flows that are observed. The packets of further flows have to be read again.
_FLOWS = 1 << 16
# After this many packets with payload, a midstream flow has only a summary. A smaller number would save
# little, because a busy flow has thousands of packets in a partition; and more flows would have to be read
# again because they had been silent before and begin here.
_SETTLED_PACKETS = 256


class Survey(Checkpoints):
    """A dissection that makes no records and summarizes the flows that it joins in midstream."""

    def __init__(
        self, tables: Collection[str], options: Options, key_logs: KeyLogs | None = None
    ) -> None:
        super().__init__(tables, options, quiet=True, key_logs=key_logs)
        self._carries = "subscriptions" in tables
        self._payloads = needs_payloads(tables)
        self._directions: dict[bytes, DirectionBuilder | None] = {}  # by the keys of segments
        self._latest_ns = EARLIEST_NS

    def feed(
        self, source: Iterable[Segment | Tick], together: bool = True
    ) -> Iterator[ReleasedRows]:
        """Adds segments; there are no records."""
        groups = self._connections.feed(self._watched(source))
        return self._table_builder.feed(self._observed(groups), together)

    def run(self, source: Iterable[Segment | Tick]) -> None:
        """Adds segments."""
        for _ in self.feed(source):
            pass

    def states(self) -> dict[bytes, bytes]:
        """The states of open flows, as from `save`. Flows that have only a summary are not among them."""
        return self.save()

    def summaries(self) -> dict[bytes, bytes]:
        """The summaries of flows that may have begun earlier, by `undirected`."""
        return {
            undirected(builder.key): builder.summary(self._latest_ns, self._carries).packed()
            for builder in self._builders()
            if not builder.failed
        }

    def summarized(self) -> set[bytes]:
        """The flows that have only a summary, by `undirected`."""
        return {undirected(builder.key) for builder in self._builders() if builder.alone}

    def _builders(self) -> Iterator[FlowSummaryBuilder]:
        for direction in self._directions.values():
            if direction and not direction.index:
                yield direction.builder

    def _watched(self, source: Iterable[Segment | Tick]) -> Iterator[Segment | Tick]:
        """The segments for flow table, reassembly and sessions."""
        directions, flows = self._directions, self._connections.table
        for segment in source:
            if segment.ts_ns > self._latest_ns:
                self._latest_ns = segment.ts_ns
            if segment.__class__ is not Segment:
                yield segment
                continue
            key = segment.key
            direction = directions[key] if key in directions else self._add_flow(segment)
            if direction is None:
                yield segment
                continue
            builder = direction.builder
            if builder.packet_index >= _SETTLED_PACKETS and not builder.alone:
                self._keep_summary_only(builder)
            if builder.alone:
                builder.read(direction, segment)
                if segment.ts_ns > flows.next_expiry_ns:
                    yield Tick(segment.ts_ns, segment.ordinal)
                flows.clock_ns = segment.ts_ns
                continue
            if not direction.follow(segment):
                self._stop_observing(builder)
            yield segment

    def _keep_summary_only(self, builder: FlowSummaryBuilder) -> None:
        """From now on updates only the builder of a flow, if the contexts of both directions are known."""
        connection = builder.stand_alone()
        if connection:
            # The session tables of the flow stay, because events for them may still wait.
            self._connections.table.drop(connection.flow)
            del self._connections.alive[connection.flow]

    def _add_flow(self, segment: Segment) -> DirectionBuilder | None:
        """Begins to observe a new flow; None if it cannot be observed."""
        key, directions = segment.key, self._directions
        if len(directions) >= 2 * _FLOWS:
            return None
        back = reversed_key(key)
        if back == key:
            directions[key] = directions[back] = None
            return None
        directions[key], directions[back] = FlowSummaryBuilder(key, back, self._payloads).directions
        return directions[key]

    def _stop_observing(self, builder: FlowSummaryBuilder) -> None:
        for direction in builder.directions:
            self._directions[direction.key] = None

    def _observed(self, groups: Iterable[PacketEvents]) -> Iterator[PacketEvents]:
        directions = self._directions
        for group in groups:
            for connection, events in group.connections:
                direction = directions.get(connection.flow.key)
                if direction is not None and direction.builder.steps is not None:
                    direction.builder.observe(connection, events)
            yield group
