"""A job over many captures on a standalone cluster of two workers, of which one may be killed.

    python -m tests.bench.on_cluster FOLDER [--files 100] [--megabytes 20] ...

A sensor's captures, each going on where the last one ended; the one in the middle is `--skew` times as large.
The job dissects whole flows, then chunks, then chunks again while a worker is killed as soon as rows are
written. Each time the rows are those of the command line, value for value. Prints one line of JSON a job: the
seconds of each stage, and the processor time of all processes, in seconds and in bytes a second and core.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import duckdb

from dissect.nats.output.table_folder import RUNS
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.spark.submit import session

from tests.bench.generate import Plan, write_file
from tests.bench.in_spark import descendants
from tests.support.standalone import Cluster, cluster

MB = 1_000_000
TABLES = ("frames", "sessions")
_PACKET_BYTES = 600  # of the generated traffic, about
_HEADER, _RECORD = 24, struct.Struct("<8xI4x")  # of a pcap file
_LOOK_S = 0.2
_TICKS = os.sysconf("SC_CLK_TCK")


class Job(NamedTuple):
    """What one job took."""

    job: str
    bytes: int
    seconds: float
    cpu_s: float
    bytes_a_core_second: int
    stages: dict[str, float]
    shares: int
    chunks: int
    lost_a_worker: bool


def captures(folder: Path, files: int, size: int, skew: int) -> list[str]:
    """Writes so many captures of `size` bytes; one is `skew` times as large."""
    sizes = [size * (skew if number == files // 2 else 1) for number in range(files)]
    whole = folder / "whole"
    write_file(whole, Plan(sum(sizes) // _PACKET_BYTES))
    paths = [str(folder / f"nats-{number:03}.pcap") for number in range(files)]
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        begin = at = _HEADER
        for number, path in enumerate(paths):
            is_last = number == files - 1
            while at < len(data) and (is_last or at - begin < sizes[number]):
                at += 16 + _RECORD.unpack_from(data, at)[0]
            with open(path, "wb") as output:
                output.write(data[:_HEADER])
                output.write(data[begin:at])
            begin = at
    whole.unlink()
    return paths


def digest(pattern: str) -> tuple[int, int]:
    """The number of rows in Parquet files, and a sum over all their values."""
    rows = f"read_parquet('{pattern}', hive_partitioning = false)"
    ((count, sum_),) = duckdb.sql(f"SELECT count(*), sum(hash(r)) FROM {rows} AS r").fetchall()
    return count, int(sum_)


def wanted_rows(paths: Sequence[str], folder: Path) -> dict[str, tuple[int, int]]:
    """The digests of the command line's rows."""
    found = {}
    for table in TABLES:
        out = folder / f"{table}.parquet"
        command = [sys.executable, "-m", "dissect.nats", table, *paths, "-o", str(out)]
        subprocess.run([*command, "--format", "parquet"], check=True)
        found[table] = digest(str(out))
    return found


class _Processors:
    """The processor time of the processes that this one has started. What they take between the last look and
    their end is not counted."""

    def __init__(self) -> None:
        self._ticks: dict[int, int] = {}

    def look(self) -> None:
        for pid in descendants(os.getpid()):
            try:
                fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            self._ticks[pid] = int(fields[11]) + int(fields[12])

    @property
    def seconds(self) -> float:
        """The time until now."""
        return sum(self._ticks.values()) / _TICKS + time.process_time()


@contextmanager
def watched(processors: _Processors, killed: Path | None, workers: Cluster) -> Iterator[None]:
    """Looks at the processes, and kills a worker once there are rows below `killed`."""
    over = threading.Event()

    def look() -> None:
        waiting = killed
        while not over.wait(_LOOK_S):
            processors.look()
            if waiting and any(path.stat().st_size for path in waiting.rglob("*.parquet")):
                workers.workers[0].kill()
                waiting = None

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def run(paths: Sequence[str], work: Path, chunk_size: int, name: str) -> tuple[Job, Path]:
    """One job on a cluster of its own: `flows`, `chunks`, or `killed`, which is chunks with a kill."""
    out = work / f"tables-{name}"
    size = sum(os.path.getsize(path) for path in paths)
    options = JobOptions(chunk_size=chunk_size, whole_flows=name == "flows")
    processors = _Processors()
    (work / name).mkdir()
    with cluster(work / name) as started:
        conf = {"spark.executor.memory": "512m", "spark.ui.enabled": "false"}
        with session(started.url, conf) as spark:
            processors.look()
            before, begun = processors.seconds, time.monotonic()
            with watched(processors, out / RUNS if name == "killed" else None, started):
                summary = dissect(spark, [*paths], TABLES, options, str(out))
            processors.look()
            took, cpu = time.monotonic() - begun, processors.seconds - before
        lost = started.workers[0].poll() is not None
    stages = {stage: round(seconds, 1) for stage, seconds in summary.seconds.items()}
    job = Job(
        job=name,
        bytes=size,
        seconds=round(took, 1),
        cpu_s=round(cpu, 1),
        bytes_a_core_second=round(size / cpu),
        stages=stages,
        shares=summary.shares,
        chunks=summary.chunks,
        lost_a_worker=lost,
    )
    return job, out


def main(arguments: Sequence[str]) -> int:
    """Runs the jobs; they must agree with the command line."""
    parser = argparse.ArgumentParser(prog="tests.bench.on_cluster")
    parser.add_argument("folder", type=Path)
    for name, default in (("files", 100), ("megabytes", 20), ("skew", 10), ("chunk", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--jobs", nargs="+", default=["flows", "chunks", "killed"])
    asked = parser.parse_args(arguments)
    work = asked.folder.resolve()
    work.mkdir(parents=True, exist_ok=True)
    paths = captures(work, asked.files, asked.megabytes * MB, asked.skew)
    wanted = wanted_rows(paths, work)
    for name in asked.jobs:
        job, out = run(paths, work, asked.chunk << 20, name)
        found = {table: digest(f"{out}/{table}/*/*.parquet") for table in TABLES}
        assert found == wanted, f"{name}: {found} and not {wanted}"
        assert job.lost_a_worker == (name == "killed")
        print(json.dumps(job._asdict()), flush=True)
        shutil.rmtree(out)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
