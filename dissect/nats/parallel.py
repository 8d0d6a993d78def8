"""Makes one table of one timeline of captures with several processes: the same rows in the same order.

Each worker process reads all packets and dissects its share of the flows. It sends batches of rows through
a pipe, each row with the sort key of the packet that completed it, and reports its progress now and then.
The parent merges the workers by `SortKey`, which does not depend on how the flows are divided, and puts the
rows in time order as a single process does. A worker that is ahead waits for room in its pipe.

    worker: packets > its share of the flows > connections > tables > condition > render > pipe
    parent: pipes > merge by sort key > TimeOrder

Workers are spawned, not forked. A program that calls this needs `if __name__ == "__main__"`, as with any
use of multiprocessing.
"""

from __future__ import annotations

import gc
import os
import signal
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, fields, replace
from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from .capture import CaptureReport
from .engine.connections import SortKey
from .engine.session_tables import Rows
from .engine.time_order import Placed, TimeOrder, payload_bytes, placed
from .errors import DissectError, WorkerError
from .options import Options
from .output.duckdb import Where
from .pipeline import RowFilter, narrow, released
from .records import Record
from .tables import TABLES

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

_Row = TypeVar("_Row")

# A worker reports its progress, and sends a batch, after this many packets: a fraction of a second.
_PROGRESS_PACKETS = 4096
_BATCH_ROWS = 2048
_BATCH_BYTES = 1 << 20
# The number of batches of a worker that the parent reads ahead.
_AHEAD = 8

Entry = tuple[tuple[int, int, str], int, list[Placed[_Row]]]
"""One release: its sort key, the bytes of its payloads, its rows; a progress report has no rows. Plain
tuples, because named ones take twice the space and time in a pipe."""


class EntryBatch(NamedTuple):
    """Entries in order, and the capture report so far, without the files before `first_file`."""

    entries: list[Entry[object]]
    report: CaptureReport
    first_file: int
    last: bool

    def learn_into(self, report: CaptureReport) -> None:
        """Brings `report` up to date, but for `protocols`: those are the worker's own."""
        for field in fields(report):
            if field.name not in ("files", "protocols"):
                setattr(report, field.name, getattr(self.report, field.name))
        report.files[self.first_file :] = self.report.files


@dataclass(frozen=True, slots=True, kw_only=True)
class TableJob(Generic[_Row]):
    """The table to make. `renderer` is called in each worker and returns the function that renders a record;
    `where` is a condition in SQL. `others` are further tables, for `shared_records`. A job is pickled.
    """

    paths: tuple[str, ...]
    table: str
    options: Options
    renderer: Callable[[], Callable[[Record], _Row]]
    where: str | None = None
    others: tuple[str, ...] = ()


def cores() -> int:
    """The number of processor cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sharded(
    job: TableJob[_Row], jobs: int, report: CaptureReport | None = None
) -> Generator[_Row, None, None]:
    """The rows of the table, in the order in which one process makes them.

    `report` is updated meanwhile. Errors of a worker are raised here, and WorkerError if a worker dies. If
    you stop early, call `close`, which ends the workers.
    """
    layer = TABLES[job.table].layer
    if layer and layer.across:  # its rows need the frames of all sessions
        jobs = 1
    with _pool(job, jobs, CaptureReport() if report is None else report) as pool:
        yield from merged(map(pool.entries, pool.workers), job.table)


def shared_records(
    paths: Sequence[str],
    tables: Sequence[str],
    options: Options,
    jobs: int,
    report: CaptureReport,
) -> Generator[Record, None, None]:
    """The records of several tables in one pass, in the order in which connections complete them. None of the
    tables is made from the frames of all sessions. Errors as of `sharded`."""
    job = TableJob(
        paths=tuple(paths),
        table=tables[0],
        others=tuple(tables[1:]),
        options=options,
        renderer=_unrendered,
    )
    with _pool(job, jobs, report) as pool:
        for _, _, rows in merge(*map(pool.entries, pool.workers), key=itemgetter(0)):
            for _, record in rows:
                yield record


def _unrendered() -> Callable[[Record], Record]:
    return _same


def _same(record: Record) -> Record:
    return record


def merged(streams: Iterable[Iterator[Entry[_Row]]], table: str) -> Iterator[_Row]:
    """The rows of all workers, merged in order."""
    line = TimeOrder[_Row](TABLES[table].window)
    for _, together in groupby(merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
        rows: list[Placed[_Row]] = []
        size = 0
        for _, payloads, some in together:
            rows += some
            size += payloads
        yield from line.put(rows, size)
    yield from line.flush()


class _Worker:
    """A worker process as the parent sees it. `batches` were received and not used yet; `over` is true after
    the last one."""

    def __init__(self, process: SpawnProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.batches: deque[EntryBatch] = deque()
        self.over = False

    def receive(self) -> None:
        """Receives a batch; raises the error of the worker if it sent one."""
        try:
            sent = self.connection.recv()
        except (EOFError, OSError):
            raise WorkerError(self._death()) from None
        if isinstance(sent, DissectError):
            raise sent
        assert isinstance(sent, EntryBatch)
        self.batches.append(sent)
        self.over = sent.last

    def end(self) -> None:
        """Terminates the process."""
        self.connection.close()
        self.process.terminate()
        self.process.join()
        self.process.close()

    def _death(self) -> str:
        self.process.join()
        code = self.process.exitcode or 0
        if code >= 0:
            return f"ended before its work was done, with status {code}"
        lack = "; was there too little memory?" if -code == signal.SIGKILL else ""
        return f"was ended by signal {-code}{lack}"


class _Pool(Generic[_Row]):
    """All workers. The report is that of the first worker, because each of them reads all packets; only the
    connections that it counts are those of all workers."""

    def __init__(self, workers: Sequence[_Worker], report: CaptureReport) -> None:
        self.workers = workers
        self._report = report

    def entries(self, worker: _Worker) -> Iterator[Entry[_Row]]:
        """The entries that one worker sends."""
        while worker.batches or not worker.over:
            if not worker.batches:
                self._receive()
                continue
            batch = worker.batches.popleft()
            if worker is self.workers[0]:
                batch.learn_into(self._report)
            if batch.last:
                self._report.protocols += batch.report.protocols
            yield from batch.entries  # type: ignore[misc]  # made by the work's own renderer

    def _receive(self) -> None:
        """Waits for any worker, so that none blocks because another one is slow."""
        from multiprocessing.connection import Connection, wait

        able = {
            worker.connection: worker
            for worker in self.workers
            if not worker.over and len(worker.batches) < _AHEAD
        }
        for connection in wait(list(able)):
            assert isinstance(connection, Connection)
            able[connection].receive()


@contextmanager
def _pool(job: TableJob[_Row], jobs: int, report: CaptureReport) -> Iterator[_Pool[_Row]]:
    workers: list[_Worker] = []
    try:
        for number in range(jobs):
            workers.append(_start(job, number, jobs))
        yield _Pool(workers, report)
    finally:
        for worker in workers:
            worker.end()


def _start(job: TableJob[_Row], number: int, jobs: int) -> _Worker:
    """Starts a worker. Only the parent handles interrupts: SIGINT is blocked here, and a child inherits the
    mask before it runs its first line."""
    # Here, because most commands start no process, and the import takes a twentieth of their start.
    from multiprocessing import get_context, resource_tracker

    # Where it starts the tracker, `start` unblocks the interrupt (CPython: ResourceTracker.ensure_running).
    resource_tracker.ensure_running()
    context = get_context("spawn")
    ours, its = context.Pipe(duplex=False)
    process = context.Process(
        target=_work, args=(its, job, number, jobs), name=f"shard {number}", daemon=True
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    except OSError as error:
        ours.close()
        raise WorkerError(f"cannot be started: {error.strerror}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()
    return _Worker(process, ours)


def tune_garbage_collector() -> None:
    """Collects garbage less often than Python does by default, which would cost a twentieth of the time:
    imported modules stay, and rows form no cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)


