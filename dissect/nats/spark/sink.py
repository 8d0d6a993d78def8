"""The interface of a sink for tables, in three steps.

    run = sink.begin("b7d0...")       # on the driver: makes room for one run
    make = sink.writer(run)           # on the driver; `make` goes to the tasks
    writer = make(3, ["frames"])      # in a task: for the partition with this number
    writer.add("frames", batch)       # a pyarrow.RecordBatch with all columns of the table
    writer.close()                    # then `writer.written` goes back to the driver
    sink.publish(run, ["frames"], written, summary)
    sink.discard(run)                 # in place of publish, if the run failed

Files of a task are not visible before `publish`. `publish` uses only the files in `written`, because a task
may fail and run again. `output.Folder` writes Parquet files into a folder. `iceberg.IcebergSink` and
`delta.DeltaSink` write tables of Iceberg and of Delta Lake: their `publish` commits the files that the tasks
wrote, and keeps the rows of other captures (`replaced_runs`). The output of a command (`output.sink`)
has the same steps, but its own protocol, because it is one open stream of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from ..errors import SparkError
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


def one_name(capture: str) -> str:
    """A capture by one name: s3a:// and s3:// are the same."""
    return f"s3{capture[3:]}" if capture.lower().startswith(("s3a:", "s3n:")) else capture


def replaced_runs(
    out: str, earlier: Mapping[str, Iterable[str]], captures: Iterable[str]
) -> list[str]:
    """The earlier runs whose rows a run over these captures replaces; `earlier` has the captures of each run,
    all by `one_name`. Raises SparkError if the run has only some of the captures of one, because the rows of
    the others would be lost."""
    now = set(captures)
    replaced = []
    for run, read in earlier.items():
        before = set(read)
        lacking = sorted(before - now)
        if not lacking:
            replaced.append(run)
        elif len(lacking) < len(before):
            raise SparkError(
                f"{out}: an earlier run has read some of these captures together with {lacking[0]}",
                "name all of its captures, or none",
            )
    return replaced
