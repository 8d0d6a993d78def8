"""Records <-> Arrow: one schema per table, made from its declared columns.

`arrow_types` says how values are held. A column that may be absent is nullable, and its meaning is its
`comment`.

Needs pyarrow, the extra `parquet`; it is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from ...engine.frame_runs import FrameRun
from ...engine.session_tables import ReleasedRows
from ...engine.time_order import payload_bytes
from ...kernel.frame_block import FrameBlock
from ...schema.declaration import Column
from ...schema.records import Record, Value
from ...tables import TABLES
from .frame_columns import arrays_as_released, sorted_arrays
from .types import array, arrow_type, pyarrow

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
"""The number of rows in a batch, so large that the cost per batch is negligible."""

BATCH_BYTES = 8 << 20
"""A batch with this many bytes of payloads ends with fewer rows."""


def schema(table: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of a table, or of some of its columns in their order."""
    arrow = pyarrow()
    return arrow.schema(
        [
            arrow.field(
                column.name,
                arrow_type(column.type),
                nullable=column.optional,
                metadata={"comment": column.meaning},
            )
            for column in declared(table, columns)
        ]
    )


def batch(
    table: str, records: Sequence[Record], columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Records of one table as a batch with all columns of the table, or some of them."""
    arrays = [
        array(column.type, list(map(attrgetter(column.field), records)))
        for column in declared(table, columns)
    ]
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema(table, columns))


def batch_of_runs(runs: Sequence[FrameRun], columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Like `batch`, for the frames of runs, in the order of the runs."""
    arrays, _ = arrays_as_released(runs, declared("frames", columns))
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema("frames", columns))


def batch_of_block(block: FrameBlock, columns: Sequence[str] | None = None) -> pa.RecordBatch:
    """Like `batch`, for the frames of a block, in the order of their release."""
    # Imported here, because only the kernel makes blocks, and has numpy.
    from .block_columns import arrays_of_block

    arrays, _ = arrays_of_block(block, declared("frames", columns))
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema("frames", columns))


def batches(
    table: str, lists: Iterable[Sequence[Record]], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Lists of records of one table as batches of about `BATCH_ROWS`."""
    waiting: list[Record] = []
    size = 0
    for some in lists:
        waiting += some
        size += payload_bytes(some)
        if len(waiting) >= BATCH_ROWS or size >= BATCH_BYTES:
            yield batch(table, waiting, columns)
            waiting, size = [], 0
    if waiting:
        yield batch(table, waiting, columns)


def frame_batches(
    source: Iterable[ReleasedRows], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The frames of the runs and blocks that `source` releases, in order of time, as batches."""
    chosen, names = declared("frames", columns), schema("frames", columns)
    for arrays in sorted_arrays(source, chosen, TABLES["frames"].window):
        yield pyarrow().RecordBatch.from_arrays(arrays, schema=names)


def values(table: str, columns: Sequence[str]) -> Callable[[Record], tuple[Value, ...]]:
    """A function that returns the values of some columns of a record, for `batch_of_values`."""
    fields = [column.field for column in declared(table, columns)]
    taken: Callable[[Record], object] = attrgetter(*fields)
    if len(columns) == 1:
        return lambda record: (cast(Value, taken(record)),)
    return cast(Callable[[Record], tuple[Value, ...]], taken)


def batch_of_values(
    table: str, rows: Sequence[tuple[Value, ...]], columns: Sequence[str]
) -> pa.RecordBatch:
    """Like `batch`, from values that `values` took out of one or more records."""
    chosen = declared(table, columns)
    arrays = [array(column.type, cells) for column, cells in zip(chosen, zip(*rows))]
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema(table, columns))


def declared(table: str, columns: Sequence[str] | None) -> Sequence[Column]:
    """All columns of a table, or some of them in their order."""
    known = TABLES[table].columns
    if columns is None:
        return known
    by_name = {column.name: column for column in known}
    return [by_name[name] for name in columns]
