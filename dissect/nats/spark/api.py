"""The tables of captures of any size: written to a sink (`dissect`), or as DataFrames (`plan`, `read`).

The captures are cut into byte ranges, and a walk over their record headers proves where each begins. The
byte ranges form partitions of one timeline, which `plan.Job` dissects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, cast
from uuid import uuid4
from weakref import WeakKeyDictionary

from natsync.protocol import Kind

from ..capture import CaptureReport
from ..capture.files import size_and_mtime
from ..capture.time_range import TimeRange
from ..declaration import Layer
from ..errors import SparkError
from ..options import Options
from ..partition.byte_ranges import captures
from ..partition.partitions import Partition, index_captures, partitions_of
from ..partition.record_index import Chain, RecordIndex, joined, walk_chain
from ..tables import FROM_ENGINE, TABLES, frames_for
from . import application
from . import arrow_tasks as tasks
from .output import Folder
from .plan import Job
from .progress import Stages, wants_progress
from .settings import KINDS, PAYLOADS
from .sink import TableSink
from .spark_errors import fault_of
from .stages import ChunkContext, JobSpec
from .task_runner import RESULTS, TaskRunner
from .worker_python import set_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_BYTES = 128 << 20
SMALLEST_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """Options of a job. `chunk_bytes` is the approximate size of a partition. With `window`, only
    packets in this time range are read, as if the captures had no others."""

    options: Options = field(default_factory=Options)
    chunk_bytes: int = CHUNK_BYTES
    window: TimeRange = TimeRange()


@dataclass(slots=True)
class Summary:
    """The result of a job. `rows` are counts by table, `seconds` by stage.

    `wrong_starts` is the number of byte ranges whose beginning was guessed wrong, `surveyed_again` the
    number of partitions that were surveyed twice because fragments of IP packets wait when they begin.
    `continued` counts how often a flow continued in a later partition; in `read_again` of these cases its
    packets were read again, because its summary could not be proven. `moved_bytes` went between tasks.
    `damaged` and `unreadable` name files with the reason, `passed_over` files that are no captures,
    `no_tcp` counts packets without TCP by reason, and `warnings` names what makes the job slow.
    """

    files: int = 0
    chunks: int = 0
    wrong_starts: int = 0
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
    """Writes tables of captures to a sink. A string names a folder: each table becomes Parquet files,
    partitioned by day. Tables that an earlier job wrote there are replaced at the end; if the job fails,
    they stay. With `progress`, stderr shows the progress of each stage. Raises DissectError."""
    sink: TableSink = Folder(out) if isinstance(out, str) else out
    sink.check()
    set_worker_python(spark)
    summary = Summary()
    stages = Stages(progress, summary.seconds)
    with closing(TaskRunner(spark)) as runner:
        layers = {table: layer for table in tables if (layer := application.layer_of(table))}
        direct = tuple(table for table in tables if table not in layers)
        job = _planned(runner, paths, {*direct, "sessions"}, options, summary, stages)
        run = sink.begin(uuid4().hex)
        decoded = tasks.Decoded()
        if job:
            spec, writer = job.spec, sink.writer(run)

            def function(contexts: Sequence[ChunkContext]) -> tasks.Function:
                return tasks.writing(spec, contexts, direct, writer)

            frame = job.decoded(function)
            with stages.running("decode", spark):
                for row in frame.collect():
                    decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
            for table, layer in layers.items():
                with stages.running(table, spark):
                    files = application.layer_files(table, writer)
                    frames = _frames(_layer_job(job, table), layer)
                    for row in frames.mapInArrow(files, RESULTS).collect():
                        decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
        _fill(summary, job, decoded, tables)
        with stages.running("publish", spark):
            sink.publish(run, tables, decoded.written, summary.values())
    return summary


class Plan:
    """Indexed captures, surveyed once for all tables.

    `summary` has the counts of files and packets; rows, losses and damage inside packets are not known yet.
    """

    def __init__(self, runner: TaskRunner, job: Job | None, summary: Summary) -> None:
        self.summary = summary
        self._runner = runner
        self._job = job
        self._layer_jobs: dict[str, Job] = {}

    def table(self, name: str) -> DataFrame:
        """A table as a DataFrame, unordered. The first call surveys the captures, which takes a while.
        Each action on the DataFrame decodes them again, so `persist` it if you use it more than once.
        Raises DissectError."""
        from .types import spark_schema

        _check_table(name)
        schema, job = spark_schema(name), self._job
        if job is None:
            return self._runner.spark.createDataFrame([], schema)
        layer = application.layer_of(name)
        with one_line_errors():
            if layer:
                if name not in self._layer_jobs:
                    self._layer_jobs[name] = _layer_job(job, name)
                frames = _frames(self._layer_jobs[name], layer)
                return frames.mapInArrow(application.layer_rows(name), schema)
            return job.decoded(lambda contexts: tasks.reading(job.spec, contexts, name), schema)

    def close(self) -> None:
        """Frees the plan's data on Spark's local disks. Its DataFrames cannot be used afterwards."""
        self._runner.close()


def plan(spark: SparkSession, paths: str | Sequence[str], **options: object) -> Plan:
    """Indexes captures for `Plan.table`. Options are `payload` ("none", "sha256", "text", "base64"),
    `redact` (True), `port` ({4222: "client"}), `kind` ("route", or several), `chunk_size` in bytes, and
    `progress`: whether stderr shows the progress of each stage (by default at a terminal and in a
    notebook). Raises DissectError."""
    wanted = _job_options(options)
    set_worker_python(spark)
    runner, summary = TaskRunner(spark), Summary()
    progress = options.get("progress")
    stages = Stages(wants_progress(None if progress is None else bool(progress)), summary.seconds)
    names = [paths] if isinstance(paths, str) else paths
    with one_line_errors():
        job = _planned(runner, names, FROM_ENGINE, wanted, summary, stages)
    return Plan(runner, job, summary)


# The latest plan of each session, with the arguments that it was made from.
_Key = tuple[list[tuple[str, int, int]], JobOptions]
_latest: WeakKeyDictionary[SparkSession, tuple[_Key, Plan]] = WeakKeyDictionary()


def read(
    spark: SparkSession, paths: str | Sequence[str], table: str = "frames", **options: object
) -> DataFrame:
    """A table of captures as a DataFrame: one row for each record that `nats-dissect TABLE` prints,
    unordered. The same as `plan(spark, paths, **options).table(table)`, but the session's latest plan is
    reused while captures and options are the same. Raises DissectError."""
    _check_table(table)
    names = [paths] if isinstance(paths, str) else paths
    files = [(path, *size_and_mtime(path)) for path in captures(names, CaptureReport())]
    key = files, _job_options(options)
    known, made = _latest.get(spark, (None, None))
    if made is None or known != key:
        made = plan(spark, names, **options)
        _latest[spark] = key, made
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


def _check_table(name: str) -> None:
    if name not in TABLES:
        raise SparkError(f"there is no table {name!r}", f"there are {', '.join(TABLES)}")


def _layer_job(job: Job, table: str) -> Job:
    """The same captures, surveyed for the frames that a layer wants: their payloads are in the states."""
    spec = replace(job.spec, tables=frozenset([frames_for(table)]))
    return Job(job.runner, spec, job.partitions, job.bytes)


def _frames(job: Job, layer: Layer) -> DataFrame:
    """The frames that a layer wants, in the order in which it reads them."""
    spec = job.spec
    found = job.decoded(
        lambda contexts: application.wanted_frames(spec, contexts), application.FRAMES
    )
    return application.in_order(found, layer)


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
    with stages.running("walk", runner.spark):
        size = options.chunk_bytes

        def walk_all(chains: Sequence[Chain]) -> list[list[RecordIndex]]:
            return cast(list[list[RecordIndex]], runner.call(walk_chain, chains, size))

        walked, summary.wrong_starts = index_captures(paths, size, report, walk_all)
    summary.files = len(walked)
    summary.bytes = sum(file[0].byte_range.size for file in walked)
    report.files = [joined(each) for each in walked]
    summary.packets = sum(file.packets for file in report.files)
    summary.damaged = [f"{file.path}: {file.damage}" for file in report.files if file.damage]
    summary.unreadable, summary.passed_over = report.unreadable, report.passed_over
    summary.warnings = [
        f"{file[0].byte_range.path} is compressed: one task reads all of it; see nats-dissect split"
        for file in walked
        if file[0].byte_range.packed
    ]
    found = _inside(partitions_of(walked), walked, options.window)
    summary.chunks = len(found)
    if not found:
        return None
    spec = JobSpec(frozenset(tables), options.options, options.window)
    return Job(runner, spec, found, sum(each.bytes for each in found), stages)


def _inside(
    found: Sequence[Partition], walked: Iterable[Sequence[RecordIndex]], window: TimeRange
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


def _fill(summary: Summary, job: Job | None, decoded: tasks.Decoded, tables: Sequence[str]) -> None:
    summary.rows = {table: decoded.rows[table] for table in tables}
    summary.no_tcp = dict(sorted(decoded.passed_over.items()))
    summary.missing_bytes, summary.skipped_bytes = decoded.missing_bytes, decoded.skipped_bytes
    if job:
        for name in ("surveyed_again", "continued", "read_again", "moved_bytes"):
            setattr(summary, name, getattr(job, name))


def _job_options(values: Mapping[str, object]) -> JobOptions:
    """The options of `plan` and `read` as values."""
    known = {"payload", "redact", "port", "chunk_size", "kind", "progress", "keylog"}
    for name in values.keys() - known:
        raise SparkError(f"read has no option {name!r}", f"there are {', '.join(sorted(known))}")
    payload, port = values.get("payload", "none"), values.get("port", {})
    if payload not in PAYLOADS:
        raise SparkError(f"there is no payload {payload!r}", f"there are {', '.join(PAYLOADS)}")
    if not isinstance(port, Mapping) or not set(port.values()) <= KINDS.keys():
        raise SparkError(
            f"port={port!r} is no mapping of ports to kinds", 'say port={4222: "client"}'
        )
    size = values.get("chunk_size", CHUNK_BYTES)
    if not isinstance(size, int) or size < SMALLEST_CHUNK:
        raise SparkError(f"chunk_size={size!r} is no number of bytes from {SMALLEST_CHUNK} on")
    hints = {int(number): KINDS[kind] for number, kind in port.items()}
    options = Options(
        hints,
        PAYLOADS[str(payload)],
        bool(values.get("redact", True)),
        kinds=_kinds(values.get("kind")),
        key_logs=_names(values.get("keylog", ())),
    )
    return JobOptions(options=options, chunk_bytes=size)


def _names(value: object) -> tuple[str, ...]:
    """One path or several."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Collection) or not all(isinstance(name, str) for name in names):
        raise SparkError(f"keylog={value!r} is no path", "say keylog='keys.log'")
    return tuple(names)


def _kinds(values: object) -> frozenset[Kind] | None:
    """The requested kinds of connections; None: all."""
    if values is None:
        return None
    names = [values] if isinstance(values, str) else values
    if not isinstance(names, Collection) or not KINDS.keys() >= set(names):
        raise SparkError(
            f"kind={values!r} is no kind of connection", f"there are {', '.join(KINDS)}"
        )
    return frozenset(KINDS[name] for name in names)
