"""Tables of application layers in Spark: the rows of the command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.grown import ROOT, with_toys
from tests.support.spark import submit_arguments

# Two jobs in a Spark of their own take a while where other tests run.
pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

SCRIPT = """
import os, sys
from pyspark.sql import SparkSession
from dissect.nats import Options, records
from dissect.nats.spark import read
from dissect.nats.spark.api import dissect
from dissect.nats.spark.job_options import JobOptions
from dissect.nats.tables import TABLES

out, *paths = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
spark.sparkContext.setLogLevel("OFF")

def rows(made, table):
    names = [item.name for item in TABLES[table].columns if item.name != "time"]
    return sorted(repr([getattr(row, name) for name in names]) for row in made)

tables = ["toys", "servers"]
dissect(spark, paths, ["sessions", *tables], JobOptions(chunk_bytes=1 << 14), out)
for table in tables:
    wanted = rows(records(paths, [table]), table)
    assert len(wanted) > 3, table
    assert rows(read(spark, paths, table, chunk_size=1 << 13).collect(), table) == wanted, table
    assert rows(spark.read.parquet(f"{out}/{table}").collect(), table) == wanted, table
wanted = rows(records(paths[-1:], ["paths"]), "paths")
assert len(wanted) > 3
for size in (1 << 13, 1 << 15, 1 << 26):  # many chunks, some, one
    made = read(spark, paths[-1:], "paths", chunk_size=size)
    assert rows(made.collect(), "paths") == wanted, size
options = Options(payload="text")
showing = {"publishes": "orders", "deliveries": "orders", "kv": "stores", "streaming": "streaming"}
for table, name in showing.items():
    sample = [f"{os.path.dirname(paths[0])}/{name}-2.15.1.pcap"]
    wanted = rows(records(sample, [table], options), table)
    assert wanted != rows(records(sample, [table]), table), table
    shown = read(spark, sample, table, payload="text", chunk_size=1 << 13)
    assert rows(shown.collect(), table) == wanted, table
print("equal")
"""


def test_rows_are_those_of_the_command_line(tmp_path: Path) -> None:
    package = with_toys(tmp_path / "package")
    captures = ROOT / "samples" / "captures"
    paths = [captures / "core-2.15.1.pcap", captures / "damaged-loss-reorder.pcap"]
    paths += [captures / "cluster-2.15.1.pcap"]
    here = {**os.environ, "PYTHONPATH": str(package), "PYSPARK_PYTHON": sys.executable}
    here["PYSPARK_SUBMIT_ARGS"] = submit_arguments()
    command = [sys.executable, "-c", SCRIPT, str(tmp_path / "out"), *map(str, paths)]
    done = subprocess.run(command, cwd=package, env=here, capture_output=True, text=True)
    assert done.stdout.endswith("equal\n"), done.stderr[-4000:]