def _work(connection: Connection, job: TableJob[_Row], number: int, jobs: int) -> None:
    """The main function of a worker process."""
    tune_garbage_collector()
    try:
        try:
            with nullcontext() if job.where is None else closing(_where(job)) as where:
                Sender(connection.send, job, where.kept if where else None).run(number, jobs)
        except DissectError as error:
            connection.send(error)
        except Exception as error:  # the rim of this process: its parent tells the user
            connection.send(WorkerError(f"failed: {type(error).__name__}: {error}"))
    except BrokenPipeError:
        pass  # the parent has enough


def _where(job: TableJob[_Row]) -> Where:
    assert job.where is not None
    return Where(job.table, job.where)


def _key(release: SortKey) -> tuple[int, int, str]:
    packet, first_ns, session = release
    return packet, first_ns, session


class Sender(Generic[_Row]):
    """Dissects a share of the flows and passes batches to `send`."""

    def __init__(
        self, send: Callable[[EntryBatch], None], job: TableJob[_Row], keep: RowFilter | None = None
    ) -> None:
        self._put = send
        self._work = job
        self._keep = keep
        self._render = job.renderer()
        self._report = CaptureReport()
        self._files = 0  # how many files were finished when it last said so
        self._waiting: list[Rows] = []
        self._rows = self._bytes = 0
        self._next = 0  # how many packets make the next progress

    def run(self, number: int, jobs: int) -> None:
        """Dissects share `number` of `jobs`."""
        job = self._work
        for rows in released(
            job.paths,
            [job.table, *job.others],
            job.options,
            self._report,
            share=(number, jobs),
            on_progress=self._on_progress,
        ):
            self._waiting.append(rows)
            self._rows += len(rows.records)
            self._bytes += payload_bytes(rows.records)
            if self._rows >= _BATCH_ROWS or self._bytes >= _BATCH_BYTES:
                self._send(self._entries())
        self._send(self._entries(), last=True)

    def _on_progress(self, packets: int) -> None:
        """Reports that this many packets were read and everything they release was collected."""
        if packets >= self._next:
            self._next = packets + _PROGRESS_PACKETS
            self._send([*self._entries(), (_key(SortKey(packets)), 0, [])])

    def _entries(self) -> list[Entry[object]]:
        waiting: Iterable[Rows] = self._waiting
        if self._keep:
            waiting = narrow(self._waiting, self._keep)
        render = self._render
        found: list[Entry[object]] = [
            (
                _key(release),
                payload_bytes(records),
                [(place, render(record)) for place, record in placed(records)],
            )
            for release, records in waiting
        ]
        self._waiting = []
        self._rows = self._bytes = 0
        return found

    def _send(self, entries: list[Entry[object]], last: bool = False) -> None:
        first, files = self._files, self._report.files
        self._put(EntryBatch(entries, replace(self._report, files=files[first:]), first, last))
        self._files = next((at for at, file in enumerate(files) if not file.finished), len(files))
