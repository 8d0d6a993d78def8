"""The data source "nats-capture": a table of captures for `spark.read` and SQL.

    register(spark)
    spark.read.format("nats-capture").option("table", "sessions").load("captures/")

The rows are those of the command line. A data source cannot run Spark jobs itself, so flows are divided among
tasks as with `--jobs`: each of `shares` tasks reads all packets and dissects its share of the flows. This
suits captures up to some gigabytes; for larger ones there is `read`, which cuts captures into byte ranges.

`options.settings.Settings` declares its options; those of `dissect.nats.Options` are options of it, too.
`spark.readStream` gives the frames of a growing folder, see `stream`.

Files that are damaged give what can be read, and the driver names them on stderr; with `mode` FAILFAST they
end the query. Filters reach the source where Spark lets them (4.1 and later), see `pushed_filters`. Which
columns a query needs, Spark does not say: `columns` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from ...capture import CaptureReport
from ...capture.files import size_and_mtime
from ...capture.time_range import TimeRange
from ...engine.same_sessions import with_same_sessions
from ...errors import SparkError
from ...option_types import changed
from ...output.arrow.released import batches
from ...partition.byte_ranges import captures
from ...pipeline import released, timelines
from ...tables import TABLES
from ...types import Share
from ..options.settings import Settings, settings_of
from ..types import spark_schema
from .driver_warnings import Warnings, one_line_errors, warnings_of
from .pushed_filters import meets, time_range_of, with_kinds
from .stream import FolderReader, check_mode, warn

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import Filter

NAME = "nats-capture"
_PUSHING = "spark.sql.python.filterPushdown.enabled"
# The size of captures per task, and the largest number of tasks: with more of them, reading every packet in
# each task costs more than it saves.
_SHARE_BYTES = 32 << 20
_MOST_SHARES = 8


class CaptureSource(DataSource):
    """The data source "nats-capture". `warnings` is what its tasks add warnings to, and `pushing` whether the
    session lets filters reach it."""

    warnings: ClassVar[Accumulator[Warnings] | None] = None
    pushing: ClassVar[bool] = False

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return NAME

    def schema(self) -> StructType:
        """The columns of the table, or the chosen ones."""
        with one_line_errors():
            wanted = settings_of(self.options)
            return spark_schema(wanted.table, wanted.columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader of `spark.read`. Raises SparkError for an option of streams."""
        with one_line_errors():
            wanted = settings_of(self.options)
            for name in changed(wanted):
                if name in ("state", "settle"):
                    raise SparkError(
                        f"spark.read has no option {name!r}", "spark.readStream has it"
                    )
            kind = FilteringReader if self.pushing else ShareReader
            return kind(wanted, _own(self, schema).fieldNames(), self.warnings)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """The reader of `spark.readStream`."""
        with one_line_errors():
            columns = _own(self, schema).fieldNames()
            return FolderReader(settings_of(self.options), columns, self.warnings)


def source_of(spark: SparkSession) -> type[CaptureSource]:
    """The data source for a session. Lets filters reach it, unless the settings of Spark forbid that."""
    pushing = hasattr(DataSourceReader, "pushFilters")
    if pushing and spark.sparkContext.getConf().get(_PUSHING) is None:
        spark.conf.set(_PUSHING, "true")
    values = {
        "warnings": warnings_of(spark.sparkContext),
        "pushing": pushing and spark.conf.get(_PUSHING) == "true",
    }
    return type("SessionSource", (CaptureSource,), values)


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

    def __init__(
        self,
        wanted: Settings,
        columns: Sequence[str],
        warnings: Accumulator[Warnings] | None = None,
    ) -> None:
        self._wanted = wanted
        self._columns = columns
        # Sessions may name those of other shares.
        self._names_sessions = wanted.table == "sessions" and not {"same_as", "copy_of"}.isdisjoint(
            columns
        )
        self._warnings = warnings
        self._window = TimeRange()

    def partitions(self) -> list[InputPartition]:
        """One partition per share. Raises CaptureError if an input is missing or no capture."""
        wanted, report = self._wanted, CaptureReport()
        with one_line_errors():
            files = captures(wanted.paths, report)
            size = sum(size_and_mtime(path)[0] for path in files)
            if wanted.options.separate and not self._window.is_all:
                limit = wanted.options.max_expanded
                files = [path for path in files if meets(path, self._window, limit)]
        shares = wanted.shares or min(1 + size // _SHARE_BYTES, _MOST_SHARES)
        layer = TABLES[wanted.table].layer
        if (layer and layer.across) or self._names_sessions:  # its rows need all sessions
            shares = 1
        return [
            InputPartition((number, shares, files, [] if number else report.unreadable))
            for number in range(shares)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one share, as Arrow batches."""
        number, shares, files, unreadable = partition.value
        wanted = self._wanted
        report = CaptureReport(unreadable=unreadable)
        with one_line_errors():
            for timeline in timelines(files, wanted.options, report) if files else ():
                rows = released(
                    timeline,
                    [wanted.table],
                    wanted.options,
                    report,
                    Share(number, range(shares)),
                    together=True,
                    blocks=True,
                )
                named = with_same_sessions(rows) if self._names_sessions else rows
                for some in batches(wanted.table, named, self._columns):
                    yield some
                    check_mode(wanted.mode, report)
            check_mode(wanted.mode, report)
        if number == 0:
            warn(self._warnings, report)


class FilteringReader(ShareReader):
    """A `ShareReader` that filters reach."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Takes what makes it read less from the filters; Spark is to evaluate all."""
        wanted = self._wanted
        if not self._names_sessions:  # of other kinds, too
            options = with_kinds(wanted.options, wanted.table, filters)
            self._wanted = replace(wanted, options=options)
        self._window = time_range_of(wanted.table, filters)
        return filters
