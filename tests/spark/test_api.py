"""The law with Spark: the rows of a job are those of the command line, however the captures are cut."""

from __future__ import annotations

import gzip
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import fields, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats import spark as nats_spark
from dissect.nats.capture.reader import BLOCK
from dissect.nats.capture.time_range import TimeBound, TimeRange
from dissect.nats.errors import CaptureError, DissectError, SparkError
from dissect.nats.kernel.load import VARIABLE
from dissect.nats.options import Options, Payload
from dissect.nats.partition import flow_shares
from dissect.nats.schema.records import Record, SessionRecord
from dissect.nats.spark import api, job
from dissect.nats.spark.api import Plan, Summary, dissect, plan, read
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.spark.progress import Stages
from dissect.nats.spark.tasks import task_runner

from tests.dissector.fuzzing.kernel import Count, generated, kernel
from tests.support.arrow_rows import records_of
from tests.support.damage import pcap_bytes, read_pcap
from tests.support.partitioned import TABLES, in_one, ordered
from tests.support.paths import CAPTURES
from tests.support.pcapwriter import START_NS, Interface
from tests.support.pcapwriter import Record as Packet
from tests.support.pcapwriter import pcapng_file, with_secrets
from tests.support.sightings import capture_of, proxied, seen

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

SAMPLE = str(CAPTURES / "core-2.15.1.pcap")
SMALL = [str(CAPTURES / f"{name}-2.15.1.pcap") for name in ("jetstream", "services", "auth")]
TLS = "tls-keys-2.15.1"
KEYS = CAPTURES / f"{TLS}.keylog"


def written(out: Path, tables: Sequence[str] = TABLES) -> list[Record]:
    """The rows in the files of an output folder."""
    from pyarrow import parquet

    rows: list[Record] = []
    for table in tables:
        for path in (out / table).glob("*/*.parquet"):
            for some in parquet.ParquetFile(path).iter_batches():
                rows += records_of(table, some)
    return ordered(rows)


def done(
    spark: SparkSession, paths: Sequence[str], out: Path, size: int, options: Options = Options()
) -> Summary:
    return dissect(spark, paths, TABLES, JobOptions(options=options, chunk_size=size), str(out))


@cache
def of_all_samples() -> list[Record]:
    """The rows of the command line."""
    return in_one([str(CAPTURES)])


# Smaller pieces of every sample: tasks/test_stages.py, where none of them is a task.
@pytest.mark.parametrize("size", [16384, 65536, 1 << 30])
def test_all_samples_give_the_rows_of_the_command_line(
    spark: SparkSession, tmp_path: Path, size: int
) -> None:
    summary = done(spark, [str(CAPTURES)], tmp_path / "out", size)
    assert written(tmp_path / "out") == of_all_samples()
    assert summary.chunks >= 20
    assert summary.rows["frames"] > 4000
    assert set(summary.seconds) == {"walk", "survey", "stitch", "decode", "sessions", "publish"}


@pytest.mark.parametrize(
    "size, in_shares",
    [(4096, False), (4096, True), (1 << 20, False)],
    ids="chunks shares one".split(),
)
def test_sessions_name_those_of_other_tasks(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    in_shares: bool,
) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0 if in_shares else 1 << 40)
    places = [each for at in range(1, 9) for each in proxied(START_NS + at * 1000, number=at)]
    path = str(capture_of(tmp_path / "seen.pcap", [*places, seen(now_ns=START_NS * 2)]))
    expected = in_one([path])
    sessions = [row for row in expected if isinstance(row, SessionRecord)]
    assert [bool(row.same_as) for row in sessions] == [True] * 16 + [False]
    summary = done(spark, [path], tmp_path / "out", size)
    assert written(tmp_path / "out") == expected
    assert (summary.rows["sessions"], summary.shares) == (17, 2 if in_shares else 0)
    assert summary.missing_bytes == summary.skipped_bytes == 0
    made = plan(spark, path, chunk_size=size).table("sessions")
    (batch,) = made.coalesce(1).toArrow().combine_chunks().to_batches()
    assert ordered(records_of("sessions", batch)) == sessions


