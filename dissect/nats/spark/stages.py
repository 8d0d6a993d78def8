"""The stages of a dissection in many tasks, as plain functions: no Spark here.

The captures are one timeline, cut into partitions (see partitions.py). `survey` finds the flows of a
partition. `stitch` goes over all partitions in order, for a share of the flows, and finds the state in
which each flow reaches each partition. `decode` resumes from these states and makes the rows of its
partition.

    survey      one task per partition              -> SurveyResult; FlowSurvey: flow, state, summary
    stitch      one task per share of the flows   -> State: flow, number of a partition, state
    decode      one task per partition              -> rows

A flow is named by `tcp.flow.undirected`. Each stage reads the packets itself; only names, times, states and
summaries go from one stage to the next. Where a summary does not prove the next state of a flow, the stitch
reads the packets of that flow again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

from ..capture import CaptureReport
from ..capture.time_range import TimeRange
from ..engine.session_tables import Rows
from ..options import Options
from ..packet import PacketParser
from ..partition.checkpoint import Dissector
from ..partition.partitions import Partition, read_partition
from ..partition.survey import Survey
from ..tcp.flow import undirected
from ..types import Packets, Segment, Tick

NO_TIME = -1
"""Instead of the time of a packet where there is none: no flow is over by then."""


@dataclass(frozen=True, slots=True)
class JobSpec:
    """What is wanted of every partition: tables, of the packets in a span of time."""

    tables: frozenset[str]
    options: Options
    window: TimeRange = TimeRange()

    def packets(self, partition: Partition) -> Iterator[Packets]:
        """The packets of a partition that are wanted."""
        return self.window.of(read_partition(partition, CaptureReport()))


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """A partition, and the `fragments` that wait when it begins. `latest_ns` is the latest time of a TCP
    packet in it, `later_ns` that of all behind it. `last`: there are none."""

    partition: Partition
    fragments: bytes = b""
    latest_ns: int = NO_TIME
    later_ns: int = NO_TIME
    last: bool = True


class FlowSurvey(NamedTuple):
    """The survey of a flow in a partition. `state` is its state at the end if it began there: empty if
    the flow is over, None if the survey did not keep it. `summary` is what the packets make of any state, see
    `Survey.summaries`; empty if that is not known."""

    flow: bytes
    state: bytes | None
    summary: bytes


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """What a partition has. `fragments` are those that wait at its end, where `given` waited when it began;
    `latest_ns` is the latest time of a TCP packet. If it `met` no fragment, what waits does not matter.
    """

    latest_ns: int
    given: bytes
    fragments: bytes
    met: bool


class FlowChunk(NamedTuple):
    """A flow has packets in the partition `number`; the next one where it has is `following`. What the survey
    says of them is the state at the end if it was the `first`, else the summary. None, or an empty summary:
    the packets have to be read."""

    number: int
    flow: bytes
    following: int
    first: bool
    told: bytes | None


class State(NamedTuple):
    """The state in which a flow comes to the partition `number`, from that with the number `origin`, as
    `Dissector.save` gives it. `read`: its packets in `origin` had to be read again for it."""

    number: int
    origin: int
    flow: bytes
    state: bytes
    read: bool = False


class Place(Enum):
    """Where a partition is among all. Before the first one no flow has a state, behind the last one none
    needs one; so less has to be found out of these."""

    FIRST = auto()
    BETWEEN = auto()
    LAST = auto()


def place_of(number: int, count: int) -> Place:
    """That of the partition with this number."""
    if number == count - 1:
        return Place.LAST
    return Place.BETWEEN if number else Place.FIRST


def survey(
    spec: JobSpec, partition: Partition, place: Place, fragments: bytes
) -> tuple[SurveyResult, Iterator[FlowSurvey]]:
    """What a partition has, where `fragments` wait when it begins."""
    parser = PacketParser()
    parser.load(fragments)
    noted = _Noted(parser.feed(spec.packets(partition)))
    states: dict[bytes, bytes] = {}
    summaries: dict[bytes, bytes] = {}
    stateless: set[bytes] = set()
    if place is Place.LAST:
        _exhaust(noted)
    elif place is Place.FIRST:
        dissection = Dissector(spec.tables, spec.options, quiet=True)
        _exhaust(dissection.feed(noted))
        states = dissection.save()
    else:
        found = Survey(spec.tables, spec.options)
        found.run(noted)
        states, summaries, stateless = found.states(), found.summaries(), found.summarized()
    told = SurveyResult(noted.latest_ns, fragments, parser.save(), parser.met_fragments)
    flows = set(map(undirected, noted.keys))
    return told, (
        FlowSurvey(
            flow, None if flow in stateless else states.pop(flow, b""), summaries.pop(flow, b"")
        )
        for flow in flows
    )


class _Noted:
    """Segments, and what is noted of all that went by: their keys, and the latest time."""

    def __init__(self, source: Iterable[Segment | Tick]) -> None:
        self.keys: set[bytes] = set()
        self.latest_ns = NO_TIME
        self._source = source

    def __iter__(self) -> Iterator[Segment | Tick]:
        add = self.keys.add
        for segment in self._source:
            if segment.__class__ is Segment:
                add(segment.key)
            if segment.ts_ns > self.latest_ns:
                self.latest_ns = segment.ts_ns
            yield segment


def chunk_contexts(
    partitions: Sequence[Partition], surveyed: Sequence[SurveyResult]
) -> list[ChunkContext]:
    """What each partition needs of the others."""
    found: list[ChunkContext] = []
    fragments = b""
    for partition, told in zip(partitions, surveyed):
        last = partition is partitions[-1]
        found.append(ChunkContext(partition, fragments, told.latest_ns, NO_TIME, last))
        fragments = told.fragments if told.met else fragments
    later_ns = NO_TIME
    for at in reversed(range(len(found))):
        found[at] = replace(found[at], later_ns=later_ns)
        later_ns = max(later_ns, found[at].latest_ns)
    return found


def needs_resurvey(surveyed: Sequence[SurveyResult]) -> dict[int, bytes]:
    """The partitions that are to be surveyed again, since fragments wait when they begin; and which."""
    again: dict[int, bytes] = {}
    fragments = b""
    for number, told in enumerate(surveyed):
        if told.met:
            if told.given != fragments:
                again[number] = fragments
            fragments = told.fragments
    return again


def share_of(flow: bytes, shares: int) -> int:
    """Which share of all flows one belongs to: what Spark's `crc32(flow) % shares` gives."""
    return crc32(flow) % shares


