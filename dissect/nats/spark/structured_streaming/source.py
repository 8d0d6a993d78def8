"""The data source "nats-capture": a table of captures for `spark.read` and SQL.

    register(spark)
    spark.read.format("nats-capture").option("table", "sessions").load("captures/")

The rows are those of the command line. A data source cannot run Spark jobs itself, so flows are divided among
tasks as with `--jobs`: each of `shares` tasks reads all packets and dissects its share of the flows. This
suits captures up to some gigabytes; for larger ones there is `read`, which cuts captures into byte ranges.

`options.settings.Settings` declares its options; those of `dissect.nats.Options` are options of it, too.
`spark.readStream` gives the frames of a growing folder, see `stream`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from ...capture import CaptureReport
from ...capture.files import size_and_mtime
from ...engine.same_sessions import with_same_sessions
from ...errors import SparkError
from ...option_types import changed
from ...output.arrow.released import batches
from ...partition.byte_ranges import captures
from ...pipeline import released, timelines
from ...tables import TABLES
from ..options.settings import Settings, settings_of
from ..types import spark_schema
from .stream import FolderReader

if TYPE_CHECKING:
    import pyarrow as pa

NAME = "nats-capture"
# The size of captures per task, and the largest number of tasks: with more of them, reading every packet in
# each task costs more than it saves.
_SHARE_BYTES = 32 << 20
_MOST_SHARES = 8


class CaptureSource(DataSource):
    """The data source "nats-capture"."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table, or the chosen ones."""
        wanted = settings_of(self.options)
        return spark_schema(wanted.table, wanted.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of `spark.read`. Raises SparkError for an option of streams."""
        wanted = settings_of(self.options)
        for name in changed(wanted):
            if name in ("state", "settle"):
                raise SparkError(f"spark.read has no option {name!r}", "spark.readStream has it")
        return ShareReader(wanted, _own(self, schema).fieldNames())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of `spark.readStream`."""
        return FolderReader(settings_of(self.options), _own(self, schema).fieldNames())


def _own(source: CaptureSource, schema: StructType) -> StructType:
    """Returns the source's own schema. Raises SparkError for another one: types cannot be chosen."""
    ours = source.schema()
    if schema.simpleString() != ours.simpleString() or [field.nullable for field in schema] != [
        field.nullable for field in ours
    ]:
        raise SparkError(
            "nats-capture has a schema of its own",
            'choose columns: .option("columns", "op,subject")',
        )
    return ours


class ShareReader(DataSourceReader):
    """Reads a table by shares of its flows."""

    def __init__(self, wanted: Settings, columns: Sequence[str]) -> None:
        self._wanted = wanted
        self._columns = columns
        # Sessions may name those of other shares.
        self._names_sessions = wanted.table == "sessions" and not {"same_as", "copy_of"}.isdisjoint(
            columns
        )

    def partitions(self) -> list[InputPartition]:
        """One partition per share. Raises CaptureError if an input is missing or no capture."""
        size = sum(
            size_and_mtime(path)[0] for path in captures(self._wanted.paths, CaptureReport())
        )
        shares = self._wanted.shares or min(1 + size // _SHARE_BYTES, _MOST_SHARES)
        layer = TABLES[self._wanted.table].layer
        if (layer and layer.across) or self._names_sessions:  # its rows need all sessions
            shares = 1
        return [InputPartition((number, shares)) for number in range(shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share, as Arrow batches."""
        share: tuple[int, int] = partition.value
        wanted = self._wanted
        report = CaptureReport()
        for timeline in timelines(wanted.paths, wanted.options, report):
            rows = released(
                timeline, [wanted.table], wanted.options, report, share, together=True, runs=True
            )
            named = with_same_sessions(rows) if self._names_sessions else rows
            yield from batches(wanted.table, named, self._columns)
        if share[0] == 0:
            complain(report)


def complain(report: CaptureReport) -> None:
    """Writes to the task's log which captures were not read, or not to their ends."""
    for text in [f"{file.path}: {file.damage}" for file in report.damaged] + report.unreadable:
        print(f"nats-dissect: {text}", file=sys.stderr)
