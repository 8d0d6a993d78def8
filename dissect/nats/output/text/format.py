"""Text for people: one line per frame, aligned tables for all else.

On a terminal, tables fit its width. With `--columns`, the chosen columns are shown as they are in every other
format, aligned.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from ...schema.declaration import TextColumn, Type
from ...schema.records import Record
from ...tables import TABLES
from ..arrow.types import pyarrow
from ..arrow.values import query_rows
from ..csv_lines import column_cells, query_cell
from ..writer import Layout, LineWriter, OutputFormat, QueryFormat, Render
from .lines import frame_lines
from .table import GridWriter

if TYPE_CHECKING:
    import pyarrow as pa

_USUAL = 12  # the width of a column whose values are not known yet


class Text:
    """Tables and lines for people."""

    meaning = "for people"
    binary = False

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """Lines for frames, an aligned table for every other table and for chosen columns."""
        if layout.columns is not None:
            return _chosen(table, layout.columns, layout)
        columns = TABLES[table].text
        if not columns:
            return OutputFormat(frame_lines(layout.terminal), LineWriter)
        return OutputFormat(_cells(columns), _grid(columns, layout))

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """An aligned table."""
        fields = tuple(map(_query_field, columns))
        return QueryFormat(_query_cells, _grid(fields, layout._replace(live=False)))


def _grid(fields: tuple[TextColumn, ...], layout: Layout) -> partial[GridWriter]:
    return partial(GridWriter, fields=fields, look=layout.terminal, live=layout.live)


def _cells(columns: Sequence[TextColumn]) -> Render:
    """The function that makes the cells of a record."""
    makers = [column.cell for column in columns]

    def cells(record: Record) -> tuple[str, ...]:
        return tuple([cell(record) for cell in makers])

    return cells


def _chosen(table: str, columns: tuple[str, ...], layout: Layout) -> OutputFormat:
    types = {column.name: column.type for column in TABLES[table].columns}
    numbers = [types[name] is Type.INTEGER for name in columns]
    fields = tuple(
        TextColumn(name, _USUAL, right=number, may_cut=not number, always=True)
        for name, number in zip(columns, numbers)
    )
    return OutputFormat(_texts(table, columns), _grid(fields, layout))


def _texts(table: str, columns: Sequence[str]) -> Render:
    cells = column_cells(table, columns)

    def texts(record: Record) -> tuple[str, ...]:
        return tuple("" if cell is None else str(cell) for cell in cells(record))

    return texts


def _query_field(column: pa.TextColumn) -> TextColumn:
    types = pyarrow().types
    number = types.is_integer(column.type) or types.is_floating(column.type)
    right = number or types.is_decimal(column.type)
    return TextColumn(column.name, _USUAL, right=right, may_cut=not right)


def _query_cells(batch: pa.RecordBatch) -> list[tuple[str, ...]]:
    cells = ((query_cell(value) for value in row) for row in query_rows(batch))
    return [tuple("" if cell is None else str(cell) for cell in row) for row in cells]
