"""The commands and programs of docs/spark.md work as they stand there."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli

from tests.support.partitioned import in_one
from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing
from tests.support.s3 import Bucket
from tests.support.spark import SMALL, lack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]

PAGE = (ROOT / "docs" / "spark.md").read_text(encoding="utf-8")
NAMES = ("core-2.15.1.pcap", "auth-2.15.1.pcap")
LINKED = ("captures", "inbox", "stream")


def section(title: str) -> str:
    (found,) = re.findall(rf"^## {title}\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    return str(found)


def commands(title: str) -> list[str]:
    """The commands of this program in a section."""
    blocks = re.findall(r"```sh\n(.*?)```", section(title), re.DOTALL)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [line for line in lines if line.startswith("nats-dissect ")]


def programs(title: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", section(title), re.DOTALL)


@pytest.fixture
def work(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a user, with captures. Spark has begun in another one, so it has links there."""
    (tmp_path / "captures").mkdir()
    for name in NAMES:
        shutil.copy2(CAPTURES / name, tmp_path / "captures")
    monkeypatch.chdir(tmp_path)
    jvm = spark.sparkContext._jvm
    assert jvm
    links = [Path(jvm.System.getProperty("user.dir")) / name for name in LINKED]
    for link in links:
        (tmp_path / link.name).mkdir(exist_ok=True)
        link.symlink_to(tmp_path / link.name)
    yield tmp_path
    for link in links:
        link.unlink()


@pytest.mark.parametrize("title, count", [("On this machine", 2), ("In object storage", 4)])
def test_the_commands_of_a_section_work_as_they_stand(
    work: Path, s3_server: str, s3_bucket: Bucket, title: str, count: int
) -> None:
    caps = Bucket(s3_server, "caps")
    for name in NAMES:
        caps.put(f"in/{name}", (CAPTURES / name).read_bytes())
    lines = commands(title)
    assert len(lines) == count
    for line in lines:
        done = CliRunner().invoke(cli, shlex.split(line)[1:])
        expected = 1 if " audit " in line else 0  # it finds something in these captures
        assert done.exit_code == expected, f"{line}: {done.stderr}"
    if title == "In object storage":
        assert (work / "report.html").stat().st_size > 100_000
        assert caps.names("tables/frames") != []
    else:
        assert {path.name for path in (work / "tables").iterdir()} >= {"frames", "anomalies"}


def test_the_commands_for_spark_submit_work_as_they_stand(
    tmp_path: Path, s3_server: str, s3_bucket: Bucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    if lacking := lack():
        missing(*lacking)
    from pyspark.find_spark_home import _find_spark_home

    stored = Bucket(s3_server, "bucket")
    for name in NAMES:
        stored.put(f"captures/{name}", (CAPTURES / name).read_bytes())
    (text,) = re.findall(r"```sh\n(.*?)```", section("With spark-submit"), re.DOTALL)
    settings = [f"{name} {value}\n" for name, value in SMALL.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(settings))
    programs = [str(Path(sys.executable).parent), f"{_find_spark_home()}/bin", os.environ["PATH"]]
    monkeypatch.setenv("PATH", os.pathsep.join(programs))
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYTHONPATH", raising=False)
    done = subprocess.run(
        ["bash", "-ec", text.replace("spark://host:7077", "'local[2]'")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    expected = len(in_one([str(CAPTURES / name) for name in NAMES], ["frames"]))
    assert f"{expected} frames, " in done.stdout + done.stderr
    query = ("sql", "SELECT count(*) AS n FROM frames", "--tables", stored.uri("tables"))
    counted = CliRunner().invoke(cli, [*query, "--format", "jsonl"])
    assert json.loads(counted.stdout) == {"n": expected}, counted.stderr


@pytest.mark.parametrize(
    "title, count", [("In a notebook or a program", 3), ("As a data source", 1)]
)
def test_the_programs_of_a_section_work_as_they_stand(
    spark: SparkSession, work: Path, title: str, count: int
) -> None:
    texts = programs(title)
    assert len(texts) == count
    names: dict[str, object] = {"spark": spark}
    for text in texts:
        exec(compile(text, "docs/spark.md", "exec"), names)
    if title == "As a data source":
        assert spark.sql("SELECT op FROM frames WHERE op = 'PUB'").count() > 0
        spark.catalog.dropTempView("frames")


def test_the_program_of_a_stream(spark: SparkSession, work: Path) -> None:
    for name in NAMES:
        shutil.copy(CAPTURES / name, work / "inbox")
        os.utime(work / "inbox" / name, (1_000_000_000, 1_000_000_000))
    (text,) = programs("Files that keep coming")
    names: dict[str, Any] = {"spark": spark}
    exec(compile(text, "docs/spark.md", "exec"), names)
    try:
        names["query"].processAllAvailable()
    finally:
        names["query"].stop()
    found = spark.read.parquet(
        "stream/frames"
    )  # the sink knows its files by the path that it was given
    expected = in_one([str(CAPTURES / name) for name in NAMES], ["frames"])
    assert found.count() == len(expected)
