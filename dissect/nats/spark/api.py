"""The tables of captures of any size: as Parquet files (`dissect`), or as a DataFrame (`read`).

First the captures are cut into extents, and a walk over their record headers proves where each begins. They
are put on one timeline, in stretches, which `job.Job` dissects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, cast
from uuid import uuid4

from natsync.protocol import Kind

from ..capture import CaptureReport
from ..capture.time_range import TimeRange
from ..declaration import Layer
from ..errors import SparkError
from ..options import Options
from ..partition.byte_ranges import captures, cut
from ..partition.partitions import Partition, stretches
from ..partition.record_index import Chain, RecordIndex, joined, settle, walk_chain
from ..tables import TABLES, frames_for
from . import application
from . import arrow_tasks as tasks
from .executor import TOLD, Runner
from .output import Folder
from .plan import Job, timed
from .settings import KINDS, PAYLOADS
from .stages import ChunkContext, Work

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CHUNK_BYTES = 128 << 20
SMALLEST_CHUNK = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What is wanted. `chunk_bytes` is about how much of a capture one task reads; of the packets only those
    in `window` count, as if the captures had no others."""

    options: Options = field(default_factory=Options)
    chunk_bytes: int = CHUNK_BYTES
    window: TimeRange = TimeRange()


@dataclass(slots=True)
class Summary:
    """What a job did. `rows` are those of each table, `seconds` those of each stage.

    `wrong_starts` is how many extents did not begin where they were guessed to; `surveyed_again` how many
    stretches were surveyed twice, since fragments of IP packets wait when they begin. `visits` is how often
    a flow had packets in a stretch and in a later one: of these `read_again` had to be read once more, as
    what they make of its state was not sure. `moved_bytes` went from task to task. `damaged` says of files
    what is wrong with them, `unreadable` which could not be read, `passed_over` which are no captures,
    `no_tcp` why packets were; `warnings` what makes the work slow."""

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
    visits: int = 0
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
        """The same as JSON has it."""
        return asdict(self)


def dissect(
    spark: SparkSession,
    paths: Sequence[str],
    tables: Sequence[str],
    options: JobOptions,
    out: str,
) -> Summary:
    """Writes tables of captures into the folder `out`, each as Parquet files by day. What a job has written
    there before is replaced when all is done; if the work fails it stays. Raises DissectError."""
    folder = Folder(out)
    folder.check()
    summary = Summary()
    with closing(Runner(spark)) as runner:
        layers = {table: layer for table in tables if (layer := application.layer_of(table))}
        direct = tuple(table for table in tables if table not in layers)
        job = _planned(runner, paths, {*direct, "sessions"}, options, summary)
        run = folder.begin(uuid4().hex)
        decoded = tasks.Decoded()
        if job:
            work = job.work

            def function(parts: Sequence[ChunkContext]) -> tasks.Function:
                return tasks.writing(work, parts, direct, out, run)

            told = job.decoded(function)
            with timed(summary.seconds, "decode"):
                for row in told.collect():
                    decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
            for table, layer in layers.items():
                with timed(summary.seconds, table):
                    files = application.layer_files(table, out, run)
                    wanted = replace(work, tables=frozenset([frames_for(table)]))
                    frames = _frames(replace(job, work=wanted, seconds={}), layer)
                    for row in frames.mapInArrow(files, TOLD).collect():
                        decoded.add(cast(tasks.Decoded, tasks.body_of(row.body)))
        _fill(summary, job, decoded, tables)
        with timed(summary.seconds, "publish"):
            folder.publish(run, tables, decoded.written, summary.values())
    return summary


def read(
    spark: SparkSession, paths: str | Sequence[str], table: str = "frames", **options: object
) -> DataFrame:
    """A table of captures as a DataFrame: a row for each record that `nats-dissect TABLE` prints, in no
    order. Options are `payload` ("none", "sha256", "text", "base64"), `redact` (True), `port` ({4222:
    "client"}), `kind` ("route", or several), and `chunk_size` in bytes. Which flows the captures have is
    found out at once, the rows come when they are asked for; keep them (`persist`) if that is often. Raises
    DissectError."""
    from .types import spark_schema

    if table not in TABLES:
        raise SparkError(f"there is no table {table!r}", f"there are {', '.join(TABLES)}")
    runner = Runner(spark)
    wanted = _job_options(options)
    layer = application.layer_of(table)
    source = frames_for(table) if layer else table
    job = _planned(
        runner, [paths] if isinstance(paths, str) else paths, {source}, wanted, Summary()
    )
    schema = spark_schema(table)
    if job is None:
        return spark.createDataFrame([], schema)
    work = job.work
    if layer:
        return _frames(job, layer).mapInArrow(application.layer_rows(table), schema)
    return job.decoded(lambda parts: tasks.reading(work, parts, table), schema)


