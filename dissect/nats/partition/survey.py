"""Surveys a partition without knowing what came before it: the states of its flows, and their summaries.

    survey = Survey(tables, options)
    survey.run(segments)
    survey.states()     # for flows that begin here: their states at the end
    survey.summaries()  # for flows that may have begun earlier: for `Dissector.advanced`

The survey runs the stages of a dissection without making records. A builder observes each flow that joins
in midstream: whether its packets are in order, which frames were decoded from which bytes, and which of
them a session has to process.

A flow that joined in midstream and has sent `_SETTLED_PACKETS` most likely began in an earlier partition.
From then on only its builder is updated: bytes go directly to a decoder, without flow table, reassembly and
session, which takes half the time (see docs/spark.md). Such a flow has no state; if it turns out to begin
here after all, its packets are read again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from ..engine.connections import PacketEvents
from ..engine.session_tables import Rows
from ..options import Options
from ..secrets.key_log import KeyLogs
from ..tables import needs_payloads
from ..tcp.flow import reversed_key, undirected
from ..types import Segment, Tick
from .checkpoint import Dissector
from .summary import DirectionBuilder, FlowSummaryBuilder

# The number of flows that are observed; the packets of other flows have to be read again.
_FLOWS = 1 << 16
# After this many packets with payload, a midstream flow has only a summary. A smaller number would save
# little, because a busy flow has thousands in a partition, and more flows that were silent before would be
# read again.
_SETTLED_PACKETS = 256


class Survey(Dissector):
    """A dissection without records that also summarizes the flows it joined in midstream."""

    def __init__(
        self, tables: Collection[str], options: Options, key_logs: KeyLogs | None = None
    ) -> None:
        super().__init__(tables, options, quiet=True, key_logs=key_logs)
        self._carries = "subscriptions" in tables
        self._payloads = needs_payloads(tables)
        self._directions: dict[bytes, DirectionBuilder | None] = {}  # by the keys of segments
        self._latest_ns = 0

    def feed(self, source: Iterable[Segment | Tick], together: bool = True) -> Iterator[Rows]:
        """Adds segments; there are no records."""
        groups = self._connections.feed(self._watched(source))
        return self._table_builder.feed(self._observed(groups), together)

    def run(self, source: Iterable[Segment | Tick]) -> None:
        """Adds segments."""
        for _ in self.feed(source):
            pass

    def states(self) -> dict[bytes, bytes]:
        """The states of open flows, as `save` gives them. A flow that has only a summary has none: see
        `summarized`."""
        return self.save()

    def summaries(self) -> dict[bytes, bytes]:
        """The summaries of flows that may have begun earlier, by `undirected`."""
        return {
            undirected(builder.key): builder.summary(self._latest_ns, self._carries).packed()
            for builder in self._builders()
            if not builder.failed
        }

    def summarized(self) -> set[bytes]:
        """The flows whose state is unknown, by `undirected`."""
        return {undirected(builder.key) for builder in self._builders() if builder.alone}

    def _builders(self) -> Iterator[FlowSummaryBuilder]:
        for direction in self._directions.values():
            if direction and not direction.number:
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
            direction = directions[key] if key in directions else self._met(segment)
            if direction is None:
                yield segment
                continue
            builder = direction.builder
            if builder.packet_index >= _SETTLED_PACKETS and not builder.alone:
                self._settle(builder)
            if builder.alone:
                builder.read(direction, segment)
                if segment.ts_ns > flows.next_expiry_ns:
                    yield Tick(segment.ts_ns, segment.ordinal)
                continue
            if not direction.follow(segment):
                self._spoil(builder)
            yield segment

    def _settle(self, builder: FlowSummaryBuilder) -> None:
        """Keeps only the summary of a flow, if both contexts are known."""
        connection = builder.stand_alone()
        if connection:
            # Its session tables stay: events for them may still wait.
            self._connections.table.drop(connection.flow)
            del self._connections.alive[connection.flow]

    def _met(self, segment: Segment) -> DirectionBuilder | None:
        """Adds a new flow."""
        key, directions = segment.key, self._directions
        if len(directions) >= 2 * _FLOWS:
            return None
        back = reversed_key(key)
        if back == key:
            directions[key] = directions[back] = None
            return None
        directions[key], directions[back] = FlowSummaryBuilder(key, back, self._payloads).directions
        return directions[key]

    def _spoil(self, builder: FlowSummaryBuilder) -> None:
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
