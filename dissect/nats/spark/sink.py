"""The interface of a sink for tables, in three steps.

    run = sink.begin("b7d0...")       # on the driver: makes room for one run
    make = sink.writer(run)           # on the driver; `make` goes to the tasks
    writer = make(3, ["frames"])      # in a task: for the partition with this number
    writer.add("frames", batch)       # a pyarrow.RecordBatch with all columns of the table
    writer.close()                    # then `writer.written` goes back to the driver
    sink.publish(run, ["frames"], written, summary)
    sink.discard(run)                 # in place of publish, if the run failed

Files of a task are not visible before `publish`. `publish` uses only the files in `written`, because a task
may fail and run again. `output.Folder` writes Parquet files into a folder, `iceberg.IcebergSink` tables of
Iceberg, whose `publish` commits the files that the tasks wrote. The output of a command
(`output.sink`) has the same steps, but its own protocol, because it is one open stream of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ..output.day_files import WrittenFile

if TYPE_CHECKING:
    import pyarrow as pa


class TableWriter(Protocol):
    """Writes the rows of one partition, in a task."""

    written: list[WrittenFile]

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Adds rows of one table, in order of time as far as its window allows."""

    def close(self) -> None:
        """Completes the files; `written` lists them."""


NewWriter = Callable[[int, Iterable[str]], TableWriter]


class TableSink(Protocol):
    """Stores tables. All methods raise DissectError."""

    def check(self) -> None:
        """Raises SparkError if other data would be overwritten. Called before the job begins."""

    def begin(self, run: str) -> str:
        """Prepares a run with this name; returns the value to pass to `writer` and `publish`."""

    def writer(self, run: str) -> NewWriter:
        """The factory of writers for tasks, called with the number of a partition and its tables. It is
        pickled."""

    def publish(
        self,
        run: str,
        tables: Iterable[str],
        written: Iterable[WrittenFile],
        mark: Mapping[str, object],
    ) -> None:
        """Replaces the tables by the files of a run, atomically as far as the sink can. `mark` is the
        summary of the job, for JSON."""

    def discard(self, run: str) -> None:
        """Removes what a run that failed has left. Raises nothing because of what cannot be removed."""
