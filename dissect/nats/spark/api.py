"""The tables of captures of any size: written to a sink (`dissect`), or as DataFrames (`plan`, `read`).

The captures are cut into byte ranges, and a walk over their record headers proves where each begins. The
byte ranges form partitions of one timeline, which `job.Job` dissects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from ..capture import CaptureReport
from ..capture.files import size_and_mtime
from ..capture.sources import time_range
from ..capture.time_range import TimeRange
from ..errors import SparkError
from ..partition.byte_ranges import captures
from ..partition.partitions import Partition, index_captures, partitions_of, ranges_with_secrets
from ..partition.record_index import Chain, RecordIndex, joined, walk_chain
from ..pipeline import timelines
from ..tables import FROM_ENGINE, TABLES, frames_for
from .job import Job
from .launch.worker_python import set_worker_python
from .options.job_options import JobOptions, read_options
from .output import Folder
from .progress import Stages, wants_progress
from .sink import NewWriter, TableSink, TableWriter
from .spark_errors import fault_of
from .tasks import application
from .tasks import arrow_tasks as tasks
from .tasks.stages import Inputs, JobSpec
from .tasks.task_runner import RESULTS, TaskRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(slots=True)
class Summary:
    """The result of a job. `rows` are counts by table, `seconds` by stage.

    `wrong_starts` is the number of byte ranges whose beginning was guessed wrong. `shares` is the number of
    tasks that dissected whole flows; 0 means that tasks dissected chunks. Then `surveyed_again` is the number
    of partitions that were surveyed twice, because fragments of IP packets are incomplete where they begin.
    `continued` counts how often a flow continued in a later partition, `read_again` how often its
    packets were read again then, because its summary could not be proven. `moved_bytes` is the size of
    the data that moved between tasks. `damaged` and `unreadable` name files with the reason, `passed_over`
    files that are not captures, `no_tcp` counts packets without TCP by reason, and `warnings` are about files
    that make the job slow.
    """

    files: int = 0
    chunks: int = 0
    wrong_starts: int = 0
    shares: int = 0
    surveyed_again: int = 0
    packets: int = 0
    bytes: int = 0
    no_tcp: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    missing_bytes: int = 0
    skipped_bytes: int = 0
    continued: int = 0
    read_again: int = 0
    moved_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    damaged: list[str] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    @property
    def is_damaged(self) -> bool:
        """Whether some of the input could not be read."""
        return bool(self.damaged or self.unreadable)

    def values(self) -> dict[str, object]:
        """The summary as values for JSON."""
        return asdict(self)


def dissect(
    spark: SparkSession,
    paths: Sequence[str],
    tables: Sequence[str],
    options: JobOptions,
    out: str | TableSink,
    progress: bool = False,
) -> Summary:
    """Writes tables of captures to a sink. A string names a folder: each table becomes Parquet files there,
    partitioned by day. Tables of an earlier job are replaced at the end; if the job fails, they stay. With
    `progress`, stderr shows the progress of each stage. Raises DissectError.
    """
    sink: TableSink = Folder(out) if isinstance(out, str) else out
    sink.check()
    set_worker_python(spark)
    summary = Summary()
    stages = Stages(progress, summary.seconds)
    decoded = tasks.Decoded()
    run = ""
    groups = _timelines(paths, options, summary)
    for number, group in enumerate(groups):
        with closing(TaskRunner(spark)) as runner:
            from_engine = set(tables).intersection(FROM_ENGINE)
            job = _planned(runner, group, {*from_engine, "sessions"}, options, summary, stages)
            run = run or sink.begin(uuid4().hex)
            if job:
                _write(
                    job,
                    tables,
                    _numbered(sink.writer(run), number, len(groups)),
                    decoded,
                )
                _add_counts(summary, job)
    summary.rows = {table: decoded.rows[table] for table in tables}
    summary.no_tcp = dict(sorted(decoded.passed_over.items()))
    summary.missing_bytes, summary.skipped_bytes = (
        decoded.missing_bytes,
        decoded.skipped_bytes,
    )
    with stages.running("publish", spark):
        sink.publish(run, tables, decoded.written, summary.values())
    return summary


def _timelines(
    paths: Sequence[str], options: JobOptions, summary: Summary
) -> Sequence[Sequence[str]]:
    """The captures of each timeline, see `pipeline.timelines`."""
    report = CaptureReport()
    found = [list(group) for group in timelines(paths, options.options, report)]
    summary.unreadable += report.unreadable
    summary.passed_over += report.passed_over
    return found


def _numbered(writer: NewWriter, position: int, count: int) -> NewWriter:
    """Makes writers with numbers that no other of `count` timelines uses."""

    def new(number: int, tables: Iterable[str]) -> TableWriter:
        return writer(number * count + position, tables)

    return new


def _write(job: Job, tables: Sequence[str], writer: NewWriter, decoded: tasks.Decoded) -> None:
    """Writes the tables of one timeline."""
    spark = job.runner.spark
    direct = tuple(table for table in tables if _is_decoded(job, table))
    spec = replace(job.spec, tables=job.spec.tables.union(direct))

    def function(inputs: Inputs) -> tasks.Function:
        return tasks.writing(spec, inputs, direct, writer)

    frame = job.decoded(function)
    with job.stages.running("decode", spark):
        for row in frame.collect():
            decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
    layered = [table for table in tables if table not in direct]
    by_session = list(filter(application.is_by_session, layered))
    for some in (by_session, *([table] for table in layered if table not in by_session)):
        if some:
            with job.stages.running(" ".join(some), spark):
                frames, make = _prepared(job.for_tables([frames_for(*some)]), some)
                files = application.layer_files(some, make, writer)
                for row in frames.mapInArrow(files, RESULTS).collect():
                    decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))


def _is_decoded(job: Job, table: str) -> bool:
    """Whether the decode makes the rows of a table, because its tasks have all that the rows depend on."""
    if table in FROM_ENGINE:
        return True
    return application.is_by_session(table) and job.has_whole_flows


class Plan:
    """Indexed captures, which are sampled or surveyed once for all tables.

    `summary` has the counts of files and packets. Rows, losses and damage inside packets are not known yet.
    """

    def __init__(self, runner: TaskRunner, jobs: Sequence[Job], summary: Summary) -> None:
        self.summary = summary
        self._runner = runner
        self._jobs = jobs
        self._layer_jobs: dict[tuple[int, str], Job] = {}

    def table(self, name: str) -> DataFrame:
        """A table as a DataFrame, unordered. The first call samples or surveys the captures, which takes a
        while. Each action on the DataFrame decodes them again, so `persist` it if you use it more than once.
        Raises DissectError."""
        from .types import spark_schema

        _check_table(name)
        schema = spark_schema(name)
        with one_line_errors():
            found = [self._rows(number, name, schema) for number in range(len(self._jobs))]
        if not found:
            return self._runner.spark.createDataFrame([], schema)
        return reduce(lambda whole, part: whole.unionAll(part), found)

    def _rows(self, number: int, name: str, schema: StructType) -> DataFrame:
        """The rows of one timeline."""
        job = self._jobs[number]
        if not _is_decoded(job, name):
            made = job.for_tables([frames_for(name)])
            layer_job = self._layer_jobs.setdefault((number, name), made)
            frames, make = _prepared(layer_job, [name])
            return frames.mapInArrow(application.layer_rows(name, make), schema)
        # The states of flows are for the tables of the job; without states, one table takes less time.
        tables = frozenset([name]) if job.has_whole_flows else job.spec.tables
        spec = replace(job.spec, tables=tables)
        return job.decoded(lambda inputs: tasks.reading(spec, inputs, name), schema)

    def close(self) -> None:
        """Frees the plan's data on Spark's local disks. Its DataFrames can still be used, but each action
        then surveys the captures again."""
        self._runner.close()


def plan(spark: SparkSession, paths: str | Sequence[str], **options: object) -> Plan:
    """Indexes captures for `Plan.table`. Options are `payload` ("none", "sha256", "text", "base64"),
    `redact` (True), `port` ({4222: "client"}), `kind` ("route", or several), `from_time` and `until_time`
    ("2026-11-21T02:01", or seconds after the first packet, "1.5"), `separate` (True: each capture is a
    timeline of its own), `keylog` (a path, or several), `max_expanded` (bytes of a decompressed capture),
    `chunk_size` in bytes, and `progress`: whether stderr shows the progress of each stage (by default at a
    terminal and in a notebook). Raises DissectError."""
    wanted = read_options(options)
    set_worker_python(spark)
    runner, summary = TaskRunner(spark), Summary()
    progress = options.get("progress")
    stages = Stages(wants_progress(None if progress is None else bool(progress)), summary.seconds)
    names = [paths] if isinstance(paths, str) else paths
    with one_line_errors():
        found = [
            _planned(runner, group, FROM_ENGINE, wanted, summary, stages)
            for group in _timelines(names, wanted, summary)
        ]
    return Plan(runner, [job for job in found if job], summary)


# The latest plan of each session, with the arguments that it was made from.
_Key = tuple[list[tuple[str, int, int]], JobOptions]
_latest: WeakKeyDictionary[SparkSession, tuple[_Key, Plan]] = WeakKeyDictionary()


def read(
    spark: SparkSession,
    paths: str | Sequence[str],
    table: str = "frames",
    **options: object,
) -> DataFrame:
    """A table of captures as a DataFrame: one row for each record that `nats-dissect TABLE` prints,
    unordered. The same as `plan(spark, paths, **options).table(table)`, but the session's latest plan is
    reused while captures and options are the same, and closed when another takes its place. Raises
    DissectError."""
    _check_table(table)
    names = [paths] if isinstance(paths, str) else paths
    files = [(path, *size_and_mtime(path)) for path in captures(names, CaptureReport())]
    key = files, read_options(options)
    known, made = _latest.get(spark, (None, None))
    if made is None or known != key:
        before, made = made, plan(spark, names, **options)
        _latest[spark] = key, made
        if before:
            before.close()
    return made.table(table)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Raises Spark's errors as a DissectError of one line with a remedy."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise fault_of(error) from error


def _check_table(name: object) -> None:
    if not isinstance(name, str) or name not in TABLES:
        raise SparkError(f"there is no table {name!r}", f"there are {', '.join(TABLES)}")


def _prepared(job: Job, tables: Sequence[str]) -> tuple[DataFrame, application.Make]:
    """A DataFrame with the input of the layers of these tables, and the function that makes their rows in the
    tasks. The job is for the frames that these layers read, and is surveyed by itself, because its states
    have payloads."""
    spec = job.spec
    found = job.decoded(lambda inputs: application.wanted_frames(spec, inputs), application.FRAMES)
    return application.prepared(job.runner, found, tables)


def _planned(
    runner: TaskRunner,
    paths: Sequence[str],
    tables: Collection[str],
    options: JobOptions,
    summary: Summary,
    stages: Stages,
) -> Job | None:
    """The job; None if the captures have no packets."""
    report = CaptureReport()
    wanted = options.options
    with stages.running("walk", runner.spark):
        size = options.chunk_bytes

        def walk_all(chains: Sequence[Chain]) -> list[list[RecordIndex]]:
            return cast(list[list[RecordIndex]], runner.call(walk_chain, chains, size))

        walked, wrong = index_captures(paths, size, report, walk_all, wanted.max_expanded)
    report.files = [joined(each) for each in walked]
    _add_captures(summary, walked, report)
    summary.wrong_starts += wrong
    window = time_range(paths, wanted.from_time, wanted.until_time)
    found = _inside(partitions_of(walked), walked, window)
    summary.chunks += len(found)
    if not found:
        return None
    untimed = replace(wanted, from_time=None, until_time=None)
    spec = JobSpec(frozenset(tables), untimed, window, ranges_with_secrets(walked))
    size = sum(each.bytes for each in found)
    return Job(runner, spec, found, size, stages, options.whole_flows)


def _add_captures(
    summary: Summary, walked: Sequence[Sequence[RecordIndex]], report: CaptureReport
) -> None:
    summary.files += len(walked)
    summary.bytes += sum(file[0].byte_range.size for file in walked)
    summary.packets += sum(file.packets for file in report.files)
    summary.damaged += [f"{file.path}: {file.damage}" for file in report.files if file.damage]
    summary.unreadable += report.unreadable
    summary.passed_over += report.passed_over
    summary.warnings += [
        f"{file[0].byte_range.path} is compressed: one task reads all of it; see nats-dissect split"
        for file in walked
        if file[0].byte_range.packed
    ]


def _inside(
    found: Sequence[Partition],
    walked: Iterable[Sequence[RecordIndex]],
    window: TimeRange,
) -> list[Partition]:
    """The partitions that may have packets in the window."""
    times = {
        (each.byte_range.path, each.byte_range.number): (each.smallest_ns, each.last_ns)
        for file in walked
        for each in file
        if each.smallest_ns is not None and each.last_ns is not None
    }
    return [
        partition
        for partition in found
        if any(window.meets(*times[each.path, each.number]) for each in partition.byte_ranges)
    ]


def _add_counts(summary: Summary, job: Job) -> None:
    for name in ("shares", "surveyed_again", "continued", "read_again", "moved_bytes"):
        setattr(summary, name, getattr(summary, name) + getattr(job, name))
