"""The tables of captures of any size: written to a sink (`dissect`), or as DataFrames (`plan`, `read`).

The captures are cut into byte ranges, and a walk over their record headers proves where each begins. The
byte ranges form partitions of timelines, which the jobs of `job` dissect.
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
from ..capture.embedded_secrets import unused_secrets
from ..capture.files import size_and_mtime
from ..capture.sources import time_range
from ..capture.time_range import TimeRange
from ..errors import SparkError
from ..kernel.load import serves
from ..options import Options
from ..partition.byte_ranges import captures
from ..partition.partitions import Partition, index_captures, partitions_of, ranges_with_secrets
from ..partition.record_index import RecordChain, RecordIndex, joined, walk_chain
from ..tables import FROM_ENGINE, TABLES, frames_for
from .delta import DeltaSink, is_delta
from .iceberg import IcebergSink, is_iceberg
from .job import Job, TimelineJob
from .launch.worker_python import set_worker_python
from .launch.worker_storage import share_storage
from .options.job_options import JobOptions, read_options
from .output import Folder
from .progress import Stages, wants_progress
from .sink import NewWriter, TableSink, TableWriter
from .spark_errors import fault_of
from .tasks import application
from .tasks import arrow_tasks as tasks
from .tasks.grouped import ITEMS
from .tasks.inputs import Inputs, JobSpec, Timeline
from .tasks.task_runner import RESULTS, TaskRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


@dataclass(slots=True)
class Summary:
    """The result of a job. `rows` are counts by table, `seconds` by stage.

    `wrong_starts` is the number of byte ranges whose beginning was guessed wrong. `shares` is the number of
    tasks that dissected whole flows; 0 means that tasks dissected chunks. Then `surveyed_again` is the number
    of partitions that were surveyed again, because IP fragments or subflows of Multipath TCP reach them.
    `continued` counts how often a flow continued in a later partition, `read_again` how often its
    packets were read again then, because its summary could not be proven. `moved_bytes` is the size of
    the data that moved between tasks. `damaged` and `unreadable` name files with the reason, `passed_over`
    files that are not captures, `no_tcp` counts packets without TCP by reason, and `warnings` are about files
    that make the job slow, and about TLS secrets in captures that cannot be used. `with_kernel` counts the
    parts of captures (chunks, shares of flows, or whole captures) that the kernel decoded, `without_kernel`
    those that Python alone did, by reason.
    """

    files: int = 0
    chunks: int = 0
    wrong_starts: int = 0
    shares: int = 0
    surveyed_again: int = 0
    packets: int = 0
    bytes: int = 0
    no_tcp: dict[str, int] = field(default_factory=dict)
    with_kernel: int = 0
    without_kernel: dict[str, int] = field(default_factory=dict)
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
    partitioned by day; or a namespace of Iceberg, as `iceberg:CATALOG.NAMESPACE`; or a folder of Delta
    tables, as `delta:FOLDER`. Tables of an earlier job are replaced at the end; if the job fails, they stay.
    With `progress`, stderr shows the progress of each stage. Raises DissectError.
    """
    share_storage(spark)
    sink = _sink_of(out, paths, tables) if isinstance(out, str) else out
    sink.check()
    set_worker_python(spark)
    summary = Summary()
    stages = Stages(progress, summary.seconds)
    decoded = tasks.Decoded()
    with closing(TaskRunner(spark)) as runner:
        wanted = {*set(tables).intersection(FROM_ENGINE), "sessions"}
        is_served = serves({*tables, "sessions"}, options.options)
        jobs = _planned(runner, paths, wanted, options, summary, stages, is_served)
        with _run_of(sink) as run:
            for number, job in enumerate(jobs):
                _write(job, tables, _numbered(sink.writer(run), number, len(jobs)), decoded)
                if isinstance(job, Job):
                    _add_counts(summary, job)
                runner.close()  # the next one keeps its own
            summary.rows = {table: decoded.rows[table] for table in tables}
            summary.no_tcp = dict(sorted(decoded.counts.passed_over.items()))
            summary.with_kernel = decoded.counts.with_kernel
            summary.without_kernel = dict(sorted(decoded.counts.without_kernel.items()))
            summary.missing_bytes = decoded.missing_bytes
            summary.skipped_bytes = decoded.skipped_bytes
            with stages.running("publish", spark):
                sink.publish(run, tables, decoded.written, summary.values())
    return summary


