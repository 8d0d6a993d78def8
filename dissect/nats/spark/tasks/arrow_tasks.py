"""The functions of `stages` as functions for Spark's Python workers: Arrow batches in, Arrow batches out.

A `Function` is for `DataFrame.mapInArrow`. Those of `calling`, `surveying` and `writing` return errors of
this package in place of results: if a worker raised them, the user would see pages of Java.
"""

from __future__ import annotations

import gc
import pickle
import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain, groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

from ...engine.same_sessions import without_sessions
from ...engine.session_tables import ReleasedRows
from ...errors import DissectError, OutputError
from ...output.arrow.released import add_batches
from ...output.arrow.released import batches as batches_of
from ...output.arrow.types import pyarrow
from ...output.day_files import WrittenFile
from ...packet import ParserState
from ...parallel.worker import tune_garbage_collector
from ...partition.partitions import Partition
from ...schema.declaration import LayerItem
from ..sink import NewWriter, TableWriter
from .inputs import ChunkContext, Inputs, JobSpec
from .stages import (
    DecodeCounts,
    FlowChunk,
    FlowState,
    FlowSurvey,
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

# The kind of a row in the decode's input.
RUN, STATE, CONTINUING = range(3)
# The number of rows with states in a batch. A state has some kilobytes.
_STATES = 256
# The number of the partition from which a state comes; it is stored before the state.
_ORIGIN = struct.Struct(">q")
# In the place of the flow: the row has items of sessions.
SESSIONS = b"sessions"


@dataclass(slots=True)
class Decoded:
    """The result of decoding some partitions: counts of rows by table, what was met, and bytes that are
    missing or skipped in sessions."""

    written: list[WrittenFile] = field(default_factory=list)
    rows: Counter[str] = field(default_factory=Counter)
    counts: DecodeCounts = field(default_factory=DecodeCounts)
    missing_bytes: int = 0
    skipped_bytes: int = 0

    def add(self, other: Decoded) -> None:
        """Adds another result."""
        self.written += other.written
        self.rows += other.rows
        self.counts.join(other.counts)
        self.missing_bytes += other.missing_bytes
        self.skipped_bytes += other.skipped_bytes


def calling(function: Callable[[_In], _Out], values: Sequence[_In]) -> Function:
    """Takes rows `id`; returns the results of the function for the values with these numbers."""

    def run(batches: Batches) -> Batches:
        for rows in batches:
            for number in rows.column(0).to_pylist():
                yield result_row(number, _result_or_error(lambda: function(values[number])))

    return run


def surveying(
    spec: JobSpec, partitions: Sequence[Partition], states: Mapping[int, ParserState]
) -> Function:
    """Takes rows `id`; returns rows `partition, flow, state, summary`: one per flow of the partition, and one
    without a flow that has the SurveyResult as its state."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        for rows in batches:
            for number in rows.column(0).to_pylist():
                yield from _survey(spec, partitions, number, states.get(number, ParserState()))

    return run


def _survey(
    spec: JobSpec, partitions: Sequence[Partition], number: int, initial: ParserState
) -> Batches:
    names = ["partition", "flow", "state", "summary"]
    place = place_of(number, len(partitions))
    result = _result_or_error(lambda: survey(spec, partitions[number], place, initial))
    if isinstance(result, DissectError):
        yield _batch([(number, b"", pickle.dumps(result), b"")], names)
        return
    facts, flows = result
    yield _batch([(number, b"", pickle.dumps(facts), b"")], names)
    while some := [(number, *met) for met in islice(flows, _STATES)]:
        yield _batch(some, names)


def linking() -> Function:
    """Takes rows `share, partition, flow, state, summary`, by flow and partition; returns rows for
    `stitching`."""

    def run(batches: Batches) -> Batches:
        for share, group in groupby(_surveys(batches), key=itemgetter(0)):
            chunks = flow_chunks((number, found) for _, number, found in group)
            while some := [(share, *chunk) for chunk in islice(chunks, _STATES)]:
                yield _batch(some, ["share", "partition", "flow", "following", "first", "result"])

    return run


def _surveys(batches: Batches) -> Iterator[tuple[int, int, FlowSurvey]]:
    for rows in batches:
        for share, number, *found in zip(*(column.to_pylist() for column in rows.columns)):
            yield share, number, FlowSurvey(*found)


def stitching(spec: JobSpec, contexts: Sequence[ChunkContext]) -> Function:
    """Takes rows `share, partition, flow, following, first, result`, in order; returns rows `partition,
    flow, body, read` with states."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
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
    spec: JobSpec,
    inputs: Inputs,
    wanted: Sequence[str],
    new_writer: NewWriter,
    sessions: bool = False,
) -> Function:
    """Takes rows `partition, kind, flow, body`, in order; writes the tables, and returns a row with a
    `Decoded` for all partitions of the task, which write to the same files. With `sessions`, the rows of
    sessions are neither written nor counted, but returned as items, in rows for `sessions_in`."""

    def rows(
        batches: Batches, done: Decoded, items: list[LayerItem] | None
    ) -> Iterator[ReleasedRows]:
        for number, states, continuing in states_by_partition(batches):
            source = decode(spec, inputs, number, states, continuing, done.counts)
            yield from source if items is None else without_sessions(source, items.append)

    def write(first: pa.RecordBatch, batches: Batches, items: list[LayerItem] | None) -> Decoded:
        done = Decoded()
        writer = new_writer(first.column(0)[0].as_py(), wanted)
        write_tables(rows(chain([first], batches), done, items), spec.tables, writer, wanted, done)
        return done

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        items: list[LayerItem] = []
        if (first := next(filter(len, batches), None)) is not None:
            taken = items if sessions else None
            yield result_row(0, _result_or_error(lambda: write(first, batches, taken)))
        for at in range(0, len(items), _STATES):
            packed = pickle.dumps(items[at : at + _STATES])
            yield _batch([(0, SESSIONS, packed)], ["partition", "flow", "body"])

    return run


