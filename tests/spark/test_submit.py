"""Sessions, and the error where none can be made: a line with a remedy, status 2, no traceback."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.spark.submit import session

from tests.spark.launch.test_java import fake
from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing
from tests.support.spark import JAVA, lack

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CORE = CAPTURES / "core-2.15.1.pcap"
# What a user's shell would run, if some library were not there.
PROGRAM = "import sys; {}from dissect.nats.cli import main; main()"
TWO_SESSIONS = """
import os, re, sys
from pathlib import Path
from dissect.nats.spark import register
from dissect.nats.errors import SparkError
from dissect.nats.spark.submit import session

settings = dict(text.split("=", 1) for text in sys.argv[1:])
for master, conf in (("local[1]", settings), ("local[2]", {"spark.app.name": "mine"})):
    with session(master, conf) as spark:
        has = spark.sparkContext.getConf().get
        print(has("spark.master"), has("spark.app.name"), spark.range(3).count(), has("spark.driver.host"))
        if master == "local[2]":
            register(spark)
            stream = spark.readStream.format("nats-capture").options(state="state", settle="0").load("inbox")
            query = stream.writeStream.format("noop").option("checkpointLocation", "checkpoint").start()
            query.processAllAvailable()
            query.stop()
try:
    with session("local[1]") as spark:
        spark.sparkContext._jvm.java.util.ArrayList().get(1)
except SparkError as error:
    named = re.search(r"(Spark's messages are in) (\\S+)", str(error))
    file = Path(named[2])
    print(named[1], "a file with text" if file.stat().st_size else "an empty file")
    file.unlink()
"""


def refused(folder: Path, *args: str, without: str = "", **env: str) -> str:
    """The one line that the command says."""
    lacking = f"sys.modules[{without!r}] = None; " if without else ""
    command = [sys.executable, "-c", PROGRAM.format(lacking), "spark", str(CORE)]
    done = subprocess.run(
        [*command, "--out", str(folder / "out"), *args],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **env},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    (line,) = done.stderr.splitlines()
    assert line.startswith("nats-dissect: ") and not (folder / "out").exists()
    return line.removeprefix("nats-dissect: ")


def test_a_missing_library_is_one_line_with_its_extra(tmp_path: Path) -> None:
    for name in ("pyspark", "pyarrow"):
        line = refused(tmp_path, without=name)
        assert re.fullmatch(rf"{name} is not installed; pip install '\S*\[spark\]'", line)


def test_a_missing_java_is_one_line_with_its_remedy(tmp_path: Path) -> None:
    line = refused(tmp_path, PATH=str(tmp_path), JAVA_HOME="")
    assert line.startswith(
        "Spark needs Java, and there is none; install a Java runtime, 17 or later"
    )


def test_with_an_old_java(tmp_path: Path) -> None:
    home = fake(tmp_path, 'openjdk version "11.0.22" 2024-01-16')
    line = refused(tmp_path, JAVA_HOME=str(home))
    assert line.startswith(f"{home}/bin/java is Java 11, too old for Spark; install")


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.parametrize(
    "args, expected",
    [
        (
            ["--master", "spark://127.0.0.1:1"],
            "no Spark master answers at 127.0.0.1:1 (Connection refused); start one, or give its address "
            "as its web page has it: --master spark://HOST:PORT",
        ),
        (
            ["--master", "spark://nohost.invalid:7077"],
            "no Spark master answers at nohost.invalid:7077 (unknown host); start one, or give its address "
            "as its web page has it: --master spark://HOST:PORT",
        ),
        (
            ["--master", "nonsense"],
            "Spark does not start: Master must either be yarn or start with spark, k8s, or local; "
            "see --master and --conf",
        ),
        (
            ["--conf", "spark.driver.memory=abc"],
            "Spark does not start: Invalid maximum heap size: -Xmxabc; see --master and --conf",
        ),
    ],
)
def test_what_java_says(args: list[str], expected: str, tmp_path: Path) -> None:
    if lacking := lack():
        missing(*lacking)
    quick = f"spark.driver.extraJavaOptions={' '.join(JAVA)}"
    line = refused(tmp_path, "--conf", quick, *args).replace(
        "org.apache.spark.SparkException: ", ""
    )
    assert line == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_one_worker_has_the_session(request: pytest.FixtureRequest, spark: SparkSession) -> None:
    grouped = getattr(request.config.option, "loadgroup", False)
    assert request.node.nodeid.endswith("@spark") or not grouped


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_session_that_is_there_is_used(spark: SparkSession) -> None:
    with session("spark://127.0.0.1:1") as again:
        assert again.sparkContext is spark.sparkContext
    assert spark.range(3).count() == 3


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_process_may_have_sessions_one_after_the_other_and_shows_lines_of_ours(
    tmp_path: Path,
) -> None:
    letter = tmp_path / "inbox" / "letter.pcap"
    letter.parent.mkdir()
    letter.write_text("Dear all")
    os.utime(letter, (0, 0))
    if lacking := lack():
        missing(*lacking)
    done = subprocess.run(
        [sys.executable, "-c", TWO_SESSIONS, f"spark.driver.extraJavaOptions={' '.join(JAVA)}"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"nats-dissect: {letter}: not a capture: it begins with b'Dear all'")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "local[1] nats-dissect 3 127.0.0.1",
        "local[2] mine 3 127.0.0.1",
        "Spark's messages are in a file with text",
    ]


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_workers_run_this_python_and_listen_to_nobody(spark: SparkSession) -> None:
    context = spark.sparkContext
    assert context.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]
    assert context.getConf().get("spark.driver.host") == "127.0.0.1"
    assert context.uiWebUrl is None
