"""How rows of a table look: a pure function from a record to its line or cells, and the writer that takes
what it made."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TextIO

from .cells import GRIDS
from .grid import GridWriter
from .look import Look
from .parquet import ParquetWriter
from .reports import frame_lines
from .tables import pyarrow, values
from .writers import (
    LineWriter,
    Render,
    Writer,
    chosen_columns,
    csv_line,
    csv_lines,
    field_lines,
    json_lines,
)


class Form(NamedTuple):
    """`render` needs nothing but its record; `writer` is made for the output when it is ready, and takes
    what `render` made, in order."""

    render: Render
    writer: Callable[[TextIO], Writer]


def form_of(table: str, name: str, columns: str | None, look: Look, live: bool) -> Form:
    """The form that the user chose. Raises ValueError for a column that the table does not have, and
    MissingLibrary for a format that needs one."""
    render = render_of(table, name, columns, look)
    if name == "jsonl":
        return Form(render, LineWriter)
    names = chosen_columns(table, columns)
    if name == "parquet":
        pyarrow()  # so that its lack shows before a capture is read
        return Form(render, partial(ParquetWriter, table=table, columns=names))
    if name == "csv":
        return Form(render, partial(LineWriter, head=csv_line(names)))
    if columns is not None:
        return Form(render, partial(LineWriter, head="\t".join(names) + "\n"))
    if table == "frames":
        return Form(render, LineWriter)
    return Form(render, partial(GridWriter, fields=GRIDS[table][0], look=look, live=live))


def render_of(table: str, name: str, columns: str | None, look: Look) -> Render:
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