def _sink_of(out: str, paths: Sequence[str], tables: Sequence[str]) -> TableSink:
    if is_iceberg(out):
        return IcebergSink(out, captures(paths, CaptureReport()), tables)
    if is_delta(out):
        return DeltaSink(out, captures(paths, CaptureReport()), tables)
    return Folder(out)


@contextmanager
def _run_of(sink: TableSink) -> Iterator[str]:
    """A run, whose files are removed if the block fails."""
    run = sink.begin(uuid4().hex)
    try:
        yield run
    except BaseException:
        sink.discard(run)
        raise


def _numbered(writer: NewWriter, position: int, count: int) -> NewWriter:
    """Makes writers with numbers that no other of `count` jobs uses."""

    def new(number: int, tables: Iterable[str]) -> TableWriter:
        return writer(number * count + position, tables)

    return new


def _write(
    job: Job | TimelineJob, tables: Sequence[str], writer: NewWriter, decoded: tasks.Decoded
) -> None:
    """Writes the tables of one job."""
    spark = job.runner.spark
    direct = tuple(table for table in tables if job.decodes(table))
    others = [table for table in tables if table not in direct]
    spec = replace(job.spec, tables=job.spec.tables.union(direct))
    has_sessions = "sessions" in others

    def function(inputs: Inputs) -> tasks.Function:
        return tasks.writing(spec, inputs, direct, writer, has_sessions)

    frame = job.decoded(function)
    frame = job.runner.keep(frame) if has_sessions else frame
    with job.stages.running("decode", spark):
        for row in frame.where("flow = X''").collect():
            decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
    if isinstance(job, Job):
        if has_sessions:
            items = frame.mapInArrow(application.written_session_items, ITEMS)
            size = application.size_of_session_items(frame)
            made = application.prepared_sessions(job.runner, items, size)
            _write_made(job, ["sessions"], made, writer, decoded)
        _write_layers(job, [table for table in others if table != "sessions"], writer, decoded)


def _write_layers(
    job: Job, tables: Sequence[str], writer: NewWriter, decoded: tasks.Decoded
) -> None:
    """Writes the tables of application layers that the decode does not make."""
    by_session = list(filter(application.is_by_session, tables))
    for some in (by_session, *([table] for table in tables if table not in by_session)):
        if some:
            made = _prepared(job.for_tables([frames_for(*some)]), some)
            _write_made(job, some, made, writer, decoded)


def _write_made(
    job: Job,
    tables: Sequence[str],
    made: tuple[DataFrame, application.Make],
    writer: NewWriter,
    decoded: tasks.Decoded,
) -> None:
    """Writes the tables that a function makes from the partitions of a DataFrame."""
    rows, make = made
    with job.stages.running(" ".join(tables), job.runner.spark):
        files = application.layer_files(tables, make, writer)
        for row in rows.mapInArrow(files, RESULTS).collect():
            decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))


class Plan:
    """Indexed captures, which are sampled or surveyed once for all tables.

    `summary` has the counts of files and packets. Rows, losses and damage inside packets are not known yet.
    """

    def __init__(
        self, runner: TaskRunner, jobs: Sequence[Job | TimelineJob], summary: Summary
    ) -> None:
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
        """The rows of one job."""
        job = self._jobs[number]
        # The states of flows are for the tables of the job; without states, one table takes less time.
        tables = frozenset([name]) if job.has_whole_flows else job.spec.tables
        spec = replace(job.spec, tables=tables)
        if isinstance(job, Job) and name == "sessions":
            items = job.decoded(lambda inputs: application.session_items(spec, inputs), ITEMS)
            rows, make = application.prepared_sessions(self._runner, items, job.bytes)
            return rows.mapInArrow(application.layer_rows(name, make), schema)
        if isinstance(job, Job) and not job.decodes(name):
            made = job.for_tables([frames_for(name)])
            layer_job = self._layer_jobs.setdefault((number, name), made)
            frames, make = _prepared(layer_job, [name])
            return frames.mapInArrow(application.layer_rows(name, make), schema)
        return job.decoded(lambda inputs: tasks.reading(spec, inputs, name), schema)

    def close(self) -> None:
        """Frees the plan's data on Spark's local disks. Its DataFrames can still be used, but each action
        then surveys the captures again."""
        self._runner.close()


