"""What runs in a worker's Python: Arrow batches in, Arrow batches out, around the functions of `stages`.

Every function here returns one that `DataFrame.mapInArrow` takes. Errors of ours come back as values, in the
column `body`: raised in a worker they would reach the user as pages of Java.
"""

from __future__ import annotations

import gc
import pickle
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from ..engine.session_tables import Rows
from ..errors import DissectError
from ..output.arrow import pyarrow
from ..parallel import tune_garbage_collector
from ..partition.partitions import Partition
from ..records import Record, SessionRecord
from ..tables import TABLES
from .arrow import batches as batches_of
from .sink import NewWriter, Written
from .stages import (
    ChunkContext,
    FlowChunk,
    FlowSurvey,
    JobSpec,
    State,
    decode,
    flow_chunks,
    place_of,
    stitch,
    survey,
)

if TYPE_CHECKING:
    import pyarrow as pa

Batches = Iterator["pa.RecordBatch"]
Function = Callable[[Batches], Batches]

_In = TypeVar("_In")
_Out = TypeVar("_Out")

# What a row of the decode's input is.
RUN, STATE, CONTINUING = range(3)
# So many rows of states are one batch: each has kilobytes.
_STATES = 256
# In front of a state: the number of the partition that it comes from.
_ORIGIN = struct.Struct(">q")


@dataclass(slots=True)
class Decoded:
    """What the decode of some partitions did: counts by table, of what was passed over by reason, and bytes
    that sessions missed and skipped."""

    written: list[Written] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    passed_over: Counter[str] = field(default_factory=Counter)
    missing_bytes: int = 0
    skipped_bytes: int = 0

    def add(self, other: Decoded) -> None:
        """Adds what others did."""
        self.written += other.written
        self.rows += other.rows
        self.passed_over += other.passed_over
        self.missing_bytes += other.missing_bytes
        self.skipped_bytes += other.skipped_bytes


def calling(function: Callable[[_In], _Out], values: Sequence[_In]) -> Function:
    """For rows `id`: what the function gives for the value with this number."""

    def run(batches: Batches) -> Batches:
        for rows in batches:
            for number in rows.column(0).to_pylist():
                yield told_row(number, _told(lambda: function(values[number])))

    return run


def surveying(
    spec: JobSpec, partitions: Sequence[Partition], fragments: Mapping[int, bytes]
) -> Function:
    """For rows `id`: rows `partition, flow, state, summary`, one for each flow of the partition, and one
    without a flow, whose state tells the rest."""

    def run(batches: Batches) -> Batches:
        calm()
        for rows in batches:
            for number in rows.column(0).to_pylist():
                yield from _survey(spec, partitions, number, fragments.get(number, b""))

    return run


def _survey(
    spec: JobSpec, partitions: Sequence[Partition], number: int, fragments: bytes
) -> Batches:
    names = ["partition", "flow", "state", "summary"]
    place = place_of(number, len(partitions))
    told = _told(lambda: survey(spec, partitions[number], place, fragments))
    if isinstance(told, DissectError):
        yield _batch([(number, b"", pickle.dumps(told), b"")], names)
        return
    facts, flows = told
    yield _batch([(number, b"", pickle.dumps(facts), b"")], names)
    while some := [(number, *met) for met in islice(flows, _STATES)]:
        yield _batch(some, names)


def linking() -> Function:
    """For rows `share, partition, flow, state, summary`, by flow and partition: rows for `stitching`."""

    def run(batches: Batches) -> Batches:
        for share, group in groupby(_surveys(batches), key=itemgetter(0)):
            chunks = flow_chunks((number, found) for _, number, found in group)
            while some := [(share, *chunk) for chunk in islice(chunks, _STATES)]:
                yield _batch(some, ["share", "partition", "flow", "following", "first", "told"])

    return run


def _surveys(batches: Batches) -> Iterator[tuple[int, int, FlowSurvey]]:
    for rows in batches:
        for share, number, *found in zip(*(column.to_pylist() for column in rows.columns)):
            yield share, number, FlowSurvey(*found)


def stitching(spec: JobSpec, contexts: Sequence[ChunkContext]) -> Function:
    """For rows `share, partition, flow, following, first, told`, in order: rows `partition, flow, body,
    read` of states."""

    def run(batches: Batches) -> Batches:
        calm()
        for _, group in groupby(_flow_chunks(batches), key=itemgetter(0)):
            states = stitch(spec, contexts, (chunk for _, chunk in group))
            while some := list(map(_row, islice(states, _STATES))):
                yield _batch(some, ["partition", "flow", "body", "read"])

    return run


