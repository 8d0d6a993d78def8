"""Where a job writes its tables: three steps, for whatever keeps tables.

    run = sink.begin("b7d0...")       # on the driver: makes room for one run
    make = sink.writer(run)           # on the driver; `make` goes to the tasks
    writer = make(3, ["frames"])      # in a task: for the chunk with this number
    writer.add("frames", records)
    writer.close()                    # then `writer.written` goes back to the driver
    sink.publish(run, ["frames"], written, summary)

Nothing that a task wrote is visible before `publish`, and `publish` takes only what it is given: tasks may
fail and run twice. Parquet files in a folder are `output.Folder`; a table format such as Iceberg or Delta is
another class, in one file, whose `publish` commits the files that the tasks wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from ..records import Record


class Written(NamedTuple):
    """A file that a task wrote: `name` is its place in the table, `path` where it is now."""

    table: str
    name: str
    path: str
    rows: int


class TableWriter(Protocol):
    """Writes the rows of one chunk, in a task."""

    written: list[Written]

    def add(self, table: str, records: Sequence[Record]) -> None:
        """Takes rows of one table."""

    def close(self) -> None:
        """Completes the files; `written` lists them."""


NewWriter = Callable[[int, Iterable[str]], TableWriter]


class TableSink(Protocol):
    """Keeps tables. All methods raise DissectError."""

    def check(self) -> None:
        """Raises SparkError where something else would be overwritten. Called before the work begins."""

    def begin(self, run: str) -> str:
        """Prepares a run with this name; returns what `writer` and `publish` are given for it."""

    def writer(self, run: str) -> NewWriter:
        """Makes the writers of tasks, from a chunk's number and its tables. It is pickled."""

    def publish(
        self, run: str, tables: Iterable[str], written: Iterable[Written], mark: object
    ) -> None:
        """Replaces the tables by the files of a run, all at once as far as the sink can. `mark` is the
        summary of the job, for JSON."""
