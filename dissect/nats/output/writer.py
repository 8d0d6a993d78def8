"""The protocol of an output format: functions that render rows, and writers that take rendered rows.

Rendering is a pure function, so that a worker process can do it; writing happens where the output is. A
format renders the rows of a declared table and, for `nats-dissect sql`, the Arrow batches of any query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO, TypeAlias

from ..engine.session_tables import Rows
from ..schema.records import Record, Value
from ..tables import TABLES
from .terminal import PLAIN, Terminal

if TYPE_CHECKING:
    import pyarrow as pa

Rendered: TypeAlias = "str | tuple[Value, ...] | pa.RecordBatch"
"""A row as its writer takes it: a line with its end, the cells of a text table, or values; in Parquet also a
batch of rows."""

Render = Callable[[Record], Rendered]


class Writer(Protocol):
    """Takes rendered rows, in order."""

    def write(self, rows: Sequence[Rendered]) -> None:
        """Writes the next rows."""

    def close(self) -> None:
        """Writes the end. Does not close the output."""


class Layout(NamedTuple):
    """The user's choices that do not depend on the format. `columns` are the chosen columns, None is all;
    with `live` every row is written at once; with `csv_safe` no CSV cell is a formula."""

    columns: tuple[str, ...] | None = None
    terminal: Terminal = PLAIN
    live: bool = False
    csv_safe: bool = False


Batches = Callable[[Iterable[Sequence[Record]]], "Iterable[pa.RecordBatch]"]
FrameBatches = Callable[[Iterable[Rows]], "Iterable[pa.RecordBatch]"]


class OutputFormat(NamedTuple):
    """One format, for one table. `render` makes of a record what `writer`, called with the output, takes. A
    format that stores columns also has `batches`, which makes batches of lists of records, and for frames
    `frames`, which makes them of released runs and brings them into order: its writer takes them too.
    """

    render: Render
    writer: Callable[[TextIO], Writer]
    batches: Batches | None = None
    frames: FrameBatches | None = None


class QueryFormat(NamedTuple):
    """One format, for the columns of one query. `render` takes a batch of its rows."""

    render: Callable[[pa.RecordBatch], Sequence[Rendered]]
    writer: Callable[[TextIO], Writer]


class Format(Protocol):
    """A format that `--format` names; `formats.FORMATS` lists them all.

    `meaning` explains it in the help. A `binary` format is never written to a terminal, and a file in it
    appears only when it is whole.
    """

    meaning: str
    binary: bool

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """How the rows of a table are rendered and written. Raises MissingLibrary."""

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """How the rows of a query with these columns are rendered and written."""


def rendered_count(rows: Sequence[Rendered]) -> int:
    """How many rows these are. Batches are not mixed with other rows."""
    if rows and not isinstance(rows[0], (str, tuple)):
        return sum(batch.num_rows for batch in rows)  # type: ignore[union-attr]  # all are batches
    return len(rows)


def first_rendered(rows: list[Rendered], count: int) -> list[Rendered]:
    """The first ones of these rows."""
    if not rows or isinstance(rows[0], (str, tuple)):
        return rows[:count]
    found: list[Rendered] = []
    for batch in rows:
        found.append(batch.slice(0, count))  # type: ignore[union-attr]  # all are batches
        count -= rendered_count(found[-1:])
    return found


class LineWriter:
    """Writes a head, then lines as they are."""

    def __init__(self, output: TextIO, head: str = "") -> None:
        self._output = output
        output.write(head)

    def write(self, rows: Sequence[Rendered]) -> None:
        """Writes the next lines."""
        self._output.write("".join(rows))  # type: ignore[arg-type]  # lines, by the format's own render

    def close(self) -> None:
        """Lines have no end of their own."""


def column_names(table: str, layout: Layout) -> tuple[str, ...]:
    """The chosen columns, or all of the table, in their order."""
    return layout.columns or tuple(column.name for column in TABLES[table].columns)


def chosen_columns(table: str, names: str | None) -> tuple[str, ...] | None:
    """The columns named in `a,b`, None where there is no choice. Raises ValueError for a column that the
    table does not have or that is named twice."""
    if names is None:
        return None
    known = [column.name for column in TABLES[table].columns]
    chosen = tuple(name.strip() for name in names.split(","))
    for name in chosen:
        if name not in known:
            raise ValueError(f"{table} has no column {name!r}; it has {', '.join(known)}")
        if chosen.count(name) > 1:
            raise ValueError(f"column {name} is named twice")
    return chosen