def _flow_chunks(batches: Batches) -> Iterator[tuple[int, FlowChunk]]:
    for rows in batches:
        columns = (rows.column(name).to_pylist() for name in rows.schema.names)
        for share, *chunk in zip(*columns):
            yield share, FlowChunk(*chunk)


def writing(
    spec: JobSpec, contexts: Sequence[ChunkContext], wanted: Sequence[str], new_writer: NewWriter
) -> Function:
    """For rows `partition, kind, flow, body`, in order: writes the tables, and tells what of it."""

    def one(number: int, states: list[State], continuing: set[bytes]) -> Decoded:
        done = Decoded()
        writer = new_writer(number, wanted)
        for rows in decode(spec, contexts, number, states, continuing, done.passed_over):
            for table, records in _by_table(rows, spec.tables):
                done.rows[table] += len(records)
                if table in wanted:
                    writer.add(table, records)
                if table == "sessions":
                    _count_losses(records, done)
        writer.close()
        done.written = writer.written
        return done

    def do(batches: Batches) -> Batches:
        calm()
        for number, states, continuing in inputs(batches):
            yield told_row(number, _told(lambda: one(number, states, continuing)))

    return do


def reading(spec: JobSpec, contexts: Sequence[ChunkContext], table: str) -> Function:
    """For rows `partition, kind, flow, body`, in order: the rows of a table."""

    def run(batches: Batches) -> Batches:
        calm()
        for number, states, continuing in inputs(batches):
            rows = decode(spec, contexts, number, states, continuing, Counter())
            yield from batches_of(table, _only(table, rows))

    return run


def body_of(row: bytes) -> object:
    """What a task told; raises it if it is an error."""
    told: object = pickle.loads(row)
    if isinstance(told, DissectError):
        raise told
    return told


def calm() -> None:
    """Makes this worker's process look for garbage as rarely as those of `shards` do, once."""
    if not gc.get_freeze_count():
        tune_garbage_collector()


def _told(function: Callable[[], _Out]) -> _Out | DissectError:
    try:
        return function()
    except DissectError as error:
        return error


def inputs(batches: Batches) -> Iterator[tuple[int, list[State], set[bytes]]]:
    """Stretches with the states to go on from and the flows that leave."""
    for number, group in groupby(_rows(batches), key=lambda row: row[0]):
        states: list[State] = []
        continuing: set[bytes] = set()
        for _, kind, flow, body in group:
            if kind == STATE:
                states.append(_state(number, flow, body))
            elif kind == CONTINUING:
                continuing.add(flow)
        yield number, states, continuing


def _row(state: State) -> tuple[int, bytes, bytes, bool]:
    body = _ORIGIN.pack(state.origin) + state.state
    return state.number, state.flow, body, state.read


def _state(number: int, flow: bytes, body: bytes) -> State:
    (origin,) = _ORIGIN.unpack_from(body)
    return State(number, origin, flow, body[_ORIGIN.size :])


def _rows(batches: Batches) -> Iterator[tuple[int, int, bytes, bytes]]:
    for rows in batches:
        yield from zip(*(column.to_pylist() for column in rows.columns))


def _only(table: str, source: Iterable[Rows]) -> Iterator[Rows]:
    """The rows of one table: a session that was surveyed for several makes rows of the others, too."""
    kind = TABLES[table].row
    for rows in source:
        records = [record for record in rows.records if record.__class__ is kind]
        if records:
            yield Rows(rows.release, records)


def _by_table(rows: Rows, tables: Iterable[str]) -> Iterator[tuple[str, list[Record]]]:
    for table in tables:
        kind = TABLES[table].row
        records = [record for record in rows.records if record.__class__ is kind]
        if records:
            yield table, records


def _count_losses(records: Iterable[Record], done: Decoded) -> None:
    for record in records:
        assert isinstance(record, SessionRecord)
        done.missing_bytes += record.missing_bytes
        done.skipped_bytes += record.skipped_bytes


def told_row(number: int, told: object) -> pa.RecordBatch:
    """A row `partition, flow, body` with what a task has to say, which `body_of` reads."""
    return _batch([(number, b"", pickle.dumps(told))], ["partition", "flow", "body"])


def _batch(rows: Sequence[tuple[int | bytes | None, ...]], names: Sequence[str]) -> pa.RecordBatch:
    """Rows of the columns with these names; at least one."""
    arrow = pyarrow()
    types = dict.fromkeys(("share", "partition", "following"), arrow.int64())
    types |= dict.fromkeys(("first", "read"), arrow.bool_())
    columns = zip(names, zip(*rows))
    arrays = [arrow.array(cells, types.get(name, arrow.binary())) for name, cells in columns]
    return arrow.RecordBatch.from_arrays(arrays, names=list(names))
