"""One Spark session in which captures are scanned and dissected by turns, and what that took.

    python -m tests.bench.in_spark MASTER CHUNK_BYTES ROUNDS FOLDER auto|chunks CAPTURE...

Prints one line of JSON: what `Figures` has for each scan and each job. A scan reads every packet of the job's
own partitions and counts the TCP segments, no more. Both were run on a small capture before. With `chunks`
jobs dissect no whole flows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from dissect.nats.capture import CaptureReport
from dissect.nats.packet import PacketParser
from dissect.nats.partition.partitions import Partition, read_partition
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.spark.submit import session
from dissect.nats.spark.tasks.task_runner import TaskRunner

from tests.support.partitioned import planned
from tests.support.paths import CAPTURES, ROOT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("frames", "sessions")
SMALL = CAPTURES / "core-2.15.1.pcap"
SMALL_CHUNK = 16 << 10
_LOOK_S = 0.1


@dataclass(slots=True)
class Figures:
    """What one run took. `segments` are a scan's; all after it is of a job: `stages` are seconds by name,
    `shares` the tasks that dissected whole flows,
    `moved_bytes` what its summary says of states, `shuffled_bytes` what Spark says of all that it moved.
    `peak_bytes` is that of the largest Python worker of the session until then."""

    capture: str
    what: str
    seconds: float
    peak_bytes: int
    segments: int = 0
    packets: int = 0
    chunks: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    stages: dict[str, float] = field(default_factory=dict)
    shares: int = 0
    moved_bytes: int = 0
    shuffled_bytes: int = 0


def in_spark(
    master: str,
    chunk_bytes: int,
    rounds: int,
    folder: Path,
    captures: Sequence[str],
    whole_flows: bool = True,
) -> list[Figures]:
    """Runs this module in a process of its own."""
    arguments = [master, str(chunk_bytes), str(rounds), str(folder)]
    arguments += ["auto" if whole_flows else "chunks", *captures]
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench.in_spark", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [Figures(**each) for each in json.loads(done.stdout.splitlines()[-1])]


def count_segments(partition: Partition) -> int:
    """How many TCP segments a partition has."""
    packets = read_partition(partition, CaptureReport())
    return sum(1 for _ in PacketParser().feed(packets))


class _Workers:
    """The Python workers of this process's Spark, and the most memory that any of them had."""

    def __init__(self) -> None:
        self.peak_bytes = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look)

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Looks at them again and again."""
        self._thread.start()
        try:
            yield
        finally:
            self._over.set()
            self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Looks at those that are there now."""
        for pid in descendants(os.getpid()):
            try:
                is_worker = b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
                status = Path(f"/proc/{pid}/status").read_text() if is_worker else ""
            except OSError:  # it has ended
                continue
            for line in status.splitlines():
                if line.startswith("VmHWM:"):
                    self.peak_bytes = max(self.peak_bytes, int(line.split()[1]) * 1024)


def descendants(pid: int) -> Iterator[int]:
    """The processes that a process has started, and theirs."""
    try:
        children = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return
    for child in map(int, " ".join(children).split()):
        yield child
        yield from descendants(child)


def _timed(action: Callable[[], Figures]) -> Figures:
    begun = time.monotonic()
    figures = action()
    figures.seconds = time.monotonic() - begun
    return figures


def _shuffled(spark: SparkSession) -> int:
    """What the session's tasks have written for others until now."""
    context = spark.sparkContext._jsc.sc()
    context.listenerBus().waitUntilEmpty()
    executors = context.statusStore().executorList(False)
    return sum(executors.apply(at).totalShuffleWrite() for at in range(executors.size()))


def _scan(spark: SparkSession, capture: str, partitions: Sequence[Partition]) -> Figures:
    runner = TaskRunner(spark)
    size = sum(partition.bytes for partition in partitions) // len(partitions)
    counts = runner.call(count_segments, partitions, size)
    segments = sum(count for count in counts if isinstance(count, int))
    return Figures(capture, "scan", 0.0, 0, segments, chunks=len(partitions))


def _job(spark: SparkSession, capture: str, options: JobOptions, out: Path) -> Figures:
    result = dissect(spark, [capture], TABLES, options, str(out))
    return Figures(
        *(capture, "job", 0.0, 0, 0, result.packets, result.chunks, result.rows, result.seconds),
        shares=result.shares,
        moved_bytes=result.moved_bytes,
    )


def measured(
    spark: SparkSession, capture: str, options: JobOptions, workers: _Workers, folder: Path
) -> Iterator[Figures]:
    """A scan, and a job."""
    partitions = planned([capture], options.chunk_size)
    out = folder / "tables"
    yield _timed(lambda: _scan(spark, capture, partitions))
    before = _shuffled(spark)
    figures = _timed(lambda: _job(spark, capture, options, out))
    figures.shuffled_bytes = _shuffled(spark) - before
    workers.look()
    figures.peak_bytes = workers.peak_bytes
    yield figures
    shutil.rmtree(out)


def main(arguments: Sequence[str]) -> int:
    """What the arguments ask for."""
    master, folder = arguments[0], Path(arguments[3])
    rounds = int(arguments[2])
    options = JobOptions(chunk_size=int(arguments[1]), whole_flows=arguments[4] == "auto")
    workers = _Workers()
    conf = {"spark.local.dir": str(folder), "spark.driver.memory": "1g"}
    with session(master, conf) as spark, workers.watched():
        small = JobOptions(chunk_size=SMALL_CHUNK)
        list(measured(spark, str(SMALL), small, workers, folder))
        found = [
            asdict(figures)
            for _ in range(rounds)
            for capture in arguments[5:]
            for figures in measured(spark, capture, options, workers, folder)
        ]
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
