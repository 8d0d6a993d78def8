"""The stages of a Spark job without Spark: captures cut, surveyed, stitched and decoded in this process."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from zlib import crc32

from dissect.nats import Options, tables
from dissect.nats.capture import CaptureReport
from dissect.nats.engine.same_sessions import with_same_sessions
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.kernel.block_records import releases_of
from dissect.nats.kernel.frame_block import FrameBlock
from dissect.nats.packet import ParserState
from dissect.nats.partition.flow_shares import divided
from dissect.nats.partition.partitions import (
    Partition,
    index_captures,
    partitions_of,
    ranges_with_secrets,
)
from dissect.nats.partition.record_index import RecordIndex, walk_chain
from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record
from dissect.nats.spark.tasks.inputs import ChunkContext, JobSpec, SharedFlows
from dissect.nats.spark.tasks.stages import (
    DecodeCounts,
    FlowChunk,
    FlowState,
    FlowSurvey,
    SurveyResult,
    chunk_contexts,
    decode,
    flow_chunks,
    needs_resurvey,
)
from dissect.nats.spark.tasks.stages import place_of as place_among
from dissect.nats.spark.tasks.stages import sample, stitch, survey

from tests.support.records import place_of

TABLES = tuple(tables.FROM_ENGINE)
SHARES = 3


def indexed(paths: Sequence[str], size: int) -> list[list[RecordIndex]]:
    """The proven byte ranges of captures."""
    walked, _ = index_captures(
        paths, size, CaptureReport(), lambda chains: [walk_chain(chain) for chain in chains]
    )
    return walked


def planned(paths: Sequence[str], size: int) -> list[Partition]:
    """The partitions of captures."""
    return partitions_of(indexed(paths, size))


WORK = JobSpec(frozenset(TABLES), Options())


def surveyed(
    found: Sequence[Partition], spec: JobSpec = WORK
) -> tuple[list[SurveyResult], list[list[FlowSurvey]]]:
    """What the partitions have, and the flows in each; as often as fragments ask for it."""
    again = dict.fromkeys(range(len(found)), ParserState())
    surveys: dict[int, SurveyResult] = {}
    flows: dict[int, list[FlowSurvey]] = {}
    while again:
        for at, state in again.items():
            surveys[at], met = survey(spec, found[at], place_among(at, len(found)), state)
            flows[at] = list(met)
        again = needs_resurvey([*surveys.values()])
    return [*surveys.values()], [*flows.values()]


def chunks_of(flows: Sequence[Sequence[FlowSurvey]]) -> list[FlowChunk]:
    """The chunks of flows that go on after them."""
    every = [(number, met) for number, some in enumerate(flows) for met in some]
    return sorted(
        flow_chunks(sorted(every, key=lambda each: (each[1].flow, each[0]))),
        key=lambda chunk: (chunk.number, chunk.flow),
    )


def share_of(flow: bytes, shares: int) -> int:
    """The share to which a flow belongs: the same as Spark's `crc32(flow) % shares`."""
    return crc32(flow) % shares


def stitched(
    spec: JobSpec, found: Sequence[ChunkContext], chunks: Iterable[FlowChunk]
) -> list[FlowState]:
    """The states, share by share."""
    in_order = sorted(chunks, key=lambda chunk: (chunk.number, chunk.flow))
    return [
        state
        for share in range(SHARES)
        for state in stitch(spec, found, [v for v in in_order if share_of(v.flow, SHARES) == share])
    ]


def in_partitions(
    paths: Sequence[str],
    size: int,
    tables: Collection[str] = TABLES,
    options: Options = Options(),
) -> list[Record]:
    """The rows of captures that are cut into byte ranges of `size` bytes, in order."""
    walked = indexed(paths, size)
    found = partitions_of(walked)
    spec = JobSpec(frozenset(tables), options, secrets=ranges_with_secrets(walked))
    surveys, flows = surveyed(found, spec)
    known = chunk_contexts(found, surveys)
    chunks = chunks_of(flows)
    states = stitched(spec, known, chunks)
    released: list[ReleasedRows] = []
    for number in range(len(known)):
        coming = [state for state in states if state.number == number]
        continuing = {chunk.flow for chunk in chunks if chunk.number == number}
        released += decode(spec, known, number, coming, continuing, DecodeCounts())
    return joined_rows(released)


def in_shares(
    paths: Sequence[str], size: int, count: int, tables: Collection[str] = TABLES
) -> list[Record]:
    """The rows of captures whose flows are divided into shares, in order."""
    walked = indexed(paths, size)
    found = partitions_of(walked)
    spec = JobSpec(frozenset(tables), Options(), secrets=ranges_with_secrets(walked))
    flows = SharedFlows(found, divided([sample(spec, partition) for partition in found], count))
    return joined_rows(
        some
        for number in range(count)
        for some in decode(spec, flows, number, (), (), DecodeCounts())
    )


def joined_rows(released: Iterable[ReleasedRows]) -> list[Record]:
    """The rows of all tasks, with sessions that name each other, in order."""
    whole = with_same_sessions(released)
    return ordered(row for some in whole for row in as_records(some.records))


def as_records(released: Iterable[Record]) -> Iterator[Record]:
    """The records, with those of frames in place of their blocks."""
    for record in released:
        if isinstance(record, FrameBlock):
            for rows in releases_of(record):
                yield from rows.records
        else:
            yield record


def in_one(
    paths: Sequence[str], tables: Collection[str] = TABLES, options: Options = Options()
) -> list[Record]:
    """The rows that a single machine gives, in order."""
    return ordered(records(paths, tables, options))


def ordered(rows: Iterable[Record]) -> list[Record]:
    """Rows of all tables in an order of their own; only equal ones share a place."""
    return sorted(rows, key=lambda row: (row.__class__.__name__, place_of(row)))
