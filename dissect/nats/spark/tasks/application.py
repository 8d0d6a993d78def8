"""Tables of application layers in Spark: the layers run in the tasks, on the frames of each session.

    decode    the frames that the layers read, pickled; only layers get their payloads
    shuffle   by session, in order of their numbers; for a layer across sessions, in one task, by time
    layers    the rows; or, for a grouped layer, the items from which `grouped` makes the rows

Layers that work session by session share these steps. Tasks that dissect whole flows do without them: there,
the decode makes the rows of these layers. The command line runs the same layers on the same frames in the
same order, so the rows are equal.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from ...engine.connections import ReleaseKey
from ...engine.same_sessions import session_stages, without_sessions
from ...engine.session_tables import ReleasedRows
from ...output.arrow.released import batches as batches_of
from ...output.arrow.types import pyarrow
from ...schema.declaration import ApplicationLayer, LayerFrame, LayerItem
from ...schema.records import Record
from ...tables import TABLES, layers_of
from ..sink import NewWriter
from .arrow_tasks import (
    SESSIONS,
    Batches,
    Decoded,
    Function,
    reduce_garbage_collection,
    result_row,
    sessions_in,
    states_by_partition,
    write_tables,
)
from .grouped import ITEMS, GroupedWork, item_batches, made_of_groups
from .inputs import Inputs, JobSpec
from .stages import DecodeCounts, decode
from .task_runner import TaskRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Make = Callable[[Batches], Iterator[Record]]

FRAMES = "session string, number long, ts_ns long, frame binary"
_PICKLED = 512  # frames in a batch: each may have a payload


def is_by_session(table: str) -> bool:
    """Whether the rows of a session in the table of a layer need only the frames of that session."""
    return not any(layer.across for layer in layers_of([table]))


def wanted_frames(spec: JobSpec, inputs: Inputs) -> Function:
    """Takes rows `partition, kind, flow, body`, in order; returns the frames that layers read (`FRAMES`)."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        for number, states, continuing in states_by_partition(batches):
            waiting: list[LayerFrame] = []
            for rows in decode(spec, inputs, number, states, continuing, DecodeCounts()):
                waiting += (row for row in rows.records if isinstance(row, LayerFrame))
                if len(waiting) >= _PICKLED:
                    yield _batch(waiting)
                    waiting = []
            if waiting:
                yield _batch(waiting)

    return run


def in_order(frames: DataFrame, layer: ApplicationLayer, count: int) -> DataFrame:
    """The frames of each session in one of `count` partitions, in order. For a layer with one state for all
    sessions, all frames are in one partition."""
    if layer.across and not layer.grouped:
        return frames.repartition(1).sortWithinPartitions("ts_ns", "session", "number")
    return frames.repartition(count, "session").sortWithinPartitions("session", "number")


def prepared(
    runner: TaskRunner, frames: DataFrame, tables: Sequence[str], size: int
) -> tuple[DataFrame, Make]:
    """A DataFrame, and the function that makes the rows of the tables from its partitions. The layers of
    several tables work session by session. `size` is that of the captures, in bytes."""
    first, *_ = layers_of(tables)
    count = runner.shuffle_tasks(size)
    ordered = in_order(frames, first, count)
    if first.grouped is None:
        return ordered, partial(_rows, tables)
    work = GroupedWork(runner, ordered.mapInArrow(layer_items(tables), ITEMS), count)
    last = first.grouped(work)
    return work.groups(last.stage), partial(made_of_groups, last.function)


def session_items(spec: JobSpec, inputs: Inputs) -> Function:
    """Takes rows `partition, kind, flow, body`, in order; returns the items of sessions."""

    def items(batches: Batches) -> Iterator[LayerItem]:
        for number, states, continuing in states_by_partition(batches):
            taken: list[LayerItem] = []
            source = decode(spec, inputs, number, states, continuing, DecodeCounts())
            for _ in without_sessions(source, taken.append):
                pass
            yield from taken

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        yield from item_batches(items(batches))

    return run


def size_of_session_items(written: DataFrame) -> int:
    """The bytes of the items of sessions in the rows of `writing`."""
    (found,) = written.selectExpr(
        f"sum(if(flow = X'{SESSIONS.hex()}', length(body), 0)) as bytes"
    ).collect()
    return int(found.bytes or 0)


def written_session_items(batches: Batches) -> Batches:
    """Takes the rows of `writing`; returns the items of sessions."""
    yield from item_batches(sessions_in(batches))


def prepared_sessions(runner: TaskRunner, items: DataFrame, size: int) -> tuple[DataFrame, Make]:
    """As `prepared`, for the rows of sessions, which may name each other, from their items. `size` is that of
    the items, or of the captures: no less."""
    work = GroupedWork(runner, items, runner.shuffle_tasks(size))
    last = session_stages(work)
    return work.groups(last.stage), partial(made_of_groups, last.function)


def layer_rows(table: str, make: Make) -> Function:
    """Takes the rows of the DataFrame of `prepared`; returns the rows of the table."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        yield from batches_of(table, _released(make(batches)))

    return run


def layer_files(tables: Sequence[str], make: Make, new_writer: NewWriter) -> Function:
    """Takes the rows of the DataFrame of `prepared`; writes the rows of the tables, and returns a row with a
    `Decoded`."""

    def write(batches: Batches) -> Batches:
        from pyspark import TaskContext

        reduce_garbage_collection()
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        done = Decoded()
        writer, rows = new_writer(number, tables), _released(make(batches))
        write_tables(rows, tables, writer, tables, done)
        yield result_row(number, done)

    return write


def _released(records: Iterator[Record]) -> Iterator[ReleasedRows]:
    return (ReleasedRows(ReleaseKey(0), [record]) for record in records)


def layer_items(tables: Sequence[str]) -> Function:
    """Takes `FRAMES` in order; returns the items of a grouped layer."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        yield from item_batches(_layer_rows(tables, batches))

    return run


def _rows(tables: Sequence[str], batches: Batches) -> Iterator[Record]:
    rows = {TABLES[table].row for table in tables}
    return (record for record in _layer_rows(tables, batches) if record.__class__ in rows)


def _layer_rows(tables: Sequence[str], batches: Batches) -> Iterator[Record]:
    """The records that the layers make from the frames."""
    layers = layers_of(tables)
    is_one = any(layer.across and not layer.grouped for layer in layers)
    for _, group in groupby(_frames(batches), key=lambda one: "" if is_one else one[0]):
        running = [(layer.ops, layer.start()) for layer in layers]
        for _, frame in group:
            for ops, state in running:
                if frame.op in ops:
                    yield from state.add(frame)
        for _, state in running:
            yield from state.finish()


def _frames(batches: Batches) -> Iterator[tuple[str, LayerFrame]]:
    for batch in batches:
        for session, frame in zip(
            batch.column("session").to_pylist(), batch.column("frame").to_pylist()
        ):
            yield session, pickle.loads(frame)  # `_batch` pickled it


def _batch(frames: Sequence[LayerFrame]) -> pa.RecordBatch:
    arrow = pyarrow()
    cells: Iterable[tuple[object, ...]] = (
        (
            frame.session,
            frame.number,
            frame.ts_ns,
            pickle.dumps(frame, pickle.HIGHEST_PROTOCOL),
        )
        for frame in frames
    )
    types = (arrow.string(), arrow.int64(), arrow.int64(), arrow.binary())
    arrays = [arrow.array(values, type_) for values, type_ in zip(zip(*cells), types)]
    return arrow.RecordBatch.from_arrays(arrays, names=["session", "number", "ts_ns", "frame"])
