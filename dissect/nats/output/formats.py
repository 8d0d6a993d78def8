"""How rows of a table look: a pure function from a record to its line or cells, and the writer that takes
what it made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TextIO

from .arrow import pyarrow, values
from .lines import (
    LineWriter,
    Render,
    Writer,
    chosen_columns,
    csv_line,
    csv_lines,
    field_lines,
    json_lines,
)
from .parquet import ParquetWriter
from .terminal import Terminal
from .text_columns import GRIDS
from .text_lines import frame_lines
from .text_table import GridWriter


class OutputFormat(NamedTuple):
    """`render` needs nothing but its record; `writer` is made for the output when it is ready, and takes
    what `render` made, in order."""

    render: Render
    writer: Callable[[TextIO], Writer]


def format_of(
    table: str, name: str, columns: str | None, look: Terminal, live: bool
) -> OutputFormat:
    """The form that the user chose. Raises ValueError for a column that the table does not have, and
    MissingLibrary for a format that needs one."""
    render = render_of(table, name, columns, look)
    if name == "jsonl":
        return OutputFormat(render, LineWriter)
    names = chosen_columns(table, columns)
    if name == "parquet":
        pyarrow()  # so that its lack shows before a capture is read
        return OutputFormat(render, partial(ParquetWriter, table=table, columns=names))
    if name == "csv":
        return OutputFormat(render, partial(LineWriter, head=csv_line(names)))
    if columns is not None:
        return OutputFormat(render, partial(LineWriter, head="\t".join(names) + "\n"))
    if table == "frames":
        return OutputFormat(render, LineWriter)
    return OutputFormat(render, partial(GridWriter, fields=GRIDS[table][0], look=look, live=live))


def render_of(table: str, name: str, columns: str | None, look: Terminal) -> Render:
    """The `render` of a form, by arguments that another process can be sent."""
    names = chosen_columns(table, columns)
    if name == "jsonl":
        return json_lines(table, names)
    if name == "parquet":
        return values(names)
    if name == "csv":
        return csv_lines(table, names)
    if columns is not None:
        return field_lines(table, names)
    return frame_lines(look) if table == "frames" else GRIDS[table][1]
