"""One of several processes: dissects its share of the flows, and sends batches of the rows.

Each worker reads all packets. A batch has entries, each with the sort key of the packet that completed its
rows; an entry without rows reports progress. Frames that a database takes come as columns.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ..capture import CaptureReport
from ..engine.connections import ReleaseKey
from ..engine.session_tables import ReleasedRows
from ..engine.time_order import Placed, payload_bytes, placed
from ..errors import DissectError, WorkerError
from ..kernel import load
from ..options import Options, Payload
from ..output.arrow.records import batch
from ..output.arrow.types import leave_pandas_out
from ..output.duckdb import Where
from ..output.sink import say
from ..pipeline import RowFilter, narrow, released
from ..schema.records import FrameRecord, Record
from ..types import Share

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    import pyarrow as pa

Row = TypeVar("Row")

# A worker reports its progress, and sends a batch, after this many packets: a fraction of a second.
_PROGRESS_PACKETS = 4096
_BATCH_ROWS = 2048
_BATCH_BYTES = 1 << 20

ReleasedEntry = tuple[tuple[int, int, str], int, list[Placed[Row]]]
"""Rows that were released together: their sort key, the size of their payloads in bytes, and the rows. A
progress report has no rows. It is a plain tuple, because a named one takes twice the space and time in a
pipe."""


class EntryBatch(NamedTuple):
    """Entries in order, and the capture report so far, without the files before `first_file`. `packed` has
    their frames as columns. `last` is true if the worker sends no other batch."""

    entries: list[ReleasedEntry[object]]
    report: CaptureReport
    first_file: int
    last: bool
    packed: pa.RecordBatch | None = None

    def update(self, report: CaptureReport) -> None:
        """Brings `report` up to date, except for what a worker counts for its own flows."""
        for field in fields(report):
            if field.name not in ("files", "protocols", "tcp_bytes"):
                setattr(report, field.name, getattr(self.report, field.name))
        report.files[self.first_file :] = self.report.files


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJob(Generic[Row]):
    """The table to make. `renderer` is called in each worker and returns the function that renders a record;
    `where` is a condition in SQL. `others` are further tables, for `shared_records`. With `packed`, frames
    are not rendered but become columns, those with these names. A job is pickled.
    """

    paths: tuple[str, ...]
    table: str
    options: Options
    renderer: Callable[[], Callable[[Record], Row]] | None = None
    where: str | None = None
    others: tuple[str, ...] = ()
    packed: tuple[str, ...] | None = None


def tune_garbage_collector() -> None:
    """Makes Python collect garbage less often, which saves a twentieth of the time. There is little garbage
    to collect: imported modules stay, and rows form no cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def work(connection: Connection, job: TableJob[Row], number: int, jobs: int) -> None:
    """The main function of a worker process."""
    tune_garbage_collector()
    if number == 0:
        load.on_compile = say
    try:
        try:
            if job.packed is not None:
                leave_pandas_out()
            with nullcontext() if job.where is None else closing(_where(job)) as where:
                ShareWorker(connection.send, job, where.matching if where else None).run(
                    number, jobs
                )
        except DissectError as error:
            connection.send(error)
        except Exception as error:  # the parent process reports it to the user
            connection.send(WorkerError(f"failed: {type(error).__name__}: {error}"))
    except BrokenPipeError:
        pass  # the parent needs no more rows


def _where(job: TableJob[Row]) -> Where:
    assert job.where is not None
    return Where(job.table, job.where)


def _key(release: ReleaseKey) -> tuple[int, int, str]:
    packet, first_ns, session = release
    return packet, first_ns, session


def _apart(waiting: Iterable[ReleasedRows]) -> tuple[list[Record], list[ReleasedRows]]:
    """The frames, and the records of other tables."""
    frames: list[Record] = []
    others = []
    for release, records in waiting:
        frames += (row for row in records if row.__class__ is FrameRecord)
        if rest := [row for row in records if row.__class__ is not FrameRecord]:
            others.append(ReleasedRows(release, rest))
    return frames, others


class ShareWorker(Generic[Row]):
    """Dissects a share of the flows and passes batches to `send`."""

    def __init__(
        self, send: Callable[[EntryBatch], None], job: TableJob[Row], keep: RowFilter | None = None
    ) -> None:
        self._put = send
        self._work = job
        self._keep = keep
        self._render = job.renderer() if job.renderer else None
        self._report = CaptureReport()
        self._files = 0  # the files that were finished in the latest batch
        self._waiting: list[ReleasedRows] = []
        self._rows = self._bytes = 0
        self._next = 0  # progress is reported again after this many packets

    def run(self, number: int, jobs: int) -> None:
        """Dissects share `number` of `jobs`."""
        job = self._work
        is_shown = job.options.payload is not Payload.NONE
        for rows in released(
            job.paths,
            [job.table, *job.others],
            job.options,
            self._report,
            share=Share(number, range(jobs)),
            on_progress=self._on_progress,
            together=True,
        ):
            self._waiting.append(rows)
            self._rows += len(rows.records)
            if is_shown:
                self._bytes += payload_bytes(rows.records)
            if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
                self._send()
        self._send(last=True)

    def _on_progress(self, packets: int) -> None:
        """Reports, now and then, that this many packets were read and all rows that they release are sent."""
        if packets >= self._next:
            self._next = packets + _PROGRESS_PACKETS
            self._send((_key(ReleaseKey(packets)), 0, []))

    def _entries(self, waiting: Sequence[ReleasedRows]) -> list[ReleasedEntry[object]]:
        kept = narrow(waiting, self._keep) if self._keep else waiting
        render = self._render
        assert render  # only packed frames are not rendered
        return [
            (
                _key(release),
                payload_bytes(records),
                [(place, render(record)) for place, record in placed(records)],
            )
            for release, records in kept
        ]

    def _send(self, *progress: ReleasedEntry[object], last: bool = False) -> None:
        columns, packed = self._work.packed, None
        waiting, self._waiting = self._waiting, []
        if columns is not None:
            frames, waiting = _apart(waiting)
            packed = batch("frames", frames, columns) if frames else None
        entries = [*(self._entries(waiting) if waiting else ()), *progress]
        self._rows = self._bytes = 0
        first, files = self._files, self._report.files
        report = replace(self._report, files=files[first:])
        self._put(EntryBatch(entries, report, first, last, packed))
        self._files = next((at for at, file in enumerate(files) if not file.finished), len(files))
