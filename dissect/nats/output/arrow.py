"""Records <-> Arrow: one schema per table, made from its declared columns.

Texts are strings, numbers int64, booleans bool, lists and maps those of Arrow; a column that may be absent
is nullable, and its meaning is its `comment`. A time is timestamp[us, UTC]: Spark refuses nanoseconds, in
Parquet files and from Python, and DuckDB has few functions for them; the `_ns` column beside it has all
digits.
Arrow holds less than Python: a number beyond 64 bits becomes the nearest that fits,
and half a surrogate pair, which JSON and file names can contain, is written `\\udXXX`.

Needs pyarrow, the extra `parquet`; it is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from operator import attrgetter
from types import ModuleType
from typing import TYPE_CHECKING, cast

from ..errors import MissingLibrary
from ..records import Column, Record, Type, Value
from ..tables import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 8192
"""How many rows to put into one batch: enough that the cost of a batch is not seen."""

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def pyarrow() -> ModuleType:
    """The library; MissingLibrary where it is not installed."""
    try:
        import pyarrow
    except ImportError:
        raise MissingLibrary("pyarrow", "parquet") from None
    module: ModuleType = pyarrow
    return module


def schema(table: str, columns: Sequence[str] | None = None) -> pa.Schema:
    """The Arrow schema of a table, or of some of its columns in their order."""
    arrow = pyarrow()
    return arrow.schema(
        [
            arrow.field(
                column.name,
                _arrow_type(column.type),
                nullable=column.optional,
                metadata={"comment": column.meaning},
            )
            for column in _chosen(table, columns)
        ]
    )


def batch(
    table: str, records: Sequence[Record], columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Records of one table as a batch with all of its columns, or some of them."""
    arrays = [
        _array(column.type, list(map(attrgetter(column.field), records)))
        for column in _chosen(table, columns)
    ]
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema(table, columns))


def values(table: str, columns: Sequence[str]) -> Callable[[Record], tuple[Value, ...]]:
    """Takes the values of some columns out of a record, as `batch_of_values` wants them."""
    fields = [column.field for column in _chosen(table, columns)]
    taken: Callable[[Record], object] = attrgetter(*fields)
    if len(columns) == 1:
        return lambda record: (cast(Value, taken(record)),)
    return cast(Callable[[Record], tuple[Value, ...]], taken)


def batch_of_values(
    table: str, rows: Sequence[tuple[Value, ...]], columns: Sequence[str]
) -> pa.RecordBatch:
    """`batch` for what `values` took out, at least one row."""
    chosen = _chosen(table, columns)
    arrays = [_array(column.type, cells) for column, cells in zip(chosen, zip(*rows))]
    return pyarrow().RecordBatch.from_arrays(arrays, schema=schema(table, columns))


def _chosen(table: str, columns: Sequence[str] | None) -> Sequence[Column]:
    known = TABLES[table].columns
    if columns is None:
        return known
    by_name = {column.name: column for column in known}
    return [by_name[name] for name in columns]


def _arrow_type(type_: Type) -> pa.DataType:
    arrow = pyarrow()
    texts = arrow.list_(arrow.field("element", arrow.string(), nullable=False))
    types = {
        Type.TEXT: arrow.string(),
        Type.INTEGER: arrow.int64(),
        Type.BOOLEAN: arrow.bool_(),
        Type.TIME: arrow.timestamp("us", "UTC"),
        Type.TEXTS: texts,
        Type.COUNTS: arrow.map_(arrow.string(), arrow.field("value", arrow.int64(), False)),
        Type.HEADERS: arrow.map_(arrow.string(), arrow.field("value", texts, False)),
    }
    return types[type_]


def _array(type_: Type, cells: Sequence[Value]) -> pa.Array:
    arrow = pyarrow()
    items: Sequence[object] = cells
    if type_ in (Type.COUNTS, Type.HEADERS):
        items = [list(cell.items()) if isinstance(cell, dict) else cell for cell in cells]
    arrow_type = _arrow_type(type_)
    if type_ is Type.TIME:
        times = _array(Type.INTEGER, cells)
        return import_module("pyarrow.compute").divide(times, 1000).cast(arrow_type)
    try:
        return arrow.array(items, arrow_type)
    except (UnicodeEncodeError, OverflowError):
        return arrow.array([_fitting(item) for item in items], arrow_type)


def _fitting(value: object) -> object:
    """The same, as Arrow can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int):
        return min(max(value, _LOWEST), _HIGHEST)
    if isinstance(value, (list, tuple)):
        return type(value)(_fitting(item) for item in value)
    return value
