"""Tables of application layers in Spark: the rows of the command line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats import Options, Payload, records
from dissect.nats.partition import flow_shares
from dissect.nats.spark import read
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.tables import TABLES

from tests.support.grown import with_toys
from tests.support.joined import run_joined
from tests.support.paths import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

CLUSTER = str(CAPTURES / "cluster-2.15.1.pcap")
PATHS = [
    str(CAPTURES / "core-2.15.1.pcap"),
    str(CAPTURES / "lossy.pcap"),
    CLUSTER,
]

ADDED = """
import sys
from pyspark.sql import SparkSession
from dissect.nats import records
from dissect.nats.spark import read
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.tables import TABLES

out, *paths = sys.argv[1:]
spark = SparkSession.builder.getOrCreate()
names = [item.name for item in TABLES["toys"].columns if item.name != "time"]

def rows(made):
    return sorted(repr([getattr(row, name) for name in names]) for row in made)

dissect(spark, paths, ["sessions", "toys"], JobOptions(chunk_size=1 << 14), out)
wanted = rows(records(paths, ["toys"]))
assert len(wanted) > 3
assert rows(read(spark, paths, "toys", chunk_size=1 << 13).collect()) == wanted
assert rows(spark.read.parquet(f"{out}/toys").collect()) == wanted
print("equal")
"""


def rows(made: Iterable[object], table: str) -> list[str]:
    names = [item.name for item in TABLES[table].columns if item.name != "time"]
    return sorted(repr([getattr(row, name) for name in names]) for row in made)


def test_the_table_of_a_layer_that_is_added(spark: SparkSession, tmp_path: Path) -> None:
    """It is in no other process, so a program and its workers are started with it."""
    package = with_toys(tmp_path / "package")
    program = tmp_path / "added.py"
    program.write_text(ADDED)
    done = run_joined(spark, package, program, tmp_path / "out", *PATHS)
    assert done.stdout.endswith("equal\n"), done.stderr[-4000:]


def test_a_layer_across_sessions(spark: SparkSession, tmp_path: Path) -> None:
    wanted = rows(records(PATHS, ["servers"]), "servers")
    assert len(wanted) > 3
    out = str(tmp_path / "out")
    dissect(spark, PATHS, ["sessions", "servers"], JobOptions(chunk_size=1 << 14), out)
    assert rows(spark.read.parquet(f"{out}/servers").collect(), "servers") == wanted
    made = read(spark, PATHS, "servers", chunk_size=1 << 13)
    assert rows(made.collect(), "servers") == wanted


@pytest.mark.parametrize("whole_flows", [True, False], ids=["whole_flows", "chunks"])
def test_layers_share_a_decode(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, whole_flows: bool
) -> None:
    """Of the frames that each of them reads, whose rows come from one decode, or from one shuffle."""
    if whole_flows:
        monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0)
    paths = [str(CAPTURES / f"{name}-2.15.1.pcap") for name in ("orders", "stores")]
    tables = ["requests", "publishes", "deliveries", "kv", "objects", "services"]
    out = str(tmp_path / "out")
    summary = dissect(spark, paths, tables, JobOptions(chunk_size=1 << 14), out)
    layers = "publishes deliveries kv objects services"
    assert ("decode" in summary.seconds, layers in summary.seconds) == (True, not whole_flows)
    for table in tables:
        wanted = rows(records(paths, [table]), table)
        assert rows(spark.read.parquet(f"{out}/{table}").collect(), table) == wanted, table
        assert summary.rows[table] == len(wanted)
    assert min(summary.rows[table] for table in ("publishes", "deliveries", "kv", "objects")) > 0
    made = read(spark, paths, "kv", chunk_size=1 << 13)
    assert rows(made.collect(), "kv") == rows(records(paths, ["kv"]), "kv")


@pytest.mark.parametrize("size", [1 << 13, 1 << 15, 1 << 26], ids=["many", "some", "one"])
def test_a_grouped_layer(spark: SparkSession, size: int) -> None:
    wanted = rows(records([CLUSTER], ["paths"]), "paths")
    assert len(wanted) > 3
    made = read(spark, [CLUSTER], "paths", chunk_size=size)
    assert rows(made.collect(), "paths") == wanted


@pytest.mark.parametrize(
    ("table", "name"),
    [
        ("publishes", "orders"),
        ("deliveries", "orders"),
        ("kv", "stores"),
        ("streaming", "streaming"),
    ],
)
def test_payloads_are_shown(spark: SparkSession, table: str, name: str) -> None:
    sample = [str(CAPTURES / f"{name}-2.15.1.pcap")]
    wanted = rows(records(sample, [table], Options(payload=Payload.TEXT)), table)
    assert wanted != rows(records(sample, [table]), table)
    made = read(spark, sample, table, payload="text", chunk_size=1 << 13)
    assert rows(made.collect(), table) == wanted
