"""Streams the frames of a growing folder: `spark.readStream.format("nats-capture").load(folder)`.

Flows continue from file to file and from batch to batch: the states of open flows are kept in a folder of
states (option `state`, shared by driver and workers, one for each query). One task reads a batch, because
its files continue each other.

Files are read in the order of their first packets. The newest file is read when it has not changed for
`settle` seconds (60), an older one when it has not changed for five seconds. A file that begins before a file
that was read earlier is read by itself, and bytes that are added to a file after it was read are ignored:
both are logged, and counted in the offset of the stream, which `query.lastProgress` shows.

States are pickles: nobody else may write into their folder.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from ...capture import CaptureReport
from ...engine.session_tables import ReleasedRows
from ...errors import CaptureError, SparkError
from ...option_types import changed
from ...output.arrow.released import batches
from ...partition.complete_files import NewFiles, check_there
from ...partition.continued import ContinuedDissection
from ..options.settings import FAILFAST, Settings
from .driver_warnings import Warnings, one_line_errors
from .file_log import FileLog
from .state_store import StateStore

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark import Accumulator

Offset = dict[str, int]
_TABLE = "frames"
_STATE = "state-{:09}.pickle"
_FORMAT = 5  # the format of the folder of states
# Spark may ask for the last batch again, so the states at its beginning are kept.
_KEPT = 2

_INSTEAD = {
    "from_time": "filter the stream: .where(\"time >= '2026-11-21 02:01'\")",
    "until_time": "filter the stream: .where(\"time < '2026-11-21 02:01'\")",
    "shares": "one task reads what is new, since flows continue from batch to batch",
    "separate": "flows continue from file to file; read a file alone with spark.read",
}


class FolderReader(DataSourceStreamReader):
    """The reader of a stream. An offset has the number of log entries that are done, and counts of their
    files."""

    def __init__(
        self,
        wanted: Settings,
        columns: Sequence[str],
        warnings: Accumulator[Warnings] | None = None,
    ) -> None:
        if wanted.table != _TABLE:
            raise SparkError(f"a stream has no table {wanted.table}", f"it has {_TABLE} only")
        if not wanted.state:
            raise SparkError(
                "a stream needs a folder for what is open between batches",
                'name a new one beside the checkpoint: .option("state", FOLDER)',
            )
        for name in (*changed(wanted), *changed(wanted.options)):
            if name in _INSTEAD:
                raise SparkError(f"a stream has no option {name!r}", _INSTEAD[name])
        check_there(wanted.paths)
        self._wanted = wanted
        self._columns = tuple(columns)
        self._state = wanted.state
        self._warnings = warnings
        self._kept: FileLog | None = None
        self._refused: set[str] = set()

    def __getstate__(self) -> tuple[Settings, tuple[str, ...], Accumulator[Warnings] | None]:
        return self._wanted, self._columns, self._warnings

    def __setstate__(
        self, state: tuple[Settings, tuple[str, ...], Accumulator[Warnings] | None]
    ) -> None:
        FolderReader.__init__(self, *state)

    @property
    def _store(self) -> StateStore:
        return StateStore(self._state)

    def _journal(self) -> FileLog:
        if self._kept is None:
            self._kept = FileLog(self._store, f"{_FORMAT} {self._wanted.options}")
        return self._kept

    def initialOffset(self) -> Offset:
        """The offset before the first entry."""
        return _offset([])

    def latestOffset(self) -> Offset:  # type: ignore[override]  # Spark 4.0's signature; later ones accept it
        """The offset after all files that can be read now."""
        wanted = self._wanted
        journal = self._journal()
        now_ns = time.time_ns()
        entry = journal.record(wanted.paths, now_ns, wanted.settle_ns)
        if entry:
            _complain(_oddities(entry))
        for path, reason in journal.refused(now_ns, wanted.settle_ns):
            if path not in self._refused:
                self._refused.add(path)
                _complain([f"{reason}; it is not read"])
        return _offset(journal.entries())

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """One task for everything between two offsets."""
        if start == end:
            return []
        return [InputPartition((start["entries"], end["entries"]))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The frames between two offsets; saves the states of open flows."""
        begin, end = partition.value
        entries = self._journal().entries()[begin:end]
        if len(entries) != end - begin:
            raise SparkError(
                f"{self._state}: the folder of states lacks what the checkpoint goes on from",
                "put it back, or start again with another checkpoint and another folder of states",
            )
        report = CaptureReport()
        with one_line_errors():
            yield from batches(_TABLE, self._rows(begin, end, entries, report), self._columns)
            check_mode(self._wanted.mode, report)
        warn(self._warnings, report)

    def commit(self, end: Offset) -> None:
        """Deletes the states that will not be needed again."""
        store = self._store
        names = [name for name in store.names() if name.startswith("state-")]
        done = [name for name in names if name <= _STATE.format(end["entries"])]
        for name in done[:-_KEPT]:
            store.delete(name)

    def stop(self) -> None:
        """Does nothing: nothing is open."""

    def _rows(
        self, begin: int, end: int, entries: Sequence[NewFiles], report: CaptureReport
    ) -> Iterator[ReleasedRows]:
        dissection = ContinuedDissection([_TABLE], self._wanted.options, _complain_of)
        if begin:
            content = self._store.read(_STATE.format(begin))
            if content is None:
                raise SparkError(
                    f"{self._state}: the folder of states lacks the state of offset {begin}",
                    "put it back, or start again with another checkpoint and another folder of states",
                )
            dissection.load(content)
        for entry in entries:
            yield from dissection.files(entry, report)
        self._store.write(_STATE.format(end), dissection.save())


def _offset(entries: Sequence[NewFiles]) -> Offset:
    files = [one for entry in entries for one in entry.files]
    return {
        "entries": len(entries),
        "files": len(files),
        "late": sum(one.late for one in files),
        "grown": sum(len(entry.grown) for entry in entries),
    }


def _oddities(entry: NewFiles) -> Iterator[str]:
    for one in entry.files:
        if one.late:
            yield f"{one.path} came late, and is read by itself: flows do not go on into it"
    for one in entry.grown:
        yield f"{one.path} has grown since it was taken, which is not read; see option settle"


def check_mode(mode: str, report: CaptureReport) -> None:
    """Raises CaptureError if files were not read, or not to their ends, and that is to end the query."""
    if mode == FAILFAST:
        for file in report.damaged:
            raise CaptureError(
                file.path, str(file.damage), "mode PERMISSIVE reads what can be read"
            )
        for text in report.unreadable:
            raise SparkError(text)


def warn(warnings: Accumulator[Warnings] | None, report: CaptureReport) -> None:
    """Has the driver say which captures were not read, or not to their ends; or else the log of the task."""
    texts = [f"{file.path}: {file.damage}" for file in report.damaged] + report.unreadable
    if warnings is None:
        _complain(texts)
    elif texts:
        warnings.add(tuple(texts))


def _complain(texts: Iterable[str]) -> None:
    for text in texts:
        _complain_of(text)


def _complain_of(text: str) -> None:
    print(f"nats-dissect: {text}", file=sys.stderr)
