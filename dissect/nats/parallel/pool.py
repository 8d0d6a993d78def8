"""Makes one table of one timeline of captures with several processes: the same rows in the same order.

Each worker process reads all packets and dissects its share of the flows. It sends batches of rows through
a pipe, each row with the sort key of the packet that completed it, and reports its progress now and then.
The parent merges the rows of all workers by `ReleaseKey`, which does not depend on how the flows are divided,
and puts them in time order as a single process does. A worker that is ahead waits until its pipe has room.
Rows of sessions may name those of another worker, so the parent selects and renders them.

    worker: packets > its share of the flows > connections > tables > condition > render > pipe
    parent: pipes > merge by sort key > TimeOrder

Workers are spawned, not forked, although forking would save each of them half a second of imports: pyarrow
and numpy start threads on import. A forked process lacks these threads, but their locks may stay held in it
forever. Workers do not import the program's main module, so that module needs no
`if __name__ == "__main__"`, but a renderer cannot be defined in it.
"""

from __future__ import annotations

import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from heapq import merge
from itertools import groupby, islice, zip_longest
from operator import itemgetter
from types import ModuleType
from typing import TYPE_CHECKING, Generic, cast

from ..capture import CaptureReport
from ..engine.connections import ReleaseKey
from ..engine.same_sessions import with_same_sessions
from ..engine.session_tables import ReleasedRows
from ..engine.time_order import Placed, TimeOrder
from ..errors import DissectError, WorkerError
from ..options import Options
from ..output.duckdb import Where
from ..schema.records import Record
from ..tables import TABLES
from .worker import EntryBatch, ReleasedEntry, Row, TableJob, work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.context import SpawnProcess

    import pyarrow as pa

# The number of batches of a worker that the parent reads ahead.
_AHEAD = 8
_TOGETHER = 4096  # rows of sessions that are selected at once