@pytest.mark.xdist_group("kernel")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "size, whole_flows, parts",
    [(400_000, False, 3), (400_000, True, 2), (1 << 30, True, 1)],
    ids="chunks flows timeline".split(),
)
def test_tasks_use_the_kernel_where_workers_have_it(
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    whole_flows: bool,
    parts: int,
) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0)
    monkeypatch.setattr(job, "LOADED_AFTER", 0)
    monkeypatch.setitem(spark.sparkContext.environment, VARIABLE, "on")
    path, tables = tmp_path / "t.pcap", ("frames", "sessions", "anomalies")
    path.write_bytes(pcap_bytes(generated(0)))
    with kernel("off", BLOCK, Count()):
        expected = in_one([str(path)], tables)
    options = JobOptions(chunk_size=size, whole_flows=whole_flows)
    summary = dissect(spark, [str(path)], tables, options, str(tmp_path / "out"))
    assert (summary.with_kernel, summary.without_kernel) == (parts, {})
    assert written(tmp_path / "out", tables) == expected
    names = [plan(spark, str(path), chunk_size=size).table(name) for name in tables]
    rows = [records_of(name, some) for name, made in zip(tables, names) for some in batches(made)]
    assert ordered(row for some in rows for row in some) == expected


def batches(frame: DataFrame) -> list[pa.RecordBatch]:
    """All rows of a DataFrame."""
    found: list[pa.RecordBatch] = frame.coalesce(1).toArrow().combine_chunks().to_batches()
    return found