def sessions_in(batches: Batches) -> Iterator[LayerItem]:
    """The items of sessions in the rows of `writing`."""
    for rows in batches:
        for flow, body in zip(rows.column("flow").to_pylist(), rows.column("body").to_pylist()):
            if flow == SESSIONS:
                yield from pickle.loads(body)


def write_tables(
    source: Iterable[ReleasedRows],
    tables: Collection[str],
    writer: TableWriter,
    wanted: Collection[str],
    done: Decoded,
) -> None:
    """Counts the rows of these tables, and writes the rows of the wanted ones. Adds counts, lost bytes and
    files to `done`."""

    def add(table: str, rows: pa.RecordBatch) -> None:
        done.rows[table] += len(rows)
        if table == "sessions":
            done.missing_bytes += _total(rows, "missing_bytes")
            done.skipped_bytes += _total(rows, "skipped_bytes")
        if table in wanted:
            writer.add(table, rows)

    add_batches(source, tables, add)
    writer.close()
    done.written += writer.written


def reading(spec: JobSpec, inputs: Inputs, table: str) -> Function:
    """Takes rows `partition, kind, flow, body`, in order; returns the rows of a table."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        for number, states, continuing in states_by_partition(batches):
            rows = decode(spec, inputs, number, states, continuing, DecodeCounts())
            yield from batches_of(table, rows)

    return run


def body_of(row: bytes) -> object:
    """The result of a task; raises it if it is an error."""
    result: object = pickle.loads(row)
    if isinstance(result, DissectError):
        raise result
    return result


def reduce_garbage_collection() -> None:
    """Makes this worker collect garbage as rarely as the processes of `parallel` do."""
    if not gc.get_freeze_count():
        tune_garbage_collector()


def _result_or_error(function: Callable[[], _Out]) -> _Out | DissectError:
    try:
        return function()
    except OutputError:  # may be over when Spark runs the task again
        raise
    except DissectError as error:
        return error


def states_by_partition(batches: Batches) -> Iterator[tuple[int, list[FlowState], set[bytes]]]:
    """Partitions with the states of flows that reach them, and the flows that continue after them."""
    for number, group in groupby(_rows(batches), key=lambda row: row[0]):
        states: list[FlowState] = []
        continuing: set[bytes] = set()
        for _, kind, flow, body in group:
            if kind == STATE:
                states.append(_state(number, flow, body))
            elif kind == CONTINUING:
                continuing.add(flow)
        yield number, states, continuing


def _row(state: FlowState) -> tuple[int, bytes, bytes, bool]:
    body = _ORIGIN.pack(state.origin) + state.state
    return state.number, state.flow, body, state.read


def _state(number: int, flow: bytes, body: bytes) -> FlowState:
    (origin,) = _ORIGIN.unpack_from(body)
    return FlowState(number, origin, flow, body[_ORIGIN.size :])


def _rows(batches: Batches) -> Iterator[tuple[int, int, bytes, bytes]]:
    for rows in batches:
        yield from zip(*(column.to_pylist() for column in rows.columns))


def _total(rows: pa.RecordBatch, column: str) -> int:
    """The sum of a column of integers."""
    total: int | None = import_module("pyarrow.compute").sum(rows.column(column)).as_py()
    return total or 0


def result_row(number: int, result: object) -> pa.RecordBatch:
    """A row `partition, flow, body` with the result of a task, for `body_of`."""
    return _batch([(number, b"", pickle.dumps(result))], ["partition", "flow", "body"])


def _batch(rows: Sequence[tuple[int | bytes | None, ...]], names: Sequence[str]) -> pa.RecordBatch:
    """A batch with these rows, at least one, and these columns."""
    arrow = pyarrow()
    types = dict.fromkeys(("share", "partition", "following"), arrow.int64())
    types |= dict.fromkeys(("first", "read"), arrow.bool_())
    columns = zip(names, zip(*rows))
    arrays = [arrow.array(cells, types.get(name, arrow.binary())) for name, cells in columns]
    return arrow.RecordBatch.from_arrays(arrays, names=list(names))
