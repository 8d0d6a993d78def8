"""The Spark job beside a bare scan, beside the command line, and on one core beside two.

The captures have a million packets, and by default unique subjects, replies and sizes (see
`tests.bench.generate`); the scan and the command line are measured on repeating traffic as well. Each job
writes the tables frames and sessions. On two cores it divides whole flows among its tasks; some jobs are told
to work in chunks, as on many cores.

Asserted: two cores take less time with whole flows than with chunks; in chunks, one connection that has 90 %
of the bytes takes at most 1.15 times as long as eight that share them, and tasks write less than 1 % of the
captured bytes for other tasks at chunks of 128 MiB; a Python worker stays below 512 MiB.

Wanted, and only printed: the job in less time than `nats-dissect frames --format parquet --jobs 1`, and in at
most twice the time of a job that reads all packets and counts them. Sessions are started and warm before
anything is timed. SPARK_PACKETS=100000 makes it a short run, SPARK_ROUNDS=1 a shorter one.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import pytest

from dissect.nats.spark.options.job_options import CHUNK_BYTES

from tests.bench.children import alternating
from tests.bench.generate import Plan, WrittenFile, write_file
from tests.bench.in_spark import Figures, in_spark
from tests.bench.rounds import machine
from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.spark import lack

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(3600)]

PACKETS = int(os.environ.get("SPARK_PACKETS", "1000000"))
ROUNDS = int(os.environ.get("SPARK_ROUNDS", "3"))
# A million packets are as many chunks of 128 MiB.
CHUNKS = 6

MB = 1_000_000
WORKER_BYTES = 512 << 20
PACKET_HEADERS = 66
DISSECT = (sys.executable, "-m", "dissect.nats")

EVEN = Plan(PACKETS)
REPEATING = Plan(PACKETS, repeating=True)
ONE_HEAVY = Plan(PACKETS, heavy=0.9)
EIGHT_EQUAL = Plan(PACKETS, heavy=0.9, equal=8)


def kind(plan: Plan) -> str:
    """The name of the plan's traffic."""
    return "repeating" if plan.repeating else "unique"


KINDS = pytest.mark.parametrize("plan", [EVEN, REPEATING], ids=kind)


