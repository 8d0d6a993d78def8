"""Tables of application layers in Spark: the layer runs in the tasks, on the frames of each session.

    decode    the frames that the layer wants, pickled: their payloads go no further than the layer
    shuffle   by session, in order of their numbers; for a layer across sessions in one task, by time
    layer     the rows

The command line runs the same layer on the same frames in the same order, so the rows are equal.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from ..declaration import ApplicationLayer, LayerFrame
from ..engine.connections import SortKey
from ..engine.session_tables import Rows
from ..output.arrow import pyarrow
from ..tables import TABLES
from .arrow import batches as batches_of
from .arrow_tasks import Batches, Decoded, Function, inputs, reduce_garbage_collection, result_row
from .sink import NewWriter
from .stages import ChunkContext, JobSpec, decode

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

FRAMES = "session string, number long, ts_ns long, frame binary"
_PICKLED = 512  # frames in a batch: each may have a payload


def layer_of(table: str) -> ApplicationLayer | None:
    """The application layer that makes a table, if any."""
    return TABLES[table].layer


def wanted_frames(spec: JobSpec, contexts: Sequence[ChunkContext]) -> Function:
    """Takes rows `partition, kind, flow, body`, in order; returns the frames that layers want, as
    `FRAMES`."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        for number, states, continuing in inputs(batches):
            waiting: list[LayerFrame] = []
            for rows in decode(spec, contexts, number, states, continuing, Counter()):
                waiting += (row for row in rows.records if isinstance(row, LayerFrame))
                if len(waiting) >= _PICKLED:
                    yield _batch(waiting)
                    waiting = []
            if waiting:
                yield _batch(waiting)

    return run


def in_order(frames: DataFrame, layer: ApplicationLayer) -> DataFrame:
    """The frames of each session in one partition, in order; for a layer across sessions, all frames."""
    if layer.across:
        return frames.repartition(1).sortWithinPartitions("ts_ns", "session", "number")
    return frames.repartition("session").sortWithinPartitions("session", "number")


def layer_rows(table: str) -> Function:
    """Takes `FRAMES` in order; returns the rows of the table."""

    def run(batches: Batches) -> Batches:
        reduce_garbage_collection()
        yield from batches_of(table, _rows(table, batches))

    return run


def layer_files(table: str, new_writer: NewWriter) -> Function:
    """Takes `FRAMES` in order; writes the rows of the table and returns what was written."""

    def write(batches: Batches) -> Batches:
        from pyspark import TaskContext

        reduce_garbage_collection()
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        done = Decoded()
        writer = new_writer(number, [table])
        for rows in _rows(table, batches):
            writer.add(table, rows.records)
            done.rows[table] += len(rows.records)
        writer.close()
        done.written = writer.written
        yield result_row(number, done)

    return write


def _rows(table: str, batches: Batches) -> Iterator[Rows]:
    layer, row = layer_of(table), TABLES[table].row
    assert layer
    for _, group in groupby(_frames(batches), key=lambda one: "" if layer.across else one[0]):
        for record in layer.rows(frame for _, frame in group):
            if record.__class__ is row:
                yield Rows(SortKey(0), [record])


def _frames(batches: Batches) -> Iterator[tuple[str, LayerFrame]]:
    for batch in batches:
        for session, frame in zip(
            batch.column("session").to_pylist(), batch.column("frame").to_pylist()
        ):
            yield session, pickle.loads(frame)  # what `_batch` made


def _batch(frames: Sequence[LayerFrame]) -> pa.RecordBatch:
    arrow = pyarrow()
    cells: Iterable[tuple[object, ...]] = (
        (frame.session, frame.number, frame.ts_ns, pickle.dumps(frame, pickle.HIGHEST_PROTOCOL))
        for frame in frames
    )
    types = (arrow.string(), arrow.int64(), arrow.int64(), arrow.binary())
    arrays = [arrow.array(values, type_) for values, type_ in zip(zip(*cells), types)]
    return arrow.RecordBatch.from_arrays(arrays, names=["session", "number", "ts_ns", "frame"])
