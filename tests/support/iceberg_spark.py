"""A Spark with Iceberg's runtime, to read tables of Iceberg: an older one than that of the other tests, for
which there is no runtime yet.

`python -m tests.support.iceberg_spark` installs it from the package index and fetches the jars with Spark's
own Ivy, once: they are kept outside the tree, as the programs of `streaming_programs` are.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support.requirements import missing
from tests.support.spark import SMALL
from tests.support.streaming_programs import built_programs

SPARK = "4.1.3"
PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.apache.iceberg:iceberg-aws-bundle:1.12.0",
    "org.xerial:sqlite-jdbc:3.54.1.0",
)
REMEDY = (
    "run python -m tests.support.iceberg_spark, which needs Java, the package index and Maven's"
)
TIMEOUT = 600.0

_READER = """
import json, sys
from pyspark.sql import SparkSession
asked = json.load(sys.stdin)
spark = SparkSession.builder.master("local[1]").config(map=asked["conf"]).getOrCreate()
rows = [[row.asDict(recursive=True) for row in spark.sql(q).collect()] for q in asked["queries"]]
spark.stop()
json.dump(rows, sys.stdout)
"""


def cache() -> Path:
    """The folder of this version of Spark and of the jars."""
    jars = "-".join(package.rpartition(":")[2] for package in PACKAGES)
    return built_programs() / f"iceberg-spark-{SPARK}-{jars}"


def select(queries: Sequence[str], conf: Mapping[str, str]) -> list[list[dict[str, Any]]]:
    """The rows of queries in this Spark, of types that JSON has. Skips the test where it is not installed, or
    fails it in CI."""
    folder = cache()
    if not folder.exists():
        missing("a Spark with Iceberg's runtime", REMEDY)
    jars = ",".join(str(path) for path in sorted((folder / "ivy" / "jars").glob("*.jar")))
    asked = {"conf": {"spark.jars": jars, **SMALL, **conf}, "queries": queries}
    done = subprocess.run(
        [sys.executable, "-c", _READER],
        input=json.dumps(asked),
        capture_output=True,
        text=True,
        env=_environment(folder),
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    rows: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return rows


def install(folder: Path) -> None:
    """Installs both; a folder without all jars is never seen."""
    being_made = folder.with_name(f"{folder.name}.{os.getpid()}")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    pip += ["--no-compile", "--target", str(being_made / "python"), f"pyspark=={SPARK}"]
    subprocess.run(pip, check=True, timeout=TIMEOUT)
    nothing = being_made / "nothing.py"
    nothing.touch()
    submit = [str(being_made / "python" / "pyspark" / "bin" / "spark-submit")]
    submit += ["--packages", ",".join(PACKAGES), "--conf", f"spark.jars.ivy={being_made / 'ivy'}"]
    done = subprocess.run(
        [*submit, str(nothing)],
        env=_environment(being_made),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    if len(list((being_made / "ivy" / "jars").glob("*.jar"))) < len(PACKAGES):
        raise OSError(done.stderr[-2000:])
    being_made.rename(folder)


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "PYTHONPATH": str(folder / "python"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(folder / "python" / "pyspark"),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def main() -> int:
    folder = cache()
    if folder.exists():
        return 0
    print(f"installing Spark {SPARK} with Iceberg's runtime into {folder}, once", flush=True)
    try:
        install(folder)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"could not install Spark with Iceberg's runtime: {error}", file=sys.stderr)
    return 0  # tests name what they miss, and fail in CI


if __name__ == "__main__":
    sys.exit(main())
