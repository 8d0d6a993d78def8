"""The work shared among processes: the same rows in the same order, whatever happens to the processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from multiprocessing import active_children
from operator import itemgetter
from pathlib import Path

import pytest

from dissect.nats.capture import CaptureReport
from dissect.nats.errors import CaptureError, MissingLibrary, QueryError, WorkerError
from dissect.nats.options import Options
from dissect.nats.output.formats import FORMATS
from dissect.nats.output.writer import Layout, Rendered
from dissect.nats.parallel import worker as shards
from dissect.nats.parallel.pool import cores, merged, sharded, shared_records
from dissect.nats.parallel.worker import EntryBatch, ReleasedEntry, ShareWorker, TableJob
from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record, SessionRecord
from dissect.nats.tables import TABLE_OF, TABLES

from tests.support.damage import drop, duplicate, pcap_bytes, read_pcap, swap
from tests.support.paths import CAPTURES, ROOT
from tests.support.pcapwriter import START_NS
from tests.support.requirements import missing
from tests.support.sightings import capture_of, proxied

pytestmark = pytest.mark.usefixtures("worker_processes")

NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


# Tables whose rows need one session at a time, so that several processes can share the work.
SHARED = [name for name, table in TABLES.items() if not (table.layer and table.layer.across)]


def lines(table: str) -> Callable[[Record], Rendered]:
    return FORMATS["jsonl"].table(table, Layout()).render


def failing(record: Record) -> Rendered:
    raise ZeroDivisionError("nobody expects this")


def killed(record: Record) -> Rendered:
    os.kill(os.getpid(), signal.SIGKILL)
    return ""


def leaving(record: Record) -> Rendered:
    os._exit(7)


def renderer(function: Callable[[Record], Rendered]) -> Callable[[Record], Rendered]:
    return function


def work(path: Path | str, table: str, where: str | None = None) -> TableJob[Rendered]:
    return TableJob(
        paths=(str(path),),
        table=table,
        options=Options(),
        renderer=partial(lines, table),
        where=where,
    )


def alone(path: Path | str, table: str) -> tuple[list[Rendered], CaptureReport]:
    report = CaptureReport()
    rows = records([str(path)], [table], report=report)
    return list(map(lines(table), rows)), report


def all_alone(path: Path) -> tuple[dict[str, list[Rendered]], CaptureReport]:
    """What `alone` gives for each table, from one pass."""
    report = CaptureReport()
    every: dict[str, list[Rendered]] = {table: [] for table in SHARED}
    renderers = {table: lines(table) for table in SHARED}
    for row in records([str(path)], SHARED, report=report):
        table = TABLE_OF[type(row)].name
        every[table].append(renderers[table](row))
    return every, report


def together(path: Path | str, table: str, jobs: int, where: str | None = None) -> list[Rendered]:
    with closing(sharded(work(path, table, where), jobs)) as rows:
        return list(rows)


def apart(path: Path | str, table: str, jobs: int) -> tuple[list[Rendered], list[CaptureReport]]:
    """What workers and parent do, without processes."""
    streams: list[Iterator[ReleasedEntry[Rendered]]] = []
    reports = []
    # Each worker counts its own connections.
    protocols: Counter[str] = Counter()
    tcp_bytes: Counter[str] = Counter()
    for number in range(jobs):
        batches: list[EntryBatch] = []
        ShareWorker(batches.append, work(path, table)).run(number, jobs)
        assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]
        report = CaptureReport()
        for batch in batches:
            batch.update(report)
        protocols += batches[-1].report.protocols
        tcp_bytes += batches[-1].report.tcp_bytes
        reports.append(report)
        entries = [entry for batch in batches for entry in batch.entries]
        assert entries == sorted(entries, key=lambda entry: entry[0])
        streams.append(iter(entries))  # type: ignore[arg-type]  # what the work's renderer made
    whole = [replace(each, protocols=protocols, tcp_bytes=tcp_bytes) for each in reports]
    if table == "sessions":  # the parent puts all of them in order (`engine.same_sessions`)
        every = [row for stream in streams for _, _, rows in stream for row in rows]
        return [row for _, row in sorted(every, key=itemgetter(0))], whole
    return list(merged(streams, table)), whole


@pytest.mark.parametrize("name", NAMES)
def test_every_table_of_every_sample_is_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "_BATCH_ROWS", 5)
    monkeypatch.setattr(shards, "_PROGRESS_PACKETS", 3)
    every, report = all_alone(CAPTURES / name)
    for table, expected in every.items():
        for jobs in (2, 3) if expected else (2,):
            rows, reports = apart(CAPTURES / name, table, jobs)
            assert rows == expected
            assert reports == [report] * jobs


@pytest.mark.parametrize("name", ["core-2.15.1.pcap", "gateway-2.9.10.pcap", "http.pcap"])
def test_damaged_captures_are_the_same(name: str, tmp_path: Path) -> None:
    whole = read_pcap((CAPTURES / name).read_bytes())
    path = tmp_path / name
    for first in (3, 11, 19):
        found = drop(whole.records, set(range(first, len(whole.records), 17)))
        found = duplicate(swap(found, first, first + 1), first + 5, 3)
        path.write_bytes(pcap_bytes(whole.with_records(found))[: -first * 7])
        every, report = all_alone(path)
        assert report.damaged
        for table, expected in every.items():
            for jobs in (2, 5):
                assert apart(path, table, jobs) == (expected, [report] * jobs)


def test_flows_that_end_while_others_talk(tmp_path: Path) -> None:
    """Time ends flows, whosever packet brings it."""
    whole = read_pcap((CAPTURES / "core-2.15.1.pcap").read_bytes())
    last_ns = max(record.ts_ns for record in whole.records)
    later = [
        replace(record, ts_ns=record.ts_ns + 10**12) if record.ts_ns > last_ns - 10**8 else record
        for record in whole.records
    ]
    path = tmp_path / "t.pcap"
    path.write_bytes(pcap_bytes(whole.with_records(later)))
    for table in ("flows", "sessions", "frames"):
        assert apart(path, table, 3)[0] == alone(path, table)[0] != []


@pytest.mark.parametrize("jobs", [2, 3])
def test_real_processes_say_the_same(jobs: int) -> None:
    report = CaptureReport()
    expected, whole = alone(CAPTURES / "core-2.15.1.pcap", "frames")
    assert list(sharded(work(CAPTURES / "core-2.15.1.pcap", "frames"), jobs, report)) == expected
    assert report == whole and active_children() == []


def test_one_process_makes_the_rows_that_need_all_sessions() -> None:
    across = TABLES.keys() - set(SHARED)
    assert "servers" in across
    for table in across:
        report = CaptureReport()
        expected, whole = alone(CAPTURES / "cluster-2.15.1.pcap", table)
        found = list(sharded(work(CAPTURES / "cluster-2.15.1.pcap", table), 2, report))
        assert found == expected != [] and report == whole


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="signals are read in /proc")
def test_the_first_worker_never_sees_an_interrupt() -> None:
    """In a new interpreter, since the tracker of multiprocessing starts with the first worker."""
    code = (
        "import re, sys\nfrom dissect.nats import Options\nfrom dissect.nats.parallel import pool, worker\n"
        "job = worker.TableJob(paths=(sys.argv[1],), table='flows', options=Options(), renderer=list)\n"
        "started = pool._start(job, 0, 1)\n"
        "status = open(f'/proc/{started.process.pid}/status').read()\n"
        "print(int(re.search(r'SigBlk:\\s*(\\w+)', status)[1], 16) >> 1 & 1)\n"
        "started.end()"
    )
    command = [sys.executable, "-c", code, str(CAPTURES / "core-2.15.1.pcap")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.stdout == "1\n", done.stderr


def test_a_script_without_a_guard_may_start_workers(tmp_path: Path) -> None:
    """multiprocessing would have each worker run the script again."""
    script = tmp_path / "script.py"
    script.write_text("import sys\nfrom dissect.nats.cli import main\nmain()\n")
    command = [sys.executable, str(script), "sessions", str(CAPTURES / "core-2.15.1.pcap")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    one, two = (
        subprocess.run(
            [*command, "--jobs", jobs], capture_output=True, env=environment, timeout=120
        )
        for jobs in ("1", "2")
    )
    assert (two.returncode, two.stdout, two.stderr) == (0, one.stdout, one.stderr)


def test_damage_is_reported_once(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes((CAPTURES / "core-2.15.1.pcap").read_bytes()[:-5])
    report = CaptureReport()
    rows = list(sharded(work(path, "sessions"), 2, report))
    assert (rows, report) == alone(path, "sessions")
    assert len(report.damaged) == 1


def test_a_condition_narrows_the_rows() -> None:
    try:
        found = together(CAPTURES / "core-2.15.1.pcap", "frames", 2, "op = 'PUB'")
    except MissingLibrary as lack:
        missing("duckdb", str(lack))
    everything, _ = alone(CAPTURES / "core-2.15.1.pcap", "frames")
    assert found == [line for line in everything if '"op":"PUB"' in str(line)] != []


def test_errors_come_out_as_from_one_process(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        together(tmp_path / "none", "frames", 2)
    with pytest.raises(QueryError, match="no column 'opp'"):
        together(CAPTURES / "core-2.15.1.pcap", "frames", 2, "opp = 1")
    assert active_children() == []


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (failing, "a worker process failed: ZeroDivisionError: nobody expects this"),
        (killed, "a worker process was ended by signal 9; was there too little memory?"),
        (leaving, "a worker process ended before its work was done, with status 7"),
    ],
)
def test_a_worker_that_dies_is_reported(
    function: Callable[[Record], Rendered], reason: str
) -> None:
    job: TableJob[Rendered] = TableJob(
        paths=(str(CAPTURES / "core-2.15.1.pcap"),),
        table="frames",
        options=Options(),
        renderer=partial(renderer, function),
    )
    with pytest.raises(WorkerError) as caught:
        list(sharded(job, 2))
    assert str(caught.value) == reason
    assert active_children() == []


def test_who_stops_early_ends_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "frames", replace(TABLES["frames"], window=2))
    with closing(sharded(work(CAPTURES / "core-2.15.1.pcap", "frames"), 2)) as rows:
        next(rows)  # a worker may be through with its small share by now
    assert active_children() == []


def test_there_is_a_core() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)


def test_sessions_name_those_of_other_processes(tmp_path: Path) -> None:
    places = [each for at in range(1, 9) for each in proxied(START_NS + at * 1000, number=at)]
    path = capture_of(tmp_path / "seen.pcap", places)
    expected, _ = alone(path, "sessions")
    assert len(expected) == 16
    for jobs in (1, 2):
        assert together(path, "sessions", jobs) == expected
        assert len(together(path, "sessions", jobs, "copy_of IS NULL")) == 8
    report = CaptureReport()
    rows = [*shared_records([str(path)], ["frames", "sessions"], Options(), 2, report)]
    named = [row.same_as for row in rows if isinstance(row, SessionRecord)]
    assert len(named) == 16 and all(named)