def plan(spark: SparkSession, paths: str | Sequence[str], **options: object) -> Plan:
    """Indexes captures for `Plan.table`. Options are those of `dissect.nats.Options`, `chunk_size` (bytes, or
    "64M"), and `progress`: whether stderr shows the progress of each stage (by default at a terminal and in a
    notebook). Raises DissectError."""
    wanted = read_options(options)
    share_storage(spark)
    set_worker_python(spark)
    runner, summary = TaskRunner(spark), Summary()
    stages = Stages(wants_progress(wanted.progress), summary.seconds)
    names = [paths] if isinstance(paths, str) else paths
    with one_line_errors():
        is_served = serves(["sessions"], wanted.options)  # each table is made by itself
        jobs = _planned(runner, names, FROM_ENGINE, wanted, summary, stages, is_served)
    return Plan(runner, jobs, summary)


# The latest plan of each session, with the arguments that it was made from.
_PlanKey = tuple[list[tuple[str, int, int]], JobOptions]
_latest: WeakKeyDictionary[SparkSession, tuple[_PlanKey, Plan]] = WeakKeyDictionary()


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
    share_storage(spark)
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
    return application.prepared(job.runner, found, tables, job.bytes)


def _planned(
    runner: TaskRunner,
    paths: Sequence[str],
    tables: Collection[str],
    options: JobOptions,
    summary: Summary,
    stages: Stages,
    is_served: bool,
) -> list[Job | TimelineJob]:
    """The jobs that dissect these captures: one for all timelines that are not cut, one for each other.
    `is_served` is whether the kernel may make the tables."""
    report = CaptureReport()
    wanted = options.options
    with stages.running("walk", runner.spark):
        size = options.chunk_size

        def walk_all(chains: Sequence[RecordChain]) -> list[list[RecordIndex]]:
            some = sum(each.bytes for chain in chains for each in chain) // len(chains)
            return cast(list[list[RecordIndex]], runner.call(walk_chain, chains, some))

        walked, wrong = index_captures(paths, size, report, walk_all, wanted.max_expanded)
    report.files = [joined(each) for each in walked]
    _add_captures(summary, walked, report)
    summary.wrong_starts += wrong
    groups = [[file] for file in walked] if wanted.separate else [walked]
    timelines = [found for group in groups if (found := _timeline(group, wanted)).partitions]
    summary.chunks += sum(len(each.partitions) for each in timelines)
    spec = JobSpec(frozenset(tables), replace(wanted, from_time=None, until_time=None))
    flows = options.whole_flows
    whole, cut = _divided(timelines, runner.cores if flows else None)
    jobs: list[Job | TimelineJob] = []
    if whole:
        jobs.append(TimelineJob(runner, spec, whole, stages))
    for each in cut:
        parts = spec.within(each), each.partitions, each.bytes
        jobs.append(Job(runner, *parts, stages, flows, is_served))
    return jobs


def _timeline(files: Sequence[Sequence[RecordIndex]], options: Options) -> Timeline:
    """The partitions of files that form one timeline, in the time range of the options."""
    paths = [file[0].byte_range.path for file in files]
    window = time_range(paths, options.from_time, options.until_time)
    found = _inside(partitions_of(files), files, window)
    return Timeline(found, window, ranges_with_secrets(files))


def _divided(
    timelines: Sequence[Timeline], cores: int | None
) -> tuple[list[Timeline], list[Timeline]]:
    """The timelines that one task dissects from beginning to end, and those that are cut. A task dissects
    those of one partition and, unless `cores` is None, those that are not larger than a core's share of all
    captures: no task runs longer than the others together take."""
    all_bytes = sum(each.bytes for each in timelines)
    whole: list[Timeline] = []
    cut: list[Timeline] = []
    for each in timelines:
        is_small = cores is not None and each.bytes * cores <= all_bytes
        (whole if is_small or len(each.partitions) == 1 else cut).append(each)
    return whole, cut


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
    summary.warnings += unused_secrets(report)


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
