"""CSV: RFC 4180 with plain line ends. Absent values are empty; booleans, lists and maps are JSON.

Control characters (except tab and line ends, which quotes carry) and marks of text direction are written as
`\\xNN` and `\\uNNNN`, so that printing a CSV file does nothing to a terminal; texts that are JSON have them
as `\\uNNNN` already. With `csv_safe`, a text that a spreadsheet would take for a formula is prefixed with an
apostrophe.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, cast

from ..number_formats import iso_time
from ..schema.declaration import Type
from ..schema.records import UNPRINTABLE, Record, Value
from ..tables import TABLES
from .arrow.values import query_rows
from .json_lines import json_text
from .writer import Layout, LineWriter, OutputFormat, QueryFormat, column_names

if TYPE_CHECKING:
    import pyarrow as pa

Cell = str | int | float | None

_ESCAPED = {code: text for code, text in UNPRINTABLE.items() if code not in (9, 10, 13)}
# https://owasp.org/www-community/attacks/CSV_Injection
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class _Returning:
    """An output whose `write` returns the line, which csv.writer then returns."""

    @staticmethod
    def write(line: str) -> str:
        """Returns the line."""
        return line


_csv = csv.writer(_Returning())


def csv_line(cells: Sequence[Cell]) -> str:
    """One line. csv.writer must not end it with a plain newline itself, because then it would not quote a
    value with a carriage return."""
    line: str = _csv.writerow(cells)
    line = line.removesuffix("\r\n")
    return (line if line.isprintable() else line.translate(_ESCAPED)) + "\n"


def safe_cells(cells: Sequence[Cell]) -> list[Cell]:
    """The cells, with an apostrophe before a text that begins like a formula."""
    return [
        f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell
        for cell in cells
    ]


def column_cells(table: str, columns: Sequence[str]) -> Callable[[Record], Sequence[Cell]]:
    """The function that returns the values of columns of a record: times in ISO 8601, lists and maps as
    JSON."""
    declared = {column.name: column for column in TABLES[table].columns}
    chosen = [declared[name] for name in columns]
    # attrgetter returns a tuple only for two or more names
    get: Callable[[Record], tuple[Value, ...]] = attrgetter(
        *[column.field for column in chosen], chosen[0].field
    )
    texts: dict[Type, Callable[..., str]] = {Type.TIME: iso_time}
    texts |= dict.fromkeys((Type.BOOLEAN, Type.TEXTS, Type.COUNTS, Type.HEADERS), json_text)
    made = [(at, texts[item.type]) for at, item in enumerate(chosen) if item.type in texts]

    def cells(record: Record) -> Sequence[Cell]:
        values = list(get(record))
        del values[-1]
        for at, text in made:
            if values[at] is not None:
                values[at] = text(values[at])
        return cast(list[Cell], values)

    return cells


def query_cell(value: object) -> Cell:
    """A value of a query as one cell."""
    if isinstance(value, bool) or not (value is None or isinstance(value, (str, int, float))):
        return json_text(value)
    return value


class Csv:
    """Comma-separated values."""

    meaning = "comma-separated values"
    binary = False

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """A header with the names, then one line per record."""
        names = column_names(table, layout)
        cells = column_cells(table, names)
        safe = layout.csv_safe
        return OutputFormat(
            lambda record: csv_line(safe_cells(cells(record)) if safe else cells(record)),
            partial(LineWriter, head=csv_line(names)),
        )

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """The same for the rows of a query."""
        safe = safe_cells if layout.csv_safe else list

        def render(batch: pa.RecordBatch) -> list[str]:
            return [csv_line(safe(list(map(query_cell, row)))) for row in query_rows(batch)]

        return QueryFormat(render, partial(LineWriter, head=csv_line(safe(columns.names))))
