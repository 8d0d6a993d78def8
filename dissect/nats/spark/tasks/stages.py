"""The stages of a dissection in many tasks, as plain functions without Spark.

The captures of a timeline are cut into partitions (see partitions.py). `survey` finds the flows of a
partition. `stitch` goes through all partitions in order, for a share of the flows, and finds the state in
which each flow reaches each partition. `decode` resumes from these states and makes the rows of its
partition. The part of a flow in one partition is a chunk of the flow.

    survey      one task per partition            -> SurveyResult; FlowSurvey: flow, state, summary
    stitch      one task per share of the flows   -> State: flow, number of a partition, state
    decode      one task per partition            -> rows

If few tasks run at once, they may dissect whole flows instead: `decode` of `SharedFlows` reads all packets.
Timelines that are small parts of all captures are not cut; they only need the `decode` of `WholeTimelines`.

The key of a flow is `tcp.flow.undirected`. Each stage reads the packets itself; only keys, times, states
and summaries go from one stage to the next. If a summary cannot be proven for a state, the stitch reads the
packets of that flow again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple
from zlib import crc32

from ...engine.dissection import Dissection
from ...engine.same_sessions import with_same_sessions
from ...engine.session_tables import ReleasedRows
from ...kernel.dissection import KernelDissection
from ...kernel.load import lack, serves
from ...packet import PacketParser, ParserState
from ...packet.mptcp import Noted, replayed
from ...partition.checkpoint import Checkpoints
from ...partition.flow_shares import sampled
from ...partition.partitions import Partition
from ...partition.survey import Survey
from ...tcp.flow import undirected
from ...types import EARLIEST_NS, Packets, Segment, Tick, passed_ns
from .inputs import (
    ChunkContext,
    Inputs,
    JobSpec,
    SharedFlows,
    Timeline,
    WholeTimelines,
)


class FlowSurvey(NamedTuple):
    """The survey of a flow in a partition. `state` is the state of the flow at the end if it began there:
    empty if the flow is over, None if the survey did not keep it. `summary` is the effect of its packets on
    any state, see `Survey.summaries`; empty if it is unknown."""

    flow: bytes
    state: bytes | None
    summary: bytes


@dataclass(frozen=True, slots=True)
class SurveyResult:
    """The survey of a partition. `state` is that of the parser at its end if it began with `initial`.
    `first_ns` and `last_ns` are the times of its first and last TCP packet, `latest_ns` is the latest time
    that passed for all flows after the first one; they are EARLIEST_NS if there is none. `met` is whether the
    partition has any fragment; if not, earlier fragments do not change it. `notes` are about its subflows of
    Multipath TCP."""

    first_ns: int
    last_ns: int
    latest_ns: int
    initial: ParserState
    state: ParserState
    met: bool
    notes: tuple[Noted, ...] = ()


class FlowChunk(NamedTuple):
    """A flow with packets in the partition `number` and, next, in the partition `following`. If `number` is
    the `first` partition of the flow, `result` is the state of the flow at its end; otherwise it is the
    summary of the flow there. If it is None or an empty summary, the packets have to be read."""

    number: int
    flow: bytes
    following: int
    first: bool
    result: bytes | None


class FlowState(NamedTuple):
    """The state in which a flow reaches the partition `number`. `Checkpoints.save` made it at the end of the
    partition `origin`. `read` is whether its packets in `origin` had to be read again."""

    number: int
    origin: int
    flow: bytes
    state: bytes
    read: bool = False


class _KernelCheckpoints(Checkpoints, KernelDissection):
    """A dissection that is resumed, and then uses the kernel."""


_read_bytes = 0  # by this worker


@dataclass(slots=True)
class DecodeCounts:
    """What decoding some partitions has met: packets without TCP, by reason; how many partitions, shares or
    timelines the kernel has read, and how many Python alone, by reason."""

    passed_over: Counter[str] = field(default_factory=Counter)
    with_kernel: int = 0
    without_kernel: Counter[str] = field(default_factory=Counter)

    def join(self, other: DecodeCounts) -> None:
        """Adds what decoding other partitions has met."""
        self.passed_over += other.passed_over
        self.with_kernel += other.with_kernel
        self.without_kernel += other.without_kernel

    def add(self, dissection: Dissection) -> None:
        """Adds what a dissection has met."""
        self.passed_over += dissection.parser.passed_over
        if not isinstance(dissection, KernelDissection):
            self.without_kernel[lack() or "its tables or options need every frame"] += 1
        elif dissection.is_used:
            self.with_kernel += 1
        else:
            self.without_kernel[lack() or "there are few packets"] += 1


def sample(spec: JobSpec, partition: Partition) -> Counter[int]:
    """The work for each flow in some packets of a partition; see `sampled`."""
    return sampled(spec.packets(partition))


class PartitionPosition(Enum):
    """The position of a partition. The survey does less for the first one, where no flow has a state
    yet, and for the last one, after which no state is needed."""

    FIRST = auto()
    BETWEEN = auto()
    LAST = auto()


def place_of(number: int, count: int) -> PartitionPosition:
    """The position of the partition with this number."""
    if number == count - 1:
        return PartitionPosition.LAST
    return PartitionPosition.BETWEEN if number else PartitionPosition.FIRST


def survey(
    spec: JobSpec, partition: Partition, place: PartitionPosition, initial: ParserState
) -> tuple[SurveyResult, Iterator[FlowSurvey]]:
    """Surveys a partition. `initial` is the state of the parser when it begins."""
    parser = PacketParser()
    parser.load(initial)
    notes = parser.note_subflows()
    observed = _Observed(parser.feed(spec.packets(partition)))
    states: dict[bytes, bytes] = {}
    summaries: dict[bytes, bytes] = {}
    stateless: set[bytes] = set()
    if place is PartitionPosition.LAST:
        _exhaust(observed)
    elif place is PartitionPosition.FIRST:
        dissection = Checkpoints(spec.tables, spec.options, True, spec.key_logs())
        _exhaust(dissection.feed(observed))
        states = dissection.save()
    else:
        found = Survey(spec.tables, spec.options, spec.key_logs())
        found.run(observed)
        states, summaries, stateless = found.states(), found.summaries(), found.summarized()
    times = observed.first_ns, observed.last_ns, observed.latest_ns
    result = SurveyResult(*times, initial, parser.save(), parser.met_fragments, tuple(notes))
    flows = set(map(undirected, observed.keys))
    return result, (
        FlowSurvey(
            flow, None if flow in stateless else states.pop(flow, b""), summaries.pop(flow, b"")
        )
        for flow in flows
    )


class _Observed:
    """Iterates over segments, and notes their keys and their times, as `SurveyResult` has them."""

    def __init__(self, source: Iterable[Segment | Tick]) -> None:
        self.keys: set[bytes] = set()
        self.first_ns = self.last_ns = self.latest_ns = EARLIEST_NS
        self._source = source

    def __iter__(self) -> Iterator[Segment | Tick]:
        add = self.keys.add
        before_ns: int | None = None
        for segment in self._source:
            ts_ns = segment.ts_ns
            if segment.__class__ is Segment:
                add(segment.key)
            if before_ns is None:
                self.first_ns = ts_ns
            elif (until_ns := passed_ns(before_ns, ts_ns)) > self.latest_ns:
                self.latest_ns = until_ns
            self.last_ns = before_ns = ts_ns
            yield segment


def chunk_contexts(
    partitions: Sequence[Partition], surveyed: Sequence[SurveyResult]
) -> list[ChunkContext]:
    """The context of each partition, from the surveys of all partitions."""
    found: list[ChunkContext] = []
    before_ns = EARLIEST_NS
    for partition, state, result in zip(partitions, _initial_states(surveyed), surveyed):
        latest_ns = result.latest_ns
        if result.first_ns != EARLIEST_NS:
            is_first = before_ns == EARLIEST_NS
            until_ns = result.first_ns if is_first else passed_ns(before_ns, result.first_ns)
            latest_ns = max(latest_ns, until_ns)
        last = partition is partitions[-1]
        found.append(ChunkContext(partition, state, before_ns, latest_ns, EARLIEST_NS, last))
        before_ns = before_ns if result.last_ns == EARLIEST_NS else result.last_ns
    later_ns = EARLIEST_NS
    for at in reversed(range(len(found))):
        found[at] = replace(found[at], later_ns=later_ns)
        later_ns = max(later_ns, found[at].latest_ns)
    return found


def needs_resurvey(surveyed: Sequence[SurveyResult]) -> dict[int, ParserState]:
    """The partitions that must be surveyed again, with the state of the parser when they begin."""
    again: dict[int, ParserState] = {}
    for number, (state, result) in enumerate(zip(_initial_states(surveyed), surveyed)):
        initial = result.initial
        if state.subflows != initial.subflows or result.met and state != initial:
            again[number] = state
    return again


def _initial_states(surveyed: Sequence[SurveyResult]) -> Iterator[ParserState]:
    """The states in which the parser reaches each partition. If a survey did not begin with the right
    subflows, the ones after it follow from its notes: otherwise each survey had to wait for the one before.
    """
    state = ParserState()
    for result in surveyed:
        yield state
        fragments = result.state.fragments if result.met else state.fragments
        if result.initial.subflows == state.subflows:
            subflows = result.state.subflows
        else:
            subflows = replayed(state.subflows, result.notes)
        state = ParserState(fragments, subflows)


def flow_chunks(surveys: Iterable[tuple[int, FlowSurvey]]) -> Iterator[FlowChunk]:
    """The chunks after which a flow continues, by flow, then in order. `surveys` are those of all partitions,
    by flow, then in order."""
    for flow, group in groupby(surveys, key=lambda each: each[1].flow):
        before: tuple[int, FlowSurvey] | None = None
        first = True
        for number, survey in group:
            if before:
                result = before[1].state if first else before[1].summary
                yield FlowChunk(before[0], flow, number, first, result)
                first = False
            before = number, survey


def stitch(
    spec: JobSpec, contexts: Sequence[ChunkContext], chunks: Iterable[FlowChunk]
) -> Iterator[FlowState]:
    """The states of flows, from all of their chunks in order of the partitions."""
    states: dict[bytes, FlowState] = {}
    for number, group in groupby(chunks, key=attrgetter("number")):
        left: dict[bytes, int] = {}
        for chunk in group:
            reached = _reached(spec, contexts, states.get(chunk.flow), chunk)
            if reached is None:
                left[chunk.flow] = chunk.following
            elif reached:
                states[chunk.flow] = FlowState(chunk.following, number, chunk.flow, reached)
                yield states[chunk.flow]
        if left:
            coming = [states.pop(flow) for flow in left if flow in states]
            for flow, state in _read_again(spec, contexts, number, coming, left).items():
                states[flow] = FlowState(left[flow], number, flow, state, True)
                yield states[flow]


def _reached(
    spec: JobSpec, contexts: Sequence[ChunkContext], state: FlowState | None, chunk: FlowChunk
) -> bytes | None:
    """The state of a flow after a chunk, empty if the flow is over; None if its packets have to be read."""
    if chunk.result is None:
        return None
    if chunk.first:
        return chunk.result
    if state is None or not chunk.result:
        return None
    between = contexts[state.origin + 1 : chunk.number]
    if (
        max((context.latest_ns for context in between), default=EARLIEST_NS)
        > contexts[chunk.number].latest_ns
    ):
        return None  # the flow may have ended before this chunk
    dissection = Checkpoints(spec.tables, spec.options, True, spec.key_logs())
    return dissection.advanced(state.state, chunk.result)


def _read_again(
    spec: JobSpec,
    contexts: Sequence[ChunkContext],
    number: int,
    coming: Iterable[FlowState],
    flows: Mapping[bytes, int],
) -> dict[bytes, bytes]:
    """The states of flows after a partition, from their packets."""
    dissection = Checkpoints(spec.tables, spec.options, True, spec.key_logs())
    _exhaust(_arrivals(dissection, contexts, number, coming))
    _exhaust(dissection.feed(_segments(spec, contexts[number], flows)))
    return dissection.save(flows)


def decode(
    spec: JobSpec,
    inputs: Inputs,
    number: int,
    states: Iterable[FlowState],
    continuing: Collection[bytes],
    counts: DecodeCounts,
) -> Iterator[ReleasedRows]:
    """The rows of a partition: those that its packets complete, and those of flows that have no packets after
    it. Frames of the kernel come as blocks. `continuing` are the flows that have packets after it. For
    `SharedFlows`, these are the rows of share `number`, which has no states; for `WholeTimelines`, those of
    the timeline with this number, of layers across sessions, too.
    """
    if isinstance(inputs, SharedFlows):
        yield from _decode_share(spec, inputs, number, counts)
        return
    if isinstance(inputs, WholeTimelines):
        yield from _decode_timeline(spec, inputs.timelines[number], counts)
        return
    contexts = inputs
    context = contexts[number]
    parser = PacketParser()
    parser.load(context.state)
    make = _KernelCheckpoints if serves(spec.tables, spec.options) else Checkpoints
    dissection = make(spec.tables, spec.options, key_logs=spec.key_logs(), blocks=True)
    dissection.parser = parser
    packets = _packets(dissection, spec, context.partition)
    yield from _arrivals(dissection, contexts, number, states)
    yield from dissection.rows_of(packets, True)
    if context.last:
        parser.finish()
    if isinstance(dissection, KernelDissection):
        yield from dissection.take_back()
    counts.add(dissection)
    dissection.drop(continuing)
    yield from dissection.pass_time(context.later_ns)
    yield from dissection.finish()


def _decode_share(
    spec: JobSpec, flows: SharedFlows, number: int, counts: DecodeCounts
) -> Iterator[ReleasedRows]:
    """The rows of a share."""
    make = KernelDissection if serves(spec.tables, spec.options) else Dissection
    keys, share = spec.key_logs(), flows.shares.share(number)
    dissection = make(spec.tables, spec.options, key_logs=keys, blocks=True, share=share)
    packets = _packets(dissection, spec, *flows.partitions)
    yield from dissection.read(packets, together=True)
    if number:  # every share counts all packets
        dissection.parser.passed_over.clear()
    counts.add(dissection)


def _decode_timeline(
    spec: JobSpec, timeline: Timeline, counts: DecodeCounts
) -> Iterator[ReleasedRows]:
    """The rows of a timeline."""
    spec = spec.within(timeline)
    make = KernelDissection if serves(spec.tables, spec.options) else Dissection
    dissection = make(spec.tables, spec.options, key_logs=spec.key_logs(), blocks=True)
    packets = _packets(dissection, spec, *timeline.partitions)
    source = dissection.read(packets, together=True)
    yield from with_same_sessions(source) if "sessions" in spec.tables else source
    counts.add(dissection)


def _packets(dissection: Dissection, spec: JobSpec, *partitions: Partition) -> Iterator[Packets]:
    """The packets of partitions. Their size tells whether the kernel pays, with that of what the same worker
    has read before."""
    global _read_bytes
    _read_bytes += sum(partition.bytes for partition in partitions)
    if isinstance(dissection, KernelDissection):
        dissection.expected = _read_bytes
    return spec.packets(*partitions, readers=dissection.readers)


def _arrivals(
    dissection: Checkpoints,
    contexts: Sequence[ChunkContext],
    number: int,
    states: Iterable[FlowState],
) -> Iterator[ReleasedRows]:
    """Loads the states of flows that reach a partition. Returns the rows of flows that end because of packets
    in the partitions in between. States from the earliest partitions are loaded first, because the time that
    passes for later ones passes for them, too."""
    for origin, group in groupby(
        sorted(states, key=attrgetter("origin")), key=attrgetter("origin")
    ):
        dissection.load(state.state for state in group)
        between = contexts[origin + 1 : number]
        until_ns = max((context.latest_ns for context in between), default=EARLIEST_NS)
        yield from dissection.pass_time(until_ns)
    dissection.resume_after(contexts[number].before_ns)


def _segments(
    spec: JobSpec, context: ChunkContext, flows: Mapping[bytes, object]
) -> Iterator[Segment | Tick]:
    """The segments of some flows in a partition, and ticks of the others."""
    hashes = {crc32(flow) for flow in flows}
    parser = PacketParser(lambda value: value in hashes)
    parser.load(context.state)
    return parser.feed(spec.packets(context.partition))


def _exhaust(source: Iterable[object]) -> None:
    for _ in source:
        pass