def test_payloads_and_secrets_as_they_were_asked_for(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(task_runner, "_TASKS_A_CORE", 4)  # a task for each piece
    options = Options(payload=Payload.TEXT, redact=False)
    done(spark, [SAMPLE], tmp_path / "out", 8192, options)
    assert written(tmp_path / "out") == in_one([SAMPLE], options=options)


def test_a_span_of_time_is_as_if_there_were_no_other_packets(
    spark: SparkSession, tmp_path: Path
) -> None:
    pcap = read_pcap(Path(SAMPLE).read_bytes())
    times = sorted(record.ts_ns for record in pcap.records)
    window = TimeRange(times[len(times) // 3], times[len(times) // 2])
    part = tmp_path / "core-2.15.1.pcap"
    inside = [record for record in pcap.records if window.holds(record.ts_ns)]
    part.write_bytes(pcap_bytes(pcap.with_records(inside)))
    assert window.from_ns and window.until_ns
    options = Options(from_time=TimeBound(window.from_ns), until_time=TimeBound(window.until_ns))
    summary = done(spark, [SAMPLE], tmp_path / "out", 8192, options)
    got, want = written(tmp_path / "out"), in_one([str(part)])
    assert [without_packets(row) for row in got] == [without_packets(row) for row in want]
    assert 0 < summary.chunks < 7


def test_captures_apart_are_timelines_of_their_own(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    data = read_pcap(Path(SAMPLE).read_bytes())
    half = len(data.records) // 2
    for name, records in (("a", data.records[:half]), ("b", data.records[half:])):
        (folder / f"{name}.pcap").write_bytes(pcap_bytes(data.with_records(records)))
    (folder / "notes.txt").write_text("no capture")
    tables = (*TABLES, "servers")
    options = Options(separate=True, from_time="0.01")
    out = str(tmp_path / "out")
    job = JobOptions(options=options, chunk_size=8192)
    summary = dissect(spark, [str(folder)], tables, job, out)
    want = in_one([str(folder)], tables, options)
    assert written(tmp_path / "out", tables) == want != in_one([str(folder)], tables)
    assert (summary.files, len(summary.passed_over)) == (2, 1)
    read_rows = read(spark, str(folder), "sessions", separate=True, from_time="0.01")
    assert read_rows.count() == summary.rows["sessions"]


def test_small_timelines_share_the_tasks_of_one_job(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    content = Path(SMALL[0]).read_bytes()
    for number in range(9):  # the same sessions in each: no table may mix them
        (folder / f"{number}.pcap").write_bytes(content)
    data = read_pcap(content)
    later = [
        replace(each, ts_ns=each.ts_ns + n * 10**12) for n in range(12) for each in data.records
    ]
    (folder / "large.pcap").write_bytes(pcap_bytes(data.with_records(later)))
    tables = ("frames", "sessions", "api", "servers", "paths")
    job = JobOptions(options=Options(separate=True), chunk_size=len(content) // 2)
    summary = dissect(spark, [str(folder)], tables, job, str(tmp_path / "out"))
    want = in_one([str(folder)], tables, job.options)
    assert sorted(map(repr, written(tmp_path / "out", tables))) == sorted(map(repr, want))
    assert set(summary.seconds) == {
        *("walk", "decode", "survey", "stitch"),  # the large one is cut
        *("api", "servers", "paths", "sessions", "publish"),
    }


def test_a_compressed_capture_is_read_up_to_a_limit(spark: SparkSession, tmp_path: Path) -> None:
    packed = tmp_path / "packed.pcap.gz"
    content = (CAPTURES / "bulk-2.15.1.pcap").read_bytes()
    packed.write_bytes(gzip.compress(content))
    limit = len(content) - 1
    summary = done(spark, [str(packed)], tmp_path / "out", 65536, Options(max_expanded=limit))
    assert f"expands to more than {limit} bytes" in summary.damaged[0]
    rows = in_one([str(packed)], options=Options(max_expanded=limit))
    assert written(tmp_path / "out") == rows != in_one([str(packed)])
    assert read(spark, str(packed), max_expanded=limit).count() == summary.rows["frames"]


def with_its_secrets(folder: Path) -> Path:
    """The TLS sample as a pcapng with a Decryption Secrets Block."""
    sample = read_pcap((CAPTURES / f"{TLS}.pcap").read_bytes())
    packets = [Packet(each.ts_ns, each.data, each.length) for each in sample.records]
    plain = pcapng_file(packets, [Interface(sample.linktype, tsresol=9)])
    path = folder / "keys.pcapng"
    path.write_bytes(with_secrets(plain, KEYS.read_bytes()))
    return path


def test_secrets_in_a_capture_reach_the_tasks_with_it(spark: SparkSession, tmp_path: Path) -> None:
    """Each task reads them itself; they are no part of the job."""
    path = with_its_secrets(tmp_path)
    done(spark, [str(path)], tmp_path / "out", 20_000)
    found = written(tmp_path / "out")
    options = Options(keylog=[str(KEYS)])
    assert found == in_one([str(path)], options=options)
    assert {row.transport for row in found if isinstance(row, SessionRecord)} == {
        "tls",
        "websocket+tls",
    }


@contextmanager
def event_log(spark: SparkSession, folder: Path) -> Iterator[None]:
    """Writes what `spark.eventLog.enabled` writes into a folder, without a session of its own."""
    context, jvm = spark.sparkContext._jsc.sc(), spark.sparkContext._jvm
    assert jvm
    conf = context.conf().clone().set("spark.eventLog.compress", "false")
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "app", jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    context.addSparkListener(listener)
    try:
        yield
        context.listenerBus().waitUntilEmpty(60_000)
    finally:
        context.removeSparkListener(listener)
        listener.stop()


@pytest.mark.parametrize("embedded", [False, True])
def test_no_secret_is_in_plan_options_event_log_or_output(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str], embedded: bool
) -> None:
    path = with_its_secrets(tmp_path) if embedded else CAPTURES / f"{TLS}.pcap"
    keylog: dict[str, str] = {} if embedded else {"keylog": str(KEYS)}
    logs = tmp_path / "events"
    logs.mkdir()
    with event_log(spark, logs):
        rows = read(spark, str(path), chunk_size=20_000, **keylog)
        assert rows.count() == 187
        rows.explain("extended")
        rows.explain("formatted")
        options = Options(keylog=list(keylog.values()))
        done(spark, [str(path)], tmp_path / "out", 20_000, options)
    output = capfd.readouterr()
    conf = spark.sparkContext.getConf().toDebugString()
    texts = [output.out, output.err, conf, *map(str, written(tmp_path / "out"))]
    shown = [text.encode() for text in texts]
    written_files = [each for name in (logs, tmp_path / "out") for each in name.rglob("*")]
    shown += [each.read_bytes() for each in written_files if each.is_file()]
    assert b"SparkListenerJobEnd" in b"".join(shown) and "Physical Plan" in output.out
    secrets = [line.split()[2] for line in KEYS.read_bytes().splitlines() if line[:1] != b"#"]
    assert len(secrets) > 10
    for secret in secrets:
        raw = bytes.fromhex(secret.decode())
        for form in (secret, secret.upper(), raw, b64encode(raw)[:-4]):
            assert not any(form in each for each in shown)


def without_packets(row: Record) -> list[object]:
    """What does not count packets of the file."""
    return [getattr(row, item.name) for item in fields(row) if item.name != "packet"]


def test_only_some_kinds_of_connections(spark: SparkSession) -> None:
    path = str(CAPTURES / "cluster-2.15.1.pcap")
    want = [row for row in in_one([path], ["sessions"]) if getattr(row, "kind") == "route"]
    got = read(spark, path, "sessions", kind="route", chunk_size=16384).collect()
    assert {row.session for row in got} == {getattr(row, "session") for row in want}
    assert len(want) > 2
    frames = read(spark, path, "frames", kind=["route"], chunk_size=16384)
    assert frames.count() == sum(
        getattr(row, "kind") == "route" for row in in_one([path], ["frames"])
    )


def test_files_lie_by_day_and_spark_reads_them(spark: SparkSession, tmp_path: Path) -> None:
    summary = dissect(spark, [SAMPLE], ["frames", "requests"], JobOptions(), str(tmp_path / "out"))
    frames = spark.read.parquet(str(tmp_path / "out" / "frames"))
    assert frames.count() == summary.rows["frames"]
    days = {
        row.day for row in frames.selectExpr("cast(date as string) as day").distinct().collect()
    }
    days_of = frames.selectExpr(
        "cast(to_date(timestamp_seconds(ts_ns div 1000000000)) as string) day"
    )
    assert days == {row.day for row in days_of.distinct().collect()}
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "_nats-dissect.json",
        "frames",
        "requests",
    ]
    assert json.loads((tmp_path / "out" / "_nats-dissect.json").read_text())["rows"] == summary.rows


def test_a_job_may_be_run_again(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done(spark, [SMALL[1]], out, 4096)
    done(spark, [SMALL[2]], out, 4096)
    assert written(out) == in_one([SMALL[2]])


def test_a_folder_of_somebody_else_stays(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("all of it")
    with pytest.raises(SparkError, match="has files that this program has not written"):
        done(spark, [SAMPLE], tmp_path / "out", 65536)
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["thesis.txt"]


def test_a_damaged_capture_does_not_stop_the_others(spark: SparkSession, tmp_path: Path) -> None:
    broken = tmp_path / "broken.pcap"
    broken.write_bytes((CAPTURES / "auth-2.15.1.pcap").read_bytes()[:-100])
    paths = [str(broken), SAMPLE]
    summary = done(spark, paths, tmp_path / "out", 8192)
    assert len(summary.damaged) == 1 and "broken.pcap" in summary.damaged[0]
    assert summary.is_damaged
    assert written(tmp_path / "out") == in_one(paths)


def test_no_capture_is_one_error(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="no such file"):
        done(spark, [str(tmp_path / "missing.pcap")], tmp_path / "out", 65536)
    (tmp_path / "text.pcap").write_text("not a capture at all")
    with pytest.raises(CaptureError, match="not a capture"):
        read(spark, str(tmp_path / "text.pcap"))


def test_a_capture_without_packets_gives_empty_tables(spark: SparkSession, tmp_path: Path) -> None:
    empty = tmp_path / "empty.pcap"
    empty.write_bytes(Path(SAMPLE).read_bytes()[:24])
    summary = done(spark, [str(empty)], tmp_path / "out", 65536)
    assert (summary.packets, summary.rows["frames"]) == (0, 0)
    assert spark.read.parquet(str(tmp_path / "out" / "frames")).count() == 0
    assert read(spark, str(empty)).count() == 0


@pytest.mark.parametrize("table", ["frames", "sessions"])
def test_read_gives_a_table(spark: SparkSession, table: str) -> None:
    frame = read(spark, [SAMPLE], table=table, chunk_size=8192)
    want = in_one([SAMPLE], [table])
    assert frame.count() == len(want)
    assert {row.session for row in frame.collect()} == {getattr(row, "session") for row in want}


def test_paths_may_be_of_any_type_that_other_tables_take(spark: SparkSession) -> None:
    wanted = len(in_one([SAMPLE], ["sessions"]))
    for paths in (Path(SAMPLE), [Path(SAMPLE)], SAMPLE.encode()):
        assert nats_spark.read(spark, paths, "sessions").count() == wanted
    with pytest.raises(TypeError, match="^paths must be paths of captures, not int$"):
        nats_spark.plan(spark, 3)  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(ValueError, match="^no capture is named$"):
        nats_spark.plan(spark, [])
    with pytest.raises(CaptureError, match="^'': no such file$"):
        nats_spark.read(spark, "")


def test_wrong_options_are_named(spark: SparkSession) -> None:
    with pytest.raises(DissectError, match="there is no table 'frame'"):
        read(spark, SAMPLE, "frame")
    with pytest.raises(DissectError, match=r"there is no table \['frames'\]"):
        read(spark, SAMPLE, ["frames"])  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(DissectError, match="read has no option 'sort'"):
        read(spark, SAMPLE, sort="ts_ns")


def test_a_plan_gives_several_tables_and_surveys_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages: list[str] = []
    running = Stages.running

    def counted(self: Stages, stage: str, *values: object) -> AbstractContextManager[None]:
        stages.append(stage)
        return running(self, stage, *values)  # type: ignore[arg-type]  # handed on as they come

    monkeypatch.setattr(Stages, "running", counted)
    made = plan(spark, SMALL[0], chunk_size=4096)
    for table in TABLES:
        assert made.table(table).count() == len(in_one([SMALL[0]], [table]))
        assert made.table(table).columns
    assert stages == ["walk", "survey", "stitch"]
    assert set(made.summary.seconds) == set(stages)
    stored = spark.sparkContext._jsc.getPersistentRDDs().size()
    frames = made.table("frames")
    made.close()
    assert spark.sparkContext._jsc.getPersistentRDDs().size() < stored
    assert frames.count() == len(in_one([SMALL[0]], ["frames"])), "it is surveyed again"


def test_reading_again_uses_the_same_plan(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plans: list[Plan] = []
    closed: list[int] = []

    class Counted(Plan):
        def close(self) -> None:
            closed.append(plans.index(self))
            super().close()

    def counted(*values: object, **options: object) -> Plan:
        made = plan(*values, **options)  # type: ignore[arg-type]  # handed on as they come
        made.__class__ = Counted
        plans.append(made)
        return made

    monkeypatch.setattr(api, "plan", counted)
    path = tmp_path / "a.pcap"
    path.write_bytes(Path(SMALL[0]).read_bytes())
    frames, sessions = (read(spark, str(path), table) for table in ("frames", "sessions"))
    assert frames.count() > sessions.count() > 0
    assert len(plans) == 1
    read(spark, str(path), "frames", redact=False)
    assert (len(plans), closed) == (2, [0])
    assert frames.count() > sessions.count() > 0, "of a plan that is closed"
    path.write_bytes(Path(SMALL[1]).read_bytes())
    assert read(spark, str(path), "sessions", redact=False).count() > 0
    assert (len(plans), closed) == (3, [0, 1])