def flow_chunks(surveys: Iterable[tuple[int, FlowSurvey]]) -> Iterator[FlowChunk]:
    """The chunks after which a flow goes on, from the surveys of its partitions: by flow, then in order."""
    for flow, group in groupby(surveys, key=lambda each: each[1].flow):
        before: tuple[int, FlowSurvey] | None = None
        first = True
        for number, survey in group:
            if before:
                told = before[1].state if first else before[1].summary
                yield FlowChunk(before[0], flow, number, first, told)
                first = False
            before = number, survey


def stitch(
    spec: JobSpec, contexts: Sequence[ChunkContext], chunks: Iterable[FlowChunk]
) -> Iterator[State]:
    """The states of flows, whose chunks are all given, in order of the partitions."""
    states: dict[bytes, State] = {}
    for number, group in groupby(chunks, key=attrgetter("number")):
        left: dict[bytes, int] = {}
        for chunk in group:
            reached = _reached(spec, contexts, states.get(chunk.flow), chunk)
            if reached is None:
                left[chunk.flow] = chunk.following
            elif reached:
                states[chunk.flow] = State(chunk.following, number, chunk.flow, reached)
                yield states[chunk.flow]
        if left:
            coming = [states.pop(flow) for flow in left if flow in states]
            for flow, state in _read_again(spec, contexts, number, coming, left).items():
                states[flow] = State(left[flow], number, flow, state, True)
                yield states[flow]


def _reached(
    spec: JobSpec, contexts: Sequence[ChunkContext], state: State | None, chunk: FlowChunk
) -> bytes | None:
    """The state behind a chunk, empty if the flow is over; None if its packets have to be read."""
    if chunk.told is None:
        return None
    if chunk.first:
        return chunk.told
    if state is None or not chunk.told:
        return None
    between = contexts[state.origin + 1 : chunk.number]
    if (
        max((context.latest_ns for context in between), default=NO_TIME)
        > contexts[chunk.number].latest_ns
    ):
        return None  # the flow may be over before
    return Dissector(spec.tables, spec.options, quiet=True).advanced(state.state, chunk.told)


def _read_again(
    spec: JobSpec,
    contexts: Sequence[ChunkContext],
    number: int,
    coming: Iterable[State],
    flows: Mapping[bytes, int],
) -> dict[bytes, bytes]:
    """The states of flows behind a partition, by their packets."""
    dissection = Dissector(spec.tables, spec.options, quiet=True)
    _exhaust(_arrivals(dissection, contexts, coming))
    _exhaust(dissection.feed(_segments(spec, contexts[number], flows)))
    return dissection.save(flows)


def decode(
    spec: JobSpec,
    contexts: Sequence[ChunkContext],
    number: int,
    states: Iterable[State],
    continuing: Collection[bytes],
    passed_over: Counter[str],
) -> Iterator[Rows]:
    """The rows of a partition: those that its packets complete, and those of the flows that have no packets
    behind it. `continuing` are the flows that have. Packets that are no TCP are counted in `passed_over`.
    """
    context = contexts[number]
    parser = PacketParser()
    parser.load(context.fragments)
    dissection = Dissector(spec.tables, spec.options)
    yield from _arrivals(dissection, contexts, states)
    yield from dissection.feed(parser.feed(spec.packets(context.partition)))
    if context.last:
        parser.finish()
    passed_over += parser.passed_over
    dissection.drop(continuing)
    yield from dissection.pass_time(context.later_ns)
    yield from dissection.finish()


def _arrivals(
    dissection: Dissector, contexts: Sequence[ChunkContext], states: Iterable[State]
) -> Iterator[Rows]:
    """Loads states; the rows of flows that are over by the packets of the partitions in between. Those that
    come from furthest are first: what passed for others has passed for them."""
    for (origin, number), group in groupby(
        sorted(states, key=attrgetter("origin")), key=attrgetter("origin", "number")
    ):
        dissection.load(state.state for state in group)
        between = contexts[origin + 1 : number]
        yield from dissection.pass_time(
            max((context.latest_ns for context in between), default=NO_TIME)
        )


def _segments(
    spec: JobSpec, context: ChunkContext, flows: Mapping[bytes, object]
) -> Iterator[Segment | Tick]:
    """The segments of some flows in a partition, and the ticks of others."""
    hashes = {crc32(flow) for flow in flows}
    parser = PacketParser(lambda value: value in hashes)
    parser.load(context.fragments)
    return parser.feed(spec.packets(context.partition))


def _exhaust(source: Iterable[object]) -> None:
    for _ in source:
        pass