def cores() -> int:
    """The number of processor cores that this process may use, as `os.process_cpu_count` of Python 3.13
    returns it. It ignores the load and the CPU quota of a container, which is why `--jobs` takes a number.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def sharded(
    job: TableJob[Row], jobs: int, report: CaptureReport | None = None
) -> Generator[Row, None, None]:
    """The rows of the table, in the order in which one process makes them.

    `report` is updated meanwhile. Raises the errors of workers, and WorkerError if a worker dies. If you stop
    early, call `close`, which ends the workers.
    """
    report = CaptureReport() if report is None else report
    if job.table == "sessions":
        yield from _sessions(job, jobs, report)
        return
    layer = TABLES[job.table].layer
    if layer and layer.across:  # its rows need the frames of all sessions
        jobs = 1
    with _pool(job, jobs, report) as pool:
        yield from merged(map(pool.entries, pool.workers), job.table)


def _sessions(job: TableJob[Row], jobs: int, report: CaptureReport) -> Generator[Row, None, None]:
    """The rows of sessions. They may name each other, so they are selected and rendered here."""
    assert job.renderer
    render = job.renderer()
    with nullcontext() if job.where is None else closing(Where(job.table, job.where)) as where:
        records = shared_records(job.paths, [job.table], job.options, jobs, report)
        with closing(records):
            while some := cast("list[Record]", [*islice(records, _TOGETHER)]):
                yield from map(render, where.matching(some) if where else some)


def shared_records(
    paths: Sequence[str],
    tables: Sequence[str],
    options: Options,
    jobs: int,
    report: CaptureReport,
    packed: Sequence[str] | None = None,
) -> Generator[Record | pa.RecordBatch, None, None]:
    """The records of several tables in one pass, in no particular order. With `packed`, frames come as record
    batches with these columns. None of the tables may need the frames of all sessions. Raises the same errors
    as `sharded`."""
    job = TableJob(
        paths=tuple(paths),
        table=tables[0],
        others=tuple(tables[1:]),
        options=options,
        renderer=_unrendered,
        packed=None if packed is None else tuple(packed),
    )
    with _pool(job, jobs, report) as pool:
        source = _released(pool)
        for rows in with_same_sessions(source) if "sessions" in tables else source:
            yield from rows.records


def _released(pool: _Pool[Record]) -> Iterator[ReleasedRows]:
    """The records of all workers, in no particular order; with packed frames in place of some."""
    for together in zip_longest(*map(pool.batches, pool.workers)):
        for batch in filter(None, together):
            if batch.packed is not None:
                yield ReleasedRows(ReleaseKey(0), [cast("Record", batch.packed)])
            for key, _, rows in batch.entries:
                yield ReleasedRows(ReleaseKey(*key), [cast("Record", record) for _, record in rows])


def _unrendered() -> Callable[[Record], Record]:
    return _same


def _same(record: Record) -> Record:
    return record


def merged(streams: Iterable[Iterator[ReleasedEntry[Row]]], table: str) -> Iterator[Row]:
    """The rows of all workers, merged in order."""
    line = TimeOrder[Row](TABLES[table].window)
    for _, together in groupby(merge(*streams, key=itemgetter(0)), key=itemgetter(0)):
        rows: list[Placed[Row]] = []
        size = 0
        for _, payloads, some in together:
            rows += some
            size += payloads
        yield from line.put(rows, size)
    yield from line.flush()


class _Worker:
    """A worker process. `batches` are received but not used yet; `over` is true after the last one."""

    def __init__(self, process: SpawnProcess, connection: Connection) -> None:
        self.process = process
        self.connection = connection
        self.batches: deque[EntryBatch] = deque()
        self.over = False

    def receive(self) -> None:
        """Receives a batch. Raises the error of the worker if it sent one, and WorkerError if it died."""
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


class _Pool(Generic[Row]):
    """All workers. The report is that of the first worker, because each worker reads all packets; only its
    counts of connections are added up over all workers."""

    def __init__(self, workers: Sequence[_Worker], report: CaptureReport) -> None:
        self.workers = workers
        self._report = report

    def entries(self, worker: _Worker) -> Iterator[ReleasedEntry[Row]]:
        """The entries that one worker sends."""
        for batch in self.batches(worker):
            yield from batch.entries  # type: ignore[misc]  # the renderer of the job made them

    def batches(self, worker: _Worker) -> Iterator[EntryBatch]:
        """The batches that one worker sends."""
        while worker.batches or not worker.over:
            if not worker.batches:
                self._receive()
                continue
            batch = worker.batches.popleft()
            if worker is self.workers[0]:
                batch.update(self._report)
            if batch.last:
                self._report.protocols += batch.report.protocols
                self._report.tcp_bytes += batch.report.tcp_bytes
            yield batch

    def _receive(self) -> None:
        """Receives from any worker that has sent something, so that no worker waits for a slow one."""
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
def _pool(job: TableJob[Row], jobs: int, report: CaptureReport) -> Iterator[_Pool[Row]]:
    workers: list[_Worker] = []
    try:
        for number in range(jobs):
            workers.append(_start(job, number, jobs))
        yield _Pool(workers, report)
    finally:
        for worker in workers:
            worker.end()


def _start(job: TableJob[Row], number: int, jobs: int) -> _Worker:
    """Starts a worker. Only the parent handles interrupts: SIGINT is blocked here, and a child inherits the
    mask before it runs its first line."""
    # Imported here, because most commands start no process, and the import takes a twentieth of their start.
    from multiprocessing import get_context, resource_tracker

    # Started before SIGINT is blocked: starting it unblocks SIGINT, even inside `process.start` (CPython:
    # ResourceTracker.ensure_running).
    resource_tracker.ensure_running()
    context = get_context("spawn")
    ours, its = context.Pipe(duplex=False)
    process = context.Process(
        target=work, args=(its, job, number, jobs), name=f"shard {number}", daemon=True
    )
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _without_main():
            process.start()
    except OSError as error:
        ours.close()
        raise WorkerError(f"cannot be started: {error.strerror}") from None
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        its.close()
    return _Worker(process, ours)


@contextmanager
def _without_main() -> Iterator[None]:
    """Hides the main module from multiprocessing, which would make each worker import it: a script without
    `if __name__ == "__main__"` would then start more workers."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
