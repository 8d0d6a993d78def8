"""Rows of tables -> Parquet files, in folders by UTC day: the layout of every folder of tables.

    DIR/frames/date=2026-03-01/part-00012-000-RUN.parquet    of a Spark job
    DIR/frames/date=2026-03-01/13-000000042.parquet          of an archive: rows from 13:00 to 14:00

The files of a day have any names. A row belongs to the day of its table's time; rows without one are in a
folder of their own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from ..tables import TABLES
from .arrow.records import schema
from .arrow.types import pyarrow
from .parquet import ParquetFile

if TYPE_CHECKING:
    import pyarrow as pa

HOUR_NS = 3600 * 10**9
DAY_NS = 24 * HOUR_NS
NO_DAY = "__HIVE_DEFAULT_PARTITION__"
"""The day of rows without a time, as Hive writes it."""
HOUR_FILE = re.compile(r"(?P<hour>\d\d)-(?P<batch>\d{9,})(-\d+)?\.parquet")
"""What `hour_file` makes."""
_FILES = 32  # most files that are open together
_FILE_BYTES = 1 << 30  # S3 copies at most 5 GiB at once


class WrittenFile(NamedTuple):
    """A file with rows of one table: `name` is its path in the table, `path` its present path."""

    table: str
    name: str
    path: str
    rows: int


NewFile = Callable[[str, int | None], tuple[WrittenFile, BinaryIO]]
"""Opens a new file for a table and a period, of which it gets the first time, or None for rows without one.
Returns what `written` says of the file, and its stream."""


class DayFiles:
    """Writes rows to files: one for each table and period, with the rows in the order in which they are
    added. A period is a day, or divides one. After `close`, `written` lists the files."""

    def __init__(self, period_ns: int, new: NewFile) -> None:
        self.written: list[WrittenFile] = []
        self._period_ns = period_ns
        self._new = new
        self._open: dict[tuple[str, int | None], _OpenFile] = {}

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Writes rows to the files of their periods."""
        for first_ns, some in _by_period(rows, TABLES[table].time, self._period_ns):
            one = self._open.get((table, first_ns))
            if one is None:
                if len(self._open) >= _FILES:  # only captures with wrong clocks have this many
                    self.close()
                one = self._open[table, first_ns] = _OpenFile(*self._new(table, first_ns))
            one.add(some)
            if one.bytes >= _FILE_BYTES:
                self.written.append(self._open.pop((table, first_ns)).close())

    def close(self) -> None:
        """Completes the files."""
        self.written += [one.close() for one in self._open.values()]
        self._open.clear()


class _OpenFile:
    """A file of one table that is being written."""

    def __init__(self, where: WrittenFile, stream: BinaryIO) -> None:
        self._where = where
        self._stream = stream
        self._file = ParquetFile(stream, schema(where.table))
        self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        """Adds rows."""
        self._file.add(rows)
        self._count += len(rows)

    @property
    def bytes(self) -> int:
        """The number of bytes that are written."""
        return self._stream.tell()

    def close(self) -> WrittenFile:
        """Completes the file."""
        self._file.close()
        self._stream.close()
        return self._where._replace(rows=self._count)


def hour_file(first_ns: int | None, batch: int, serial: int) -> str:
    """The name of a file of an archive, with rows from this time on: the hour, the batch that wrote it, and a
    number, if that wrote several."""
    hour = 0 if first_ns is None else first_ns % DAY_NS // HOUR_NS
    return f"{hour:02}-{batch:09}{f'-{serial}' if serial else ''}.parquet"


def day_folder(ts_ns: int | None) -> str:
    """The name of the folder for rows of this time."""
    if ts_ns is None:
        return f"date={NO_DAY}"
    days = ts_ns // DAY_NS
    return f"date={date.fromordinal(date(1970, 1, 1).toordinal() + days).isoformat()}"


def begin_of(folder: str) -> int | None:
    """The first time of the day of a folder that `day_folder` names; None for another name."""
    try:
        day = date.fromisoformat(folder.removeprefix("date=")).toordinal()
    except ValueError:
        return None
    return (day - date(1970, 1, 1).toordinal()) * DAY_NS


def _by_period(
    rows: pa.RecordBatch, time: str, period_ns: int
) -> Iterable[tuple[int | None, pa.RecordBatch]]:
    """The first time of each period, and its rows in their order; `time` is the column with the times in
    nanoseconds."""
    times = rows.column(time)
    if not times.null_count:
        range_ns = import_module("pyarrow.compute").min_max(times)
        first, last = (_begin(range_ns[key].as_py(), period_ns) for key in ("min", "max"))
        if first == last:
            return [(first, rows)]
    places: dict[int | None, list[int]] = {}
    for place, ts_ns in enumerate(times.to_pylist()):
        places.setdefault(_begin(ts_ns, period_ns), []).append(place)
    return [(first_ns, rows.take(pyarrow().array(some))) for first_ns, some in places.items()]


def _begin(ts_ns: int | None, period_ns: int) -> int | None:
    """The first time of the period that contains a time; None without a time."""
    return None if ts_ns is None else ts_ns // period_ns * period_ns