def _frames(job: Job, layer: Layer) -> DataFrame:
    """The frames that a layer wants, in the order in which it takes them."""
    work = job.work
    found = job.decoded(lambda parts: application.wanted_frames(work, parts), application.FRAMES)
    return application.in_order(found, layer)


def _planned(
    runner: Runner,
    paths: Sequence[str],
    tables: Collection[str],
    options: JobOptions,
    summary: Summary,
) -> Job | None:
    """What is to be done; None if the captures have no packets."""
    report = CaptureReport()
    with timed(summary.seconds, "walk"):
        files = [cut(path, options.chunk_bytes) for path in captures(paths, report)]
        summary.files = len(files)
        summary.bytes = sum(extent.bytes for extents in files for extent in extents)

        def walk_all(chains: Sequence[Chain]) -> list[list[RecordIndex]]:
            size = options.chunk_bytes
            return cast(list[list[RecordIndex]], runner.call(walk_chain, chains, size))

        walked, summary.wrong_starts = settle(files, walk_all)
    report.files = [joined(each) for each in walked]
    summary.packets = sum(file.packets for file in report.files)
    summary.damaged = [f"{file.path}: {file.damage}" for file in report.files if file.damage]
    summary.unreadable, summary.passed_over = report.unreadable, report.passed_over
    summary.warnings = [
        f"{extents[0].path} is compressed: one task reads all of it; see nats-dissect split"
        for extents in files
        if extents[0].packed
    ]
    found = _inside(stretches(walked), walked, options.window)
    summary.chunks = len(found)
    if not found:
        return None
    work = Work(frozenset(tables), options.options, options.window)
    return Job(runner, work, found, sum(each.bytes for each in found), summary.seconds)


def _inside(
    found: Sequence[Partition], walked: Iterable[Sequence[RecordIndex]], window: TimeRange
) -> list[Partition]:
    """The stretches that may have packets in the window."""
    times = {
        (each.extent.path, each.extent.number): (each.smallest_ns, each.last_ns)
        for file in walked
        for each in file
        if each.smallest_ns is not None and each.last_ns is not None
    }
    return [
        stretch
        for stretch in found
        if any(window.meets(*times[each.path, each.number]) for each in stretch.extents)
    ]


def _fill(summary: Summary, job: Job | None, decoded: tasks.Decoded, tables: Sequence[str]) -> None:
    summary.rows = {table: decoded.rows[table] for table in tables}
    summary.no_tcp = dict(sorted(decoded.passed_over.items()))
    summary.missing_bytes, summary.skipped_bytes = decoded.missing_bytes, decoded.skipped_bytes
    if job:
        for name in ("surveyed_again", "visits", "read_again", "moved_bytes"):
            setattr(summary, name, getattr(job, name))


def _job_options(given: Mapping[str, object]) -> JobOptions:
    """What callers of `read` say, as values."""
    known = {"payload", "redact", "port", "chunk_size", "kind"}
    for name in given.keys() - known:
        raise SparkError(f"read has no option {name!r}", f"there are {', '.join(sorted(known))}")
    payload, port = given.get("payload", "none"), given.get("port", {})
    if payload not in PAYLOADS:
        raise SparkError(f"there is no payload {payload!r}", f"there are {', '.join(PAYLOADS)}")
    if not isinstance(port, Mapping) or not set(port.values()) <= KINDS.keys():
        raise SparkError(
            f"port={port!r} is no mapping of ports to kinds", 'say port={4222: "client"}'
        )
    size = given.get("chunk_size", CHUNK_BYTES)
    if not isinstance(size, int) or size < SMALLEST_CHUNK:
        raise SparkError(f"chunk_size={size!r} is no number of bytes from {SMALLEST_CHUNK} on")
    hints = {int(number): KINDS[kind] for number, kind in port.items()}
    options = Options(
        hints,
        PAYLOADS[str(payload)],
        bool(given.get("redact", True)),
        kinds=_kinds(given.get("kind")),
    )
    return JobOptions(options=options, chunk_bytes=size)


def _kinds(given: object) -> frozenset[Kind] | None:
    """The kinds of connections that are wanted, by name; None: all."""
    if given is None:
        return None
    names = [given] if isinstance(given, str) else given
    if not isinstance(names, Collection) or not KINDS.keys() >= set(names):
        raise SparkError(
            f"kind={given!r} is no kind of connection", f"there are {', '.join(KINDS)}"
        )
    return frozenset(KINDS[name] for name in names)
