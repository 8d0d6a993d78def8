"""Captures in a bucket become tables in a bucket, and findings and a report come out of these."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from dissect.nats.cli import cli
from dissect.nats.output.table_folder import MARK
from dissect.nats.spark import output, read
from dissect.nats.spark.options.settings import settings_of
from dissect.nats.spark.table_reader import read_table

from tests.support.damage import pcap_bytes, read_pcap
from tests.support.partitioned import in_one
from tests.support.paths import CAPTURES
from tests.support.requirements import missing
from tests.support.s3 import SECRET, Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from dissect.nats.spark.structured_streaming.stream import FolderReader
except ImportError:
    missing("pyspark", "pip install 'natsync[spark]'")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

NAMES = ("core-2.15.1.pcap", "auth-2.15.1.pcap")


def run(*args: str | Path) -> Result:
    done = CliRunner().invoke(cli, [*map(str, args)])
    assert SECRET not in done.output, "a secret is shown"
    return done


@pytest.fixture
def filled(s3_bucket: Bucket) -> Bucket:
    for name in NAMES:
        s3_bucket.put(f"in/{name}", (CAPTURES / name).read_bytes())
    s3_bucket.put("in/letter.txt", b"Dear all")
    return s3_bucket


def test_from_captures_to_findings_and_a_report(
    spark: SparkSession, filled: Bucket, tmp_path: Path
) -> None:
    captures, out = filled.uri("in", "s3a"), filled.uri("tables", "s3a")
    local = tmp_path / "local"
    tables = "frames,sessions,subscriptions,requests"
    here = run("spark", *(CAPTURES / name for name in NAMES), "--out", local, "--tables", tables)
    done = run(
        *("spark", f"{captures}/", "--out", out, "--tables", tables),
        *("--chunk-size", "32k", "--summary", tmp_path / "summary.json"),
    )
    assert (here.exit_code, done.exit_code) == (0, 0), done.output
    assert f"nats-dissect: {captures}/letter.txt: not a capture: it begins with" in done.stderr
    summary = (tmp_path / "summary.json").read_text()
    assert SECRET not in summary
    assert len(json.loads(summary)["passed_over"]) == 1
    assert json.loads(summary)["rows"] == json.loads((local / MARK).read_text())["rows"]
    mark = json.loads(filled.get(f"tables/{MARK}"))
    names = filled.names("tables")
    assert MARK in names and all(mark["run"] in name for name in names if name != MARK)
    found = read_table(spark, out, "frames")
    assert found is not None
    expected = in_one([str(CAPTURES / name) for name in NAMES], ["frames"])
    assert found.rows.count() == len(expected) == mark["rows"]["frames"]
    audited = [
        run("audit", "--tables", where, "--format", "jsonl")
        for where in (local, filled.uri("tables", "s3"))
    ]
    assert audited[0].stdout == audited[1].stdout != "", audited[1].stderr
    assert audited[0].exit_code == audited[1].exit_code == 1
    query = "SELECT count(*) AS n FROM frames"
    counted = run("sql", query, "--tables", out, "--format", "jsonl")
    assert json.loads(counted.stdout) == {"n": len(expected)}, counted.stderr
    made = run("report", "--tables", out, "-o", tmp_path / "report.html")
    assert made.exit_code == 0 and "256 frames, " in made.stderr, made.stderr


def test_a_second_job_replaces_the_tables_and_one_that_fails_does_not(
    spark: SparkSession, filled: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    args = "spark", filled.uri("in/core-2.15.1.pcap"), "--out", filled.uri("tables")
    assert run(*args, "--tables", "sessions,flows").exit_code == 0
    assert run(*args, "--tables", "sessions").exit_code == 0
    first = filled.names("tables")
    assert len(first) == 2

    def refused(*_: object) -> None:
        raise OSError("Access Denied")

    with monkeypatch.context() as patch:
        patch.setattr(output, "write_whole", refused)
        failed = run(*args, "--tables", "sessions")
    assert failed.exit_code == 2 and failed.stderr.count("\n") == 1
    assert "cannot be written: Access Denied" in failed.stderr
    assert filled.names("tables") == first


def test_rules_run_on_spark_over_tables_in_a_bucket(
    spark: SparkSession, filled: Bucket, tmp_path: Path
) -> None:
    out = filled.uri("tables")
    assert run("spark", filled.uri("in/auth-2.15.1.pcap"), "--out", out).exit_code == 0
    (tmp_path / "rule.yml").write_text(
        "title: Refused\nid: 00000000-0000-4000-8000-000000000001\nname: refused\n"
        "logsource: {product: nats, category: frames}\nlevel: high\n"
        "detection: {a: {op: -ERR}, condition: a}\n"
    )
    args = "audit", "--tables", out, "--rules", tmp_path / "rule.yml", "--format", "jsonl"
    here = [line for line in run(*args).stdout.splitlines() if '"refused"' in line]
    found = read_table(spark, out, "frames")
    assert found is not None and len(here) == found.rows.where("op = '-ERR'").count() > 0


def test_captures_in_a_bucket_as_a_table(spark: SparkSession, filled: Bucket) -> None:
    path = filled.uri("in/core-2.15.1.pcap", "s3a")
    expected = len(in_one([str(CAPTURES / NAMES[0])], ["frames"]))
    assert read(spark, path).count() == expected
    assert spark.read.format("nats-capture").load(path).count() == expected
    assert run("frames", path, "--format", "jsonl").stdout.count("\n") == expected
    query = run("sql", "SELECT count(*) AS n FROM frames", path, "--format", "jsonl")
    assert json.loads(query.stdout) == {"n": expected}


def test_a_stream_of_a_bucket_with_its_states_in_the_bucket(s3_bucket: Bucket) -> None:
    whole = read_pcap((CAPTURES / NAMES[0]).read_bytes())
    half = len(whole.records) // 2
    options = {
        "path": s3_bucket.uri("inbox"),
        "state": s3_bucket.uri("state", "s3a"),
        "settle": "0",
    }
    offset, rows = {"entries": 0, "files": 0, "late": 0, "grown": 0}, []
    for number, part in enumerate((whole.records[:half], whole.records[half:])):
        s3_bucket.put(f"inbox/{number}.pcap", pcap_bytes(whole.with_records(part)))
        reader = FolderReader(settings_of(options), ["session", "number", "op"])
        later = reader.latestOffset()
        for partition in reader.partitions(offset, later):
            rows += [repr(row) for batch in reader.read(partition) for row in batch.to_pylist()]
        reader.commit(later)
        offset = later
    frames = in_one([str(CAPTURES / NAMES[0])], ["frames"])
    assert offset["files"] == 2 and len(set(rows)) == len(rows) == len(frames)


@pytest.mark.parametrize(
    "command",
    [["audit"], ["report", "-o", "report.html"], ["sql", "SELECT 1 FROM frames"], ["top"]],
)
def test_a_bucket_without_tables(
    command: list[str], s3_bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (s3_bucket.uri("nothing"), "s3://no-such-bucket/tables"):
        done = run(*command, "--tables", folder)
        assert done.exit_code == 2
        assert done.stderr.startswith(f"nats-dissect: {folder}: ") and done.stderr.count("\n") == 1


def test_a_bucket_that_does_not_exist_is_said_at_once(spark: SparkSession, filled: Bucket) -> None:
    done = run("spark", filled.uri("in"), "--out", "s3a://no-such-bucket/tables")
    assert done.exit_code == 2 and done.stderr.count("\n") == 1
    assert done.stderr.startswith("nats-dissect: s3a://no-such-bucket/tables: cannot be written")
