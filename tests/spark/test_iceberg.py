"""Tables of Iceberg: a run is one snapshot, the same captures are there once, schemas gain columns."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary, SparkError
from dissect.nats.output import day_files
from dissect.nats.output.arrow.records import batch, schema
from dissect.nats.spark import iceberg
from dissect.nats.spark.api import dissect
from dissect.nats.spark.iceberg import IcebergSink, is_iceberg
from dissect.nats.spark.options.job_options import JobOptions
from dissect.nats.storage import environment

from tests.spark.test_page import commands
from tests.support.audit import session
from tests.support.iceberg_spark import select
from tests.support.partitioned import in_one
from tests.support.paths import CAPTURES
from tests.support.requirements import missing
from tests.support.s3 import SECRET, Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from pyiceberg import catalog as catalogs
    from pyiceberg.utils.concurrent import ExecutorFactory
    from pyiceberg.utils.config import Config
except ImportError:
    missing("pyiceberg", "pip install 'natsync[iceberg]'")

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.timeout(240),
]

OUT = "iceberg:lake.nats.captured"
RUNS = [f"{number:032x}" for number in range(4)]


@pytest.fixture(params=["local", "s3"])
def warehouse(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """A catalog `lake` in a file, with its tables here or in a bucket."""
    place = (tmp_path / "warehouse").as_uri()
    if request.param == "s3":
        place = request.getfixturevalue("s3_bucket").uri("warehouse")
    settings = {"TYPE": "sql", "URI": f"sqlite:///{tmp_path}/catalog.db", "WAREHOUSE": place}
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    monkeypatch.setattr(catalogs, "_ENV_CONFIG", Config())  # else that of the first import
    yield place
    if ExecutorFactory._instance:
        ExecutorFactory._instance.shutdown()
        ExecutorFactory._instance = None


def write(
    run: str,
    captures: Sequence[str],
    *names: str,
    tables: Sequence[str] = ("sessions",),
    lacking: Sequence[str] = (),
) -> None:
    """One run over these captures that finds these sessions, without the columns that it lacks."""
    sink = IcebergSink(OUT, captures, tables)
    sink.check()
    writer = sink.writer(sink.begin(run))(0, tables)
    if names:
        rows = batch("sessions", [session(session=name) for name in names])
        writer.add("sessions", rows.drop_columns(lacking) if lacking else rows)
    writer.close()
    sink.publish(run, tables, writer.written, {})


def table(name: str = "sessions", namespace: str = "nats.captured") -> Any:
    known = environment()
    endpoint = {"s3.endpoint": known["AWS_ENDPOINT_URL"]} if "AWS_ENDPOINT_URL" in known else {}
    with closing(catalogs.load_catalog("lake", **endpoint)) as catalog:
        return catalog.load_table((*namespace.split("."), name))


def sessions() -> list[str]:
    found = table().scan(selected_fields=("session",)).to_arrow()
    return sorted(found.column("session").to_pylist())


def test_the_same_captures_are_there_once_and_others_stay(warehouse: str) -> None:
    write(RUNS[0], ["s3a://caps/1.pcap"], "a", "b")
    write(RUNS[1], ["s3a://caps/2.pcap"], "c")
    assert sessions() == ["a", "b", "c"]
    write(RUNS[2], ["s3://caps/1.pcap"], "a", "d")
    assert sessions() == ["a", "c", "d"]
    write(RUNS[3], ["s3://caps/1.pcap", "s3://caps/2.pcap", "s3://caps/3.pcap"], "e")
    assert sessions() == ["e"]
    runs = [one.summary.additional_properties["nats-dissect.run"] for one in table().snapshots()]
    assert runs == RUNS
    with pytest.raises(SparkError, match="together with s3://caps/2.pcap; name all"):
        IcebergSink(OUT, ["s3://caps/1.pcap"], ["sessions"]).check()
    IcebergSink(OUT, ["s3://caps/4.pcap"], ["sessions"]).check()


def test_a_run_that_fails_leaves_no_file_and_no_snapshot(warehouse: str, tmp_path: Path) -> None:
    write(RUNS[0], ["1.pcap"], "a")
    sink = IcebergSink(OUT, ["1.pcap"], ["sessions"])
    writer = sink.writer(sink.begin(RUNS[1]))(0, ["sessions"])
    writer.add("sessions", batch("sessions", [session(session="b")]))
    writer.close()
    (one,) = writer.written
    system, path = iceberg.filesystem(one.path)
    assert system.get_file_info(path).is_file
    sink.discard(RUNS[1])
    assert not system.get_file_info(path).is_file
    assert sessions() == ["a"] and len(table().snapshots()) == 1


def test_a_table_gains_columns(warehouse: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = iceberg._columns
    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "_columns", lambda name: columns(name).remove(3))
        IcebergSink(OUT, ["1.pcap"], ["sessions"]).begin(RUNS[0])
    before = table().schema().column_names
    write(RUNS[1], ["1.pcap"], "a")
    after = table().schema().column_names
    assert sessions() == ["a"]
    assert len(after) == len(before) + 1 and set(before) < set(after)


def test_what_is_wrong_is_one_line(
    warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert is_iceberg(OUT) and not is_iceberg("tables")
    with pytest.raises(SparkError, match="is not iceberg:CATALOG.NAMESPACE"):
        IcebergSink("iceberg:lake", [], [])
    with pytest.raises(SparkError) as caught:
        IcebergSink("iceberg:nowhere.nats", [], ["frames"]).check()
    assert str(caught.value).startswith("iceberg:nowhere.nats: ") and "\n" not in str(caught.value)
    assert SECRET not in str(caught.value)
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog", None)
    with pytest.raises(MissingLibrary, match="iceberg"):
        IcebergSink(OUT, [], ["frames"]).check()


@pytest.mark.spark
@pytest.mark.parametrize("warehouse", ["local"], indirect=True)
def test_a_job_writes_tables_of_iceberg(spark: SparkSession, warehouse: str) -> None:
    capture = str(CAPTURES / "core-2.15.1.pcap")
    for _ in range(2):
        summary = dissect(spark, [capture], ["frames", "sessions"], JobOptions(), OUT)
    for name in ("frames", "sessions"):
        found = table(name).scan().to_arrow()
        assert len(found) == summary.rows[name] == len(in_one([capture], [name]))
        assert len(table(name).snapshots()) == 2


@pytest.mark.spark
@pytest.mark.parametrize("warehouse", ["s3"], indirect=True)
def test_the_command_of_the_page(spark: SparkSession, warehouse: str, s3_server: str) -> None:
    capture = CAPTURES / "core-2.15.1.pcap"
    Bucket(s3_server, "caps").put(f"in/{capture.name}", capture.read_bytes())
    (line,) = [line for line in commands("In a lakehouse") if "iceberg:" in line]
    done = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    found = table("frames", "nats").scan().to_arrow()
    assert len(found) == len(in_one([str(capture)], ["frames"]))


@pytest.mark.spark
def test_spark_reads_the_tables_of_runs_and_of_an_earlier_version(
    spark: SparkSession, warehouse: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    columns = schema("sessions")
    earlier = columns.remove(columns.get_field_index("end"))
    with monkeypatch.context() as patch:
        patch.setattr(iceberg, "_columns", lambda name: earlier)
        patch.setattr(day_files, "schema", lambda name: earlier)
        write(RUNS[0], ["earlier.pcap"], "a", lacking=["end"])
    capture = str(CAPTURES / "core-2.15.1.pcap")
    for _ in range(2):
        dissect(spark, [capture], ["frames", "sessions"], JobOptions(), OUT)

    tables = "lake.nats.captured"
    of_s3 = {}
    if warehouse.startswith("s3:"):
        of_s3 = {
            "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "spark.sql.catalog.lake.s3.endpoint": environment()["AWS_ENDPOINT_URL"],
            "spark.sql.catalog.lake.s3.path-style-access": "true",
            "spark.sql.catalog.lake.client.region": "us-east-1",
        }
    found = select(
        [
            f"SELECT * EXCEPT (time) FROM {tables}.frames ORDER BY session, number",
            f"SELECT session, `end` FROM {tables}.sessions ORDER BY session",
            f"SELECT summary['nats-dissect.run'] AS run FROM {tables}.sessions.snapshots",
            f"SELECT count(*) AS n FROM {tables}.frames.all_data_files",
        ],
        {
            "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{tmp_path}/catalog.db",
            "spark.sql.catalog.lake.warehouse": warehouse,
            **of_s3,
        },
    )
    frames = batch("frames", in_one([capture], ["frames"])).drop_columns(["time"]).to_pylist()
    for frame in frames:
        frame["headers"] = frame["headers"] and dict(frame["headers"])
    assert found[0] == sorted(frames, key=itemgetter("session", "number"))
    sessions = batch("sessions", in_one([capture], ["sessions"])).to_pylist()
    expected = {row["session"]: row["end"] for row in sessions}
    assert {row["session"]: row["end"] for row in found[1]} == {**expected, "a": None}
    assert len({row["run"] for row in found[2]}) == len(found[2]) == 3
    assert found[3] == [{"n": 2}]
