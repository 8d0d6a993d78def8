"""Values of columns -> Arrow arrays.

Texts are strings, numbers int64, booleans bool, lists and maps those of Arrow. A time is timestamp[us, UTC]:
Spark refuses nanoseconds, in Parquet files and from Python, and DuckDB has few functions for them; the `_ns`
column beside it has all digits. Arrow holds less than Python: a number beyond 64 bits becomes the nearest
that fits, and a lone surrogate, which JSON and file names can contain, is written `\\udXXX`.

Needs pyarrow, the extra `parquet`; it is imported with the first call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from ...errors import imported
from ...schema.declaration import Type
from ...schema.records import Value, text_of

if TYPE_CHECKING:
    import pyarrow as pa

_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def pyarrow() -> ModuleType:
    """The module pyarrow. Raises MissingLibrary if it is not installed."""
    return imported("pyarrow", "parquet")


def leave_pandas_out() -> None:
    """Keeps pyarrow from importing pandas. It would import an installed pandas with the first array that it
    makes of a list, only to check that the list is not a pandas Series. That costs the command line and each
    of its workers 0.35 s. Functions that need pandas, such as `to_pandas`, still import it."""
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)
        try:
            pyarrow().array([0])
        finally:
            sys.meta_path.remove(_NoPandas)


class _NoPandas:
    """Finds no pandas, for `sys.meta_path`."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> None:
        """Leaves other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError(name=name)


@cache
def arrow_type(type_: Type) -> pa.DataType:
    """The Arrow type of a column's type."""
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


def array(type_: Type, cells: Sequence[Value]) -> pa.Array:
    """Values of one column."""
    arrow = pyarrow()
    if type_ is Type.TIME:
        return times(array(Type.INTEGER, cells))
    items: Sequence[object] = cells
    if type_ in (Type.COUNTS, Type.HEADERS):
        items = [list(cell.items()) if isinstance(cell, dict) else cell for cell in cells]
    try:
        return arrow.array(items, arrow_type(type_))
    except (UnicodeEncodeError, OverflowError):
        return arrow.array([_fitting(item) for item in items], arrow_type(type_))


def times(numbers: pa.Array) -> pa.Array:
    """Times in nanoseconds as times."""
    compute = import_module("pyarrow.compute")
    return compute.divide(numbers, 1000).cast(arrow_type(Type.TIME))


def wire_texts(cells: Sequence[bytes | None]) -> pa.Array:
    """Bytes of the wire as texts, by `text_of`."""
    texts = [None if cell is None else text_of(cell) for cell in cells]
    return pyarrow().array(texts, arrow_type(Type.TEXT))


def clamped(number: int) -> int:
    """The nearest number of 64 bits."""
    return min(max(number, _LOWEST), _HIGHEST)


def _fitting(value: object) -> object:
    """A value as Arrow can hold it."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int):
        return clamped(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_fitting(item) for item in value)
    return value
