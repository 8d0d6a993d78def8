"""Programs of their own in the Java of the tests' session. To start another Java takes half a minute of a
processor, and does not say more of a program.

    python joined.py PROGRAM ARGUMENT...        # with the environment that `run_joined` makes
"""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def run_joined(
    spark: SparkSession, path: Path, program: Path, *args: object
) -> subprocess.CompletedProcess[str]:
    """Runs a program in a Python of its own, with `path` as `PYTHONPATH`, also for the workers of its jobs.
    `SparkSession.builder.getOrCreate` gives it the session of the tests."""
    gateway = spark.sparkContext._gateway
    assert gateway
    known = gateway.gateway_parameters
    here = {**os.environ, "PYTHONPATH": str(path), "PYSPARK_PYTHON": sys.executable}
    here |= {"PYSPARK_GATEWAY_PORT": str(known.port), "PYSPARK_GATEWAY_SECRET": known.auth_token}
    command = [sys.executable, __file__, str(program), *map(str, args)]
    return subprocess.run(command, cwd=path, env=here, capture_output=True, text=True, timeout=200)


def _join() -> None:
    """Makes the context that Java has the one of this process."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    gateway = launch_gateway()  # type: ignore[no-untyped-call]  # pyspark gives it no types
    there = gateway.jvm.org.apache.spark.SparkContext.getOrCreate()
    java = gateway.jvm.JavaSparkContext.fromSparkContext(there)
    context = SparkContext(gateway=gateway, jsc=java, conf=SparkConf(_jconf=there.conf()))
    context.environment["PYTHONPATH"] = os.environ["PYTHONPATH"]


if __name__ == "__main__":
    _join()
    del sys.argv[0]
    sys.path[0] = str(Path(sys.argv[0]).parent)
    runpy.run_path(sys.argv[0], run_name="__main__")
