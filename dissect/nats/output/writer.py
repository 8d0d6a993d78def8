"""The protocol of an output format: functions that render rows, and writers that take rendered rows.

Rendering is a pure function, so that a worker process can do it; writing happens where the output is. A
format renders the rows of a declared table and, for `nats-dissect sql`, the Arrow batches of any query.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, TextIO, TypeAlias

from ..engine.session_tables import ReleasedRows
from ..errors import instead
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
    """The user's choices that do not depend on the format. `columns` are the chosen columns (None: all); with
    `live`, every row is written at once; with `csv_safe`, no CSV cell is a formula."""

    columns: tuple[str, ...] | None = None
    terminal: Terminal = PLAIN
    live: bool = False
    csv_safe: bool = False


BatchMaker = Callable[[Iterable[Sequence[Record]]], "Iterable[pa.RecordBatch]"]
FrameBatches = Callable[[Iterable[ReleasedRows]], "Iterable[pa.RecordBatch]"]


class OutputFormat(NamedTuple):
    """One format, for one table. `render` turns a record into what the writer takes; `writer` makes that
    writer on an output. A format that stores columns also has `batches`, which makes batches from lists of
    records, and for frames `frames`, which makes sorted batches from released runs. Its writer takes both.
    """

    render: Render
    writer: Callable[[TextIO], Writer]
    batches: BatchMaker | None = None
    frames: FrameBatches | None = None


class QueryFormat(NamedTuple):
    """One format, for the columns of one query. `render` takes a batch of its rows."""

    render: Callable[[pa.RecordBatch], Sequence[Rendered]]
    writer: Callable[[TextIO], Writer]


class Format(Protocol):
    """A value of `--format`; `formats.FORMATS` lists all of them.

    The help shows `meaning`. A `binary` format is never written to a terminal.
    """

    meaning: str
    binary: bool

    def table(self, table: str, layout: Layout) -> OutputFormat:
        """The format for the rows of a table. Raises MissingLibrary."""

    def query(self, columns: pa.Schema, layout: Layout) -> QueryFormat:
        """The format for the rows of a query with these columns."""


def rendered_count(rows: Sequence[Rendered]) -> int:
    """The number of these rows. Batches are not mixed with other rows."""
    if rows and not isinstance(rows[0], (str, tuple)):
        return sum(batch.num_rows for batch in rows)  # type: ignore[union-attr]  # all are batches
    return len(rows)


def first_rendered(rows: list[Rendered], count: int) -> list[Rendered]:
    """The first `count` of these rows."""
    if not rows or isinstance(rows[0], (str, tuple)):
        return rows[:count]
    found: list[Rendered] = []
    for batch in rows:
        found.append(batch.slice(0, count))  # type: ignore[union-attr]  # all are batches
        count -= rendered_count(found[-1:])
    return found


class LineWriter:
    """Writes a head, then the rendered lines."""

    def __init__(self, output: TextIO, head: str = "") -> None:
        self._output = output
        output.write(head)

    def write(self, rows: Sequence[Rendered]) -> None:
        """Writes the next lines."""
        self._output.write("".join(rows))  # type: ignore[arg-type]  # lines, by the format's own render

    def close(self) -> None:
        """Does nothing: a file of lines has no end mark."""


def column_names(table: str, layout: Layout) -> tuple[str, ...]:
    """The chosen columns, or all columns of the table, in their order."""
    return layout.columns or tuple(column.name for column in TABLES[table].columns)


def chosen_columns(table: str, names: str | None) -> tuple[str, ...] | None:
    """The columns named in `a,b`; None if no columns were chosen. Raises ValueError for a column that is
    unknown or named twice."""
    if names is None:
        return None
    known = [column.name for column in TABLES[table].columns]
    chosen = tuple(name.strip() for name in names.split(","))
    for name in chosen:
        if name not in known:
            raise ValueError(f"{table} has no column {name!r}{instead(name, it=known)}")
        if chosen.count(name) > 1:
            raise ValueError(f"column {name} is named twice")
    return chosen
