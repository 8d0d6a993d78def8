"""Arrow batches -> records: the way back, which only tests need."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from dissect.nats.schema.declaration import Type
from dissect.nats.schema.records import Record, Value
from dissect.nats.tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa


def records_of(table: str, rows: pa.RecordBatch) -> list[Record]:
    """The records in a batch that has every column of its table."""
    row = TABLES[table].row
    columns = [item for item in TABLES[table].columns if item.name == item.field]
    names = [column.name for column in columns]
    cells = [_cells(column.type, rows.column(column.name)) for column in columns]
    return [row(**dict(zip(names, values))) for values in zip(*cells)]


def _cells(type_: Type, array: pa.Array) -> list[Value]:
    cells: list[Value] = array.to_pylist()
    if type_ in (Type.COUNTS, Type.HEADERS):  # which come as lists of pairs
        return [cell and dict(cast(Iterable[tuple[str, int]], cell)) for cell in cells]
    return cells
