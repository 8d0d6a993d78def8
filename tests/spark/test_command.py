"""`nats-dissect spark`: tables, its summary, exit statuses."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner, Result

from dissect.nats.capture import embedded_secrets
from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary
from dissect.nats.pipeline import records
from dissect.nats.spark.api import Summary
from dissect.nats.spark.command import lines

from tests.support.paths import CAPTURES
from tests.support.requirements import missing
from tests.support.spark import lack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(240)

CORE = CAPTURES / "core-2.15.1.pcap"


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(cli, ["spark", *map(str, args)])


@pytest.mark.spark
def test_tables_and_what_was_done(spark: SparkSession, tmp_path: Path) -> None:
    out = tmp_path / "out"
    args = ("--out", out, "--tables", "sessions,requests", "--chunk-size", "32k", "--summary", "-")
    done = run(CORE, *args)
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    expected = {table: list(records([str(CORE)], [table])) for table in ("sessions", "requests")}
    assert printed["rows"] == {table: len(rows) for table, rows in expected.items()}
    assert (printed["files"], printed["chunks"]) == (1, 3)
    assert done.stderr.startswith("nats-dissect: 7 sessions, ")
    for table, rows in expected.items():
        found = spark.read.parquet(str(out / table)).select("session").collect()
        assert sorted(row.session for row in found) == sorted(row.session for row in rows)


@pytest.mark.spark
def test_secrets_that_cannot_be_used_are_said(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the commands that need no Spark."""
    lack = MissingLibrary("cryptography", "tls")
    monkeypatch.setattr(embedded_secrets, "decryption_lack", lambda: lack)
    content = (CAPTURES / "tls-links.pcapng").read_bytes()
    (tmp_path / "plain.pcapng").write_bytes(content)
    (tmp_path / "packed.pcapng.gz").write_bytes(gzip.compress(content))
    said = "nats-dissect: decryption secrets in the captures are not used: cryptography is not"
    for capture in (tmp_path / "plain.pcapng", tmp_path / "packed.pcapng.gz"):
        done = run(capture, "--out", tmp_path / "out", "--tables", "sessions")
        assert (done.exit_code, done.stderr.count(said)) == (0, 1), done.stderr
    done = run(CORE, "--out", tmp_path / "out", "--tables", "sessions")
    assert done.exit_code == 0 and "decryption secrets" not in done.stderr


@pytest.mark.spark
def test_a_damaged_capture(spark: SparkSession, tmp_path: Path) -> None:
    content = CORE.read_bytes()
    (tmp_path / "cut.pcap").write_bytes(content[: len(content) - 10])
    summary = tmp_path / "summary.json"
    done = run(tmp_path / "cut.pcap", "--out", tmp_path / "out", "--summary", summary)
    assert (done.exit_code, done.stdout) == (3, "")
    assert f"nats-dissect: {tmp_path}/cut.pcap: " in done.stderr
    assert json.loads(summary.read_text())["damaged"] != []


@pytest.mark.spark
@pytest.mark.parametrize(
    "capture, expected",
    [
        ("nowhere.pcap", f"{Path('nowhere.pcap').absolute()}: no such file"),
        (__file__, f"{__file__}: not a capture: it begins with"),
        ("-", "-: standard input cannot be cut; write it to a file first"),
    ],
)
def test_what_cannot_be_read(
    spark: SparkSession, capture: str, expected: str, tmp_path: Path
) -> None:
    done = run(capture, "--out", tmp_path / "out")
    assert (done.exit_code, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"nats-dissect: {expected}")
    assert not (tmp_path / "out").exists()


@pytest.mark.spark
def test_a_folder_of_somebody_else(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    done = run(CORE, "--out", tmp_path)
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"nats-dissect: {tmp_path}: has files that this program has not")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_what_needs_no_spark_is_reported_before_it_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := lack():
        missing(*lacking)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))  # where there is none
    (tmp_path / "letter.txt").write_text("dear")
    for capture, out, expected in (
        ("nowhere.pcap", "new", f"{Path('nowhere.pcap').absolute()}: no such file"),
        (tmp_path, "new", f"{tmp_path}: no file in this folder is a capture"),
        (CORE, "", f"{tmp_path}: has files that this program has not written"),
    ):
        done = run(capture, "--out", tmp_path / out)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr.startswith(f"nats-dissect: {expected}")


def test_an_empty_text_is_no_file_and_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for capture, out, expected in (
        ("", "new", "'': no such file"),
        (CORE, "", "'' is not a folder; name a new folder with --out"),
    ):
        done = run(capture, "--out", out)
        assert (done.exit_code, done.stdout) == (2, "")
        assert done.stderr == f"nats-dissect: {expected}\n"


def test_a_summary_of_shares() -> None:
    printed = list(lines(Summary(files=1, chunks=6, shares=2), "tables"))
    assert printed[2] == "flows were divided among 2 tasks, each of which read all packets"


@pytest.mark.parametrize(
    "with_kernel, without, line",
    [
        (2, {}, "the kernel decoded 2 of 2 parts"),
        (
            1,
            {"numba is not installed": 1, "there are few packets": 2},
            "the kernel decoded 1 of 4 parts, Python alone the others: numba is not installed (1);"
            " there are few packets (2)",
        ),
    ],
)
def test_a_summary_of_the_kernel(with_kernel: int, without: dict[str, int], line: str) -> None:
    summary = Summary(files=1, with_kernel=with_kernel, without_kernel=without)
    assert [*lines(summary, "tables")][2] == line


def test_files_that_are_not_captures_are_named() -> None:
    names = [f"{number}.txt: not a capture" for number in range(12)]
    for others in (names[:1], names[:10]):
        assert [*lines(Summary(files=1, passed_over=others), "tables")][2:-1] == others
    *_, counted, _ = lines(Summary(files=1, passed_over=names), "tables")
    assert counted == "12 other files are not captures, 10 of them named here; --summary names all"


def test_a_summary_for_people() -> None:
    summary = Summary(
        files=2,
        chunks=9,
        wrong_starts=1,
        packets=1_000_000,
        bytes=744_000_000,
        rows={"frames": 12, "anomalies": 1},
        missing_bytes=3000,
        seconds={"walk": 1.5, "decode": 75.0},
        damaged=["a: cut short"],
        unreadable=["b: cannot be opened"],
        warnings=["c is compressed"],
    )
    assert list(lines(summary, "tables")) == [
        "c is compressed",
        "a: cut short",
        "b: cannot be opened",
        "12 frames, 1 anomaly in tables",
        "read 1000000 packets (744 MB) of 2 files in 9 chunks; starts guessed wrong: 1",
        "missing 3.00 kB, skipped 0 B",
        "walk 1.50 s, decode 1 min 15 s",
    ]
