"""The rows of a query's Arrow batches as Python values that JSON can express.

Times and intervals are written as SQL writes them, decimals become numbers, bytes become text with invalid
UTF-8 as `\\xNN`. A value that Python cannot hold (nanoseconds in a struct without pandas, years beyond 9999)
raises FormatError, which names the remedy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from ...errors import FormatError
from .types import pyarrow

if TYPE_CHECKING:
    import pyarrow as pa


def query_rows(batch: pa.RecordBatch) -> list[tuple[object, ...]]:
    """The rows of a batch, each a tuple of its values."""
    try:
        return list(zip(*map(_values, batch.schema.names, batch.columns)))
    except RecursionError:
        raise FormatError("a value is nested too deeply; select a part of it") from None


def _values(name: str, column: pa.Array) -> Sequence[object]:
    arrow = pyarrow()
    try:
        if arrow.types.is_temporal(column.type) and not arrow.types.is_interval(column.type):
            column = column.cast(arrow.string())
        is_map = arrow.types.is_map(column.type)
        return [_plain(dict(value) if is_map and value else value) for value in column.to_pylist()]
    except (ValueError, OverflowError, TypeError, arrow.ArrowException) as error:
        raise FormatError(
            f"column {name!r} ({column.type}) cannot be shown, cast it to a text: {error}"
        ) from None


def _plain(value: object) -> object:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, pyarrow().MonthDayNano):
        return _interval(*value)
    return str(value)


def _interval(months: int, days: int, nanoseconds: int) -> str:
    """An interval as DuckDB and PostgreSQL write it: `1 year 2 months 3 days 04:05:06.5`."""
    sign = -1 if months < 0 else 1
    years, rest = divmod(abs(months), 12)
    counts = (sign * years, "year"), (sign * rest, "month"), (days, "day")
    parts = [f"{count} {noun}{'s' * (abs(count) > 1)}" for count, noun in counts if count]
    if nanoseconds or not parts:
        seconds, rest_ns = divmod(abs(nanoseconds), 10**9)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        fraction = f".{rest_ns:09}".rstrip("0") if rest_ns else ""
        parts.append(f"{'-' * (nanoseconds < 0)}{clock}{fraction}")
    return " ".join(parts)
