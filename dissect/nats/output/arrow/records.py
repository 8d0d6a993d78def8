"""Records <-> Arrow: one schema per table, made from its declared columns.

`arrow_types` says how values are held. A column that may be absent is nullable, and its meaning is its
`comment`.

Needs pyarrow, the extra `parquet`; it is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from ...engine.session_tables import ReleasedRows
from ...engine.time_order import TimeOrder, payload_bytes, placed
from ...kernel.frame_block import FrameBlock
from ...schema.declaration import Column
from ...schema.records import FrameRecord, Record, Value
from ...tables import TABLES
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
    arrays = arrays_of(records, declared(table, columns))
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema(table, columns))


def arrays_of(records: Sequence[Record], columns: Iterable[Column]) -> list[pa.Array]:
    """These columns of records."""
    return [array(each.type, list(map(attrgetter(each.field), records))) for each in columns]


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
    source: Iterable[ReleasedRows],
    columns: Sequence[str] | None = None,
    reach: int = TABLES["frames"].window,
) -> Iterator[pa.RecordBatch]:
    """The frames that `source` releases, as records or blocks, in order of time within a window of `reach`
    rows, as batches."""
    releases = iter(source)
    line = TimeOrder[Record](reach)
    first: ReleasedRows | None = None  # with a block

    def records() -> Iterator[list[Record]]:
        nonlocal first
        for rows in releases:
            if isinstance(rows.records[0], FrameBlock):
                first = rows
                return
            yield line.put(placed(rows.records), payload_bytes(rows.records))
        yield line.flush()

    yield from batches("frames", records(), columns)
    if first is None:
        return
    # Imported here, because only the kernel makes blocks, and has numpy.
    from .block_window import BlockWindow

    window = BlockWindow(declared("frames", columns), reach)
    window.begin(cast("list[FrameRecord]", line.waiting))
    for arrays in window.in_order(chain([first], releases)):
        yield pyarrow().RecordBatch.from_arrays(arrays, schema=schema("frames", columns))


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