@dataclass
class Bench:
    """Captures, and the figures of sessions that dissected them; each is made once."""

    folder: Path
    captures: dict[Plan, tuple[str, WrittenFile]] = field(default_factory=dict)
    runs: dict[tuple[str, int, bool, tuple[Plan, ...]], list[Figures]] = field(default_factory=dict)

    def capture(self, plan: Plan) -> tuple[str, WrittenFile]:
        """The capture of a plan."""
        if plan not in self.captures:
            path = self.folder / f"{len(self.captures)}.pcap"
            self.captures[plan] = str(path), write_file(path, plan)
        return self.captures[plan]

    def ran(
        self, master: str, chunk_bytes: int, *plans: Plan, whole_flows: bool = True
    ) -> list[Figures]:
        """The figures of one session that dissects the captures of the plans in turn."""
        key = master, chunk_bytes, whole_flows, plans
        if key not in self.runs:
            paths = [self.capture(plan)[0] for plan in plans]
            self.runs[key] = in_spark(master, chunk_bytes, ROUNDS, self.folder, paths, whole_flows)
        return self.runs[key]

    def cut(self, master: str, *plans: Plan, whole_flows: bool = True) -> list[Figures]:
        """`ran`, in as many chunks as a million packets have."""
        size = self.capture(plans[0])[1].file_bytes // CHUNKS + 1
        return self.ran(master, size, *plans, whole_flows=whole_flows)

    def one(self, run: Iterable[Figures], plan: Plan, what: str) -> Figures:
        """The medians, over all rounds, of the scan or the job of one capture."""
        path = self.capture(plan)[0]
        rounds = [each for each in run if (each.capture, each.what) == (path, what)]
        stages = {name: median(each.stages[name] for each in rounds) for name in rounds[0].stages}
        return replace(rounds[-1], seconds=median(each.seconds for each in rounds), stages=stages)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The captures, which are removed after the last benchmark."""
    if lacking := lack():
        missing(*lacking)
    folder = tmp_path_factory.mktemp("captures")
    yield Bench(folder)
    shutil.rmtree(folder, ignore_errors=True)  # the Java of a session may be at it too


def title(what: str) -> None:
    """Prints the measurement, the machine and its load."""
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(f"\n\n{what}, {PACKETS:,} packets, {machine()}, load {load}")


def show(rows: dict[str, Figures]) -> None:
    """Prints the seconds of each, in all and by stage."""
    names = list(dict.fromkeys(name for it in rows.values() for name in it.stages))
    print(f"{'':28}{'wall s':>9}{'packets/s':>12}" + "".join(f"{name:>9}" for name in names))
    for title, it in rows.items():
        stages = "".join(f"{it.stages.get(name, 0):9.2f}" for name in names)
        print(f"{title:28}{it.seconds:9.2f}{PACKETS / it.seconds:12,.0f}{stages}")


@KINDS
def test_the_job_beside_a_scan(bench: Bench, plan: Plan) -> None:
    run = bench.cut("local[2]", plan)
    scan, job = (bench.one(run, plan, what) for what in ("scan", "job"))
    title(
        f"{kind(plan)} traffic, local[2], {job.chunks} chunks: {job.seconds / scan.seconds:.2f} times a"
        " scan (wanted: 2)"
    )
    show({"packets counted": scan, "frames and sessions": job})
    assert scan.segments == job.packets == bench.capture(plan)[1].packets
    assert job.rows["frames"] == bench.capture(plan)[1].frames.total()


def test_one_connection_with_most_bytes_beside_eight(bench: Bench) -> None:
    run = bench.cut("local[2]", EIGHT_EQUAL, ONE_HEAVY, whole_flows=False)
    eight, one = (bench.one(run, plan, "job") for plan in (EIGHT_EQUAL, ONE_HEAVY))
    times = one.seconds / eight.seconds
    title(f"one connection with 90 % of the bytes: {times:.2f} times as long (wanted: 1.15)")
    show({"eight equal connections": eight, "one": one})
    assert times <= 1.15


@KINDS
def test_the_job_beside_the_command_line(bench: Bench, plan: Plan) -> None:
    path, job = bench.capture(plan)[0], bench.one(bench.cut("local[2]", plan), plan, "job")
    written = ["--format", "parquet", "--output", str(bench.folder / "table")]
    frames, sessions = alternating(
        [[*DISSECT, table, "--jobs", "1", *written, path] for table in ("frames", "sessions")],
        ROOT,
        ROUNDS,
    )
    title(
        f"{kind(plan)} traffic, local[2], after the start of Spark: {job.seconds / frames.wall:.2f} times the"
        f" command line's frames (wanted: 1), {job.seconds / (frames.wall + sessions.wall):.2f} with sessions"
    )
    for name, wall in (
        ("nats-dissect frames", frames.wall),
        ("nats-dissect sessions", sessions.wall),
        ("both in Spark", job.seconds),
    ):
        print(f"{name:28}{wall:9.2f}")
    assert job.rows["sessions"] == bench.capture(plan)[1].connections


@pytest.mark.parametrize("plan", [EVEN, ONE_HEAVY], ids=["even", "one_heavy"])
def test_what_goes_from_task_to_task(bench: Bench, plan: Plan) -> None:
    plans = (EVEN,) if plan is EVEN else (EIGHT_EQUAL, ONE_HEAVY)
    job = bench.one(bench.cut("local[2]", *plans, whole_flows=False), plan, "job")
    written = bench.capture(plan)[1]
    payload = written.file_bytes - 24 - written.packets * (16 + PACKET_HEADERS)
    # A chunk ends with the same states whatever its size: what they weigh beside one of the default size.
    most = max(job.moved_bytes, job.shuffled_bytes) / job.chunks / CHUNK_BYTES
    title(f"from task to task at chunks of {CHUNK_BYTES >> 20} MiB: {most:.3%} of the bytes")
    for name, moved in (("states", job.moved_bytes), ("all", job.shuffled_bytes)):
        print(f"{name:28}{moved / payload:9.3%} of the payload in {job.chunks} chunks")
    assert 0 < job.moved_bytes
    assert most < 0.01


@pytest.mark.parametrize("whole_flows", [True, False], ids=["whole_flows", "chunks"])
def test_memory_of_a_worker(bench: Bench, whole_flows: bool) -> None:
    run = bench.ran("local[2]", CHUNK_BYTES, EVEN, whole_flows=whole_flows)
    job = bench.one(run, EVEN, "job")
    title(
        f"a Python worker at {CHUNK_BYTES >> 20} MiB chunks: {job.peak_bytes / MB:.0f} MB at most"
    )
    print(f"{bench.capture(EVEN)[1].file_bytes / MB:.0f} MB in {job.chunks} chunks")
    assert 0 < job.peak_bytes < WORKER_BYTES


@KINDS
def test_whole_flows_beside_chunks(bench: Bench, plan: Plan) -> None:
    runs = [bench.cut("local[2]", plan, whole_flows=whole) for whole in (True, False)]
    whole, chunks = (bench.one(run, plan, "job") for run in runs)
    title(f"{kind(plan)} traffic, whole flows: {whole.seconds / chunks.seconds:.2f} of the time")
    show({"whole flows": whole, "chunks": chunks})
    assert (whole.shares, chunks.shares) == (2, 0)
    assert whole.rows == chunks.rows
    assert whole.seconds < chunks.seconds


def test_one_core_beside_two(bench: Bench) -> None:
    runs = [bench.cut(f"local[{cores}]", EVEN) for cores in (1, 2)]
    one, two = (bench.one(run, EVEN, "job") for run in runs)
    title(f"local[2] is {one.seconds / two.seconds:.2f} times as fast as local[1]")
    show({"local[1]": one, "local[2]": two})
    assert one.rows == two.rows
