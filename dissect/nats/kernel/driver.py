"""Between the kernel and the stages: hands connections over, takes them back, and settles what the kernel
passes on.

    run > kernel > frames that it passes on ----------------------.
           | packets that it lists                                v
           '-> PacketParser > ConnectionTable > by packet > TableBuilder > rows

When the kernel stops, Python adds the frames and packets up to there, in order of packets, and looks which of
the connections of these packets may be handed over. Everything is settled at the end of each run, so the rows
of a live capture do not wait.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import merge
from itertools import groupby, pairwise
from operator import itemgetter
from typing import TYPE_CHECKING

from ..engine.connections import ConnectionTable, PacketEvents, ReleaseKey
from ..engine.session_tables import ReleasedRows, TableBuilder
from ..framing.events import Batch, Event
from ..options import Options
from ..packet import PacketParser
from ..schema.records import Record
from ..types import NEVER_NS, Chunk, Packets, Segment, Tick
from . import state
from .cooldown import WORTH, Cooldown
from .handover import OPERATIONS, Owned, candidate
from .layer_frames import layer_frame
from .owner import Owner, Runs
from .state import Op, Stop, Worth

if TYPE_CHECKING:
    from .arrays import Arrays
    from .jit import Array
    from .rows import WaitingRows

_LATEST_NS = 1 << 62
_EARLIEST_NS = -_LATEST_NS
_MOST_LISTED = 512
# Flows may be evicted when there are nearly as many as the limit allows. The kernel then follows none, since
# the table cannot tell how long they are silent.
_MOST_FLOWS = 7 / 8
_UNCLEAR = 1 / 8  # of the packets of a run: if more are, the next runs are Python's
_PAUSE, _LONGEST_PAUSE = 16, 4096  # runs
# Runs with fewer packets, in the mean of the latest ones, are Python's: as are those of a pcapng file whose
# packets come from two interfaces in turn, and of captures that overlap.
_SHORT, _LATEST = 32, 16
_AFTER_ALL = NEVER_NS
_ALONE = frozenset({Op.OK, Op.PING, Op.PONG})  # no other frame depends on these
_PACKET = itemgetter(state.E_INDEX, state.E_WAY)
_REQUEST_ENTRIES = 512  # of the quota, at most, for a request


class Driver:
    """Makes the records of runs with the kernel, whose `arrays` are new. With `rows`, it makes rows of
    frames. A connection is handed over once it has had `least` packets."""

    def __init__(
        self,
        arrays: Arrays,
        parser: PacketParser,
        connections: ConnectionTable,
        builder: TableBuilder,
        options: Options,
        rows: WaitingRows | None = None,
        least: int = WORTH,
    ) -> None:
        self.arrays = arrays
        self._rows = rows
        self._layers = bool(arrays.control[state.C_LAYERS])
        # How much of a body is passed on.
        self._kept = state.E_SIZE if self._layers else state.E_HEADERS
        self._parser = parser
        self._connections = connections
        self._table = connections.table
        self._builder = builder
        self._runs = Runs(parser)
        self._owner = Owner(arrays, self._runs, rows)
        self._cooldown = Cooldown(least)
        limits = options.flow_limits
        self._idle_ns = limits.idle_ns
        self._most_flows = limits.max_flows
        arrays.control[state.C_LEAST] = min(limits.idle_ns, limits.linger_ns, _LATEST_NS)
        self._pause = 0
        self._next_pause = _PAUSE
        self._mean = float(_LATEST * _SHORT)
        self._run: Packets
        self._before = 0

    def rows_of(self, run: Packets, before: int) -> Iterator[ReleasedRows]:
        """The records that the packets of a run complete, before which `before` packets were read."""
        source = self._rows_of(run, before)
        return self._rows.collected(source) if self._rows else source

    def _rows_of(self, run: Packets, before: int) -> Iterator[ReleasedRows]:
        self._run, self._before = run, before
        self._pause -= self._pause > 0
        self._mean += (len(run.places) - self._mean) / _LATEST
        if self._mean < _SHORT and not self._pause:
            self._lengthen()
        if self._pause or self._is_crowded or self._parser.met_subflows:
            self._take_all()
        if not self._owner.flows or not self._load(run, before):
            self._take_all()
            segments = self._parser.parse(run, before)
            yield from self._fed(segments, ())
            self._try_over(segments)
            return
        unclear, control = 0, self.arrays.control
        stop = None
        while stop is not Stop.DONE:
            self._set_limits()
            stop = self.arrays.walk()
            yield from self._settled(stop)
            unclear += stop is Stop.ALONE
            if stop is Stop.BREAK:
                yield from self._broken()
            if self._rows and self._rows.are_due:
                yield from self._rows.block()
            if self._is_crowded:
                self._take_all()
            if not self._owner.flows and control[state.C_NEXT] < len(run.places):
                yield from self._rest()
                return
        if unclear > len(run.places) * _UNCLEAR:
            self._lengthen()

    def finish(self) -> Iterator[ReleasedRows]:
        """Takes all connections back. Returns the rows of frames that wait."""
        self._take_all()
        return self._rows.rest() if self._rows else iter(())

    def _lengthen(self) -> None:
        """Pauses, twice as long as the last time."""
        self._pause = self._next_pause
        self._next_pause = min(_LONGEST_PAUSE, 2 * self._next_pause)

    @property
    def _is_crowded(self) -> bool:
        return len(self._table.flows) >= self._most_flows * _MOST_FLOWS

    def _take_all(self) -> None:
        for owned in [*self._owner.flows.values()]:
            self._owner.take_back(owned)

    def _load(self, run: Packets, before: int) -> bool:
        number = self._runs.add(run, before, self._owner)
        if self._rows:
            self._rows.load(run, before)
        return self.arrays.load(run, number)

    def _set_limits(self) -> None:
        """Tells the kernel how far it may walk before Python has to know."""
        control, table = self.arrays.control, self._table
        control[state.C_EXPIRY] = max(_EARLIEST_NS, min(table.next_expiry_ns, _LATEST_NS))
        room = int(self._most_flows * _MOST_FLOWS) - len(table.flows)
        control[state.C_MOST] = max(1, min(_MOST_LISTED, room))
        control[state.C_OWNED] = len(self._owner.flows)

    def _settled(self, stop: Stop) -> Iterator[ReleasedRows]:
        """Adds what the kernel has passed on and listed, in order."""
        control, arrays = self.arrays.control, self.arrays
        listed = arrays.listed[: control[state.C_LISTED]].tolist()
        events = arrays.events[: control[state.C_EVENTS]]
        text = arrays.arena[: control[state.C_TEXT]].tobytes()
        control[state.C_LISTED] = control[state.C_EVENTS] = control[state.C_TEXT] = 0
        clock_ns, clock_at = int(control[state.C_CLOCK]), int(control[state.C_CLOCK_AT])
        control[state.C_CLOCK_AT] = -1
        alone = listed.pop() if stop is Stop.ALONE else None
        segments: list[Segment | Tick] = []
        if len(events):
            yield from self._add_events(events, text, listed, segments)
        early = [index for index in listed if index < clock_at]
        yield from self._read(early, (), segments)
        if clock_at >= 0:
            self._table.clock_ns = clock_ns
        yield from self._read(listed[len(early) :], (), segments)
        self._owner.settle(events)
        if control[state.C_CHANGED]:
            control[state.C_CHANGED] = 0
            owned = self._owner.of_way(int(events[-1, state.E_WAY]))
            if owned.tables.awaited() is None:
                self._take_back(owned)
        self._try_over(segments)
        if alone is not None:
            yield from self._read_alone(alone)

    def _add_events(
        self, events: Array, text: bytes, listed: list[int], segments: list[Segment | Tick]
    ) -> Iterator[ReleasedRows]:
        """Adds what the kernel has passed on, and reads the listed packets before it, which are removed from
        `listed`."""
        # Few entries may be left for requests and subscriptions: then all connections have to take turns, as
        # where requests have rows.
        room = _REQUEST_ENTRIES * len(events) + len(self._run.block)
        has_rows = self._layers or self.arrays.control[state.C_REPLIES]
        in_turns = has_rows or self._builder.quota.left < room
        passed: list[PacketEvents] = []
        # Connections with a frame in `passed` on which requests may depend.
        waiting: set[int] = set()
        is_counted = events[:, state.E_WORTH] <= Worth.PAIRED
        pairs = is_counted.any()
        for start, stop in _spans(events, is_counted, listed if in_turns else []):
            some = events[start:stop]
            if is_counted[start]:
                depends = not waiting.isdisjoint((some[:, state.E_WAY] >> 1).tolist())
                if in_turns or waiting and depends:
                    index = int(some[0, state.E_INDEX])
                    yield from self._read(_taken(listed, index), passed, segments)
                    passed = []
                    waiting.clear()
                for index, rows in self._completed(some, text):
                    release = ReleaseKey(self._before + index + 1, _AFTER_ALL, "")
                    yield ReleasedRows(release, rows)
                continue
            for (index, way), frames in groupby(some.tolist(), _PACKET):
                group = [*frames]
                passed.append(self._passed(index, way, group, text))
                if pairs and any(frame[state.E_OP] not in _ALONE for frame in group):
                    waiting.add(way >> 1)
        if passed:
            index = int(events[-1, state.E_INDEX])
            yield from self._read(_taken(listed, index), passed, segments)

    def _completed(self, events: Array, text: bytes) -> Iterable[tuple[int, list[Record]]]:
        """Adds frames that the kernel has counted to requests and layers. Returns the rows that they
        complete, with the indexes of packets."""
        if not self._layers:
            return self._owner.pair(events, text)
        paired = events[events[:, state.E_WORTH] == Worth.PAIRED]
        rows = self._owner.pair(paired, text), self._layer_rows(events, text)
        return merge(*rows, key=itemgetter(0))

    def _layer_rows(self, events: Array, text: bytes) -> Iterator[tuple[int, list[Record]]]:
        """The rows that layers make of these frames, with the indexes of packets."""
        run, begin = self._run, int(self.arrays.control[state.C_RUN])
        for (index, way), frames in groupby(events.tolist(), _PACKET):
            owned = self._owner.of_way(way)
            layers, here = owned.tables.layers, (run.first + index, run.capture)
            assert layers
            made = []
            for event in frames:
                if OPERATIONS[event[state.E_OP]].op not in layers.ops:
                    continue
                begun = here
                if event[state.E_FIRST] != begin + index:
                    first = self._owner.begun(owned, way, event[state.E_FIRST])
                    begun = first.number, first.capture
                made.append(layer_frame(owned, event, text, begun, layers.secrets))
            if rows := layers.add(made):
                yield index, rows

    def _read(
        self, indexes: Sequence[int], passed: Sequence[PacketEvents], segments: list[Segment | Tick]
    ) -> Iterator[ReleasedRows]:
        """Reads packets of the run, and adds the frames that were passed on between them. The segments are
        added to `segments`."""
        if indexes or passed:
            found = self._parsed(indexes)
            segments += found
            yield from self._fed(found, passed)

    def _parsed(self, indexes: Sequence[int]) -> list[Segment | Tick]:
        """The segments of these packets of the run."""
        run, segments = self._run, list[Segment | Tick]()
        for _, some in groupby(enumerate(indexes), lambda pair: pair[1] - pair[0]):
            first = next(some)[1]
            last = max((index for _, index in some), default=first)
            part = replace(run, first=run.first + first, places=run.places[first : last + 1])
            segments += self._parser.parse(part, self._before + first)
        return segments

    def _fed(
        self, segments: Sequence[Segment | Tick], passed: Iterable[PacketEvents]
    ) -> Iterator[ReleasedRows]:
        groups: Iterable[PacketEvents] = self._connections.feed(segments)
        if passed:
            groups = merge(groups, passed, key=itemgetter(0))
        return self._builder.feed(groups, True)

    def _read_alone(self, index: int) -> Iterator[ReleasedRows]:
        """Reads a packet that may belong to any connection, or after whose time flows may end."""
        segments = self._parsed([index])
        for segment in segments:
            if isinstance(segment, Segment):
                route = self._table.route(segment.key)
                if route and (owned := self._owner.flows.get(route[0])):
                    self._take_back(owned)
        self._owner.note_times()
        limit = self._run.places[index][0] - self._idle_ns
        for owned in [*self._owner.flows.values()]:
            if owned.flow.last_ns < limit:
                self._take_back(owned)
        yield from self._fed(segments, ())
        self._try_over(segments)

    def _broken(self) -> Iterator[ReleasedRows]:
        """Takes a connection back whose next packet is not plain, and reads that packet."""
        control = self.arrays.control
        way = int(control[state.C_ARG])
        if way >= 0:
            self._take_back(self._owner.of_way(way))
        index = int(control[state.C_NEXT])
        control[state.C_NEXT] += 1
        yield from self._read_alone(index)

    def _take_back(self, owned: Owned) -> None:
        kept = self._owner.take_back(owned)
        self._cooldown.note(owned.flow, kept)

    def _rest(self) -> Iterator[ReleasedRows]:
        """Reads the rest of the run, after the last connection was taken back."""
        first = int(self.arrays.control[state.C_NEXT])
        segments = self._parsed(range(first, len(self._run.places)))
        yield from self._fed(segments, ())
        self._try_over(segments)

    def _try_over(self, segments: Iterable[Segment | Tick]) -> None:
        """Hands those connections of these segments over that may be."""
        if self._pause or self._is_crowded or self._parser.met_subflows:
            return
        counts = Counter(each.key for each in segments if each.__class__ is Segment)
        for key, count in counts.items():
            route = self._table.route(key)
            if route is None:
                continue
            flow = route[0]
            if flow in self._owner.flows or not self._cooldown.passes(flow, count):
                continue
            connection = self._connections.alive.get(flow)
            tables = self._builder.alive.get(connection) if connection else None
            owned = candidate(flow, connection, tables)
            if owned is None or not self._owner.hand_over(owned):
                self._cooldown.refuse(flow)

    def _passed(
        self, index: int, way: int, events: Sequence[Sequence[int]], text: bytes
    ) -> PacketEvents:
        """The frames of a packet that the kernel passes on. If rows are made of them, those with numbers in a
        row are a batch."""
        owned = self._owner.of_way(way)
        parts = [events]
        if len(events) > 1 and (self._rows or self._layers):
            pairs = groupby(enumerate(events), lambda pair: pair[1][state.E_NUMBER] - pair[0])
            parts = [[event for _, event in some] for _, some in pairs]
        batches: list[Event] = [self._batch(index, way, owned, part, text) for part in parts]
        key = ReleaseKey(self._before + index + 1, _AFTER_ALL, "")
        return PacketEvents(key, [(owned.connection, batches)])

    def _batch(
        self, index: int, way: int, owned: Owned, events: Sequence[Sequence[int]], text: bytes
    ) -> Batch:
        run, stream = self._run, owned.ways[way & 1].stream
        assert stream and stream.decoder
        frames = []
        for event in events:
            at = event[state.E_TEXT]
            headers = at + event[state.E_LINE]
            end = headers + event[self._kept]
            if event[state.E_WORTH] == Worth.SETTLES:
                self._owner.add_deliveries(owned)
            line, block = text[at:headers], text[headers:end]
            frames.append(stream.decoder.frame(line, block, event[state.E_BASE]))
        first = events[0]
        place = run.places[index][0], run.first + index, run.capture
        last = Chunk(*place, first[state.E_CHUNK], b"")
        begun = self._owner.begun(owned, way, first[state.E_FIRST], last)
        number = first[state.E_NUMBER]
        return Batch(stream.direction, first[state.E_TIME], begun, last, frames, None, number)


def _spans(events: Array, is_counted: Array, listed: list[int]) -> Iterator[tuple[int, int]]:
    """The spans of events that are alike, each as the indexes where it starts and stops. There is no listed
    packet within a span of counted events."""
    cuts = is_counted[1:] != is_counted[:-1]
    if listed:
        before = events[:, state.E_INDEX].searchsorted(listed, "left")
        later = before[(before > 0) & (before < len(events))] - 1
        cuts[later] |= is_counted[1:][later]
    return pairwise((0, *(cuts.nonzero()[0] + 1).tolist(), len(is_counted)))


def _taken(indexes: list[int], stop: int) -> list[int]:
    """Removes and returns the indexes before `stop`."""
    count = bisect_left(indexes, stop)
    taken = indexes[:count]
    del indexes[:count]
    return taken
