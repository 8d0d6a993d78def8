"""Tables of Delta Lake: a run is one version, the same captures are there once, schemas gain columns."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary, SparkError
from dissect.nats.output.arrow.records import batch
from dissect.nats.spark import delta
from dissect.nats.spark.delta import DeltaSink, is_delta, with_folder
from dissect.nats.storage import listed, write_whole

from tests.spark.test_page import commands
from tests.support.audit import session
from tests.support.partitioned import in_one
from tests.support.paths import CAPTURES
from tests.support.requirements import missing
from tests.support.s3 import SECRET, Bucket

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

try:
    from deltalake import DeltaTable, Schema
except ImportError:
    missing("deltalake", "pip install 'natsync[delta]'")

pytestmark = pytest.mark.timeout(240)

DAY_NS = 24 * 3600 * 10**9
RUNS = [f"{number:032x}" for number in range(4)]


@pytest.fixture(params=["local", "s3"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A folder for tables, here or in a bucket."""
    if request.param == "s3":
        bucket: Bucket = request.getfixturevalue("s3_bucket")
        return bucket.uri("lake of mine", "s3a")
    return str(tmp_path / "lake of mine")


def write(
    folder: str,
    run: str,
    captures: Sequence[str],
    *names: str,
    first_ns: int = 0,
    commit: bool = True,
) -> DeltaSink:
    """One run over these captures that finds these sessions."""
    sink = DeltaSink(f"delta:{folder}", captures, ["sessions"])
    sink.check()
    writer = sink.writer(sink.begin(run))(0, ["sessions"])
    if names:
        rows = [session(session=name, first_ns=first_ns, last_ns=first_ns) for name in names]
        writer.add("sessions", batch("sessions", rows))
    writer.close()
    if commit:
        sink.publish(run, ["sessions"], writer.written, {})
    return sink


def latest(folder: str, name: str = "sessions") -> DeltaTable:
    sink = DeltaSink(f"delta:{folder}", [], [name])
    table = sink._latest(name)
    assert table
    return table


def rows(table: DeltaTable, query: str) -> list[dict[str, object]]:
    """What delta-rs finds in a table `t`."""
    builder = import_module("deltalake").QueryBuilder().register("t", table)
    found: pa.Table = import_module("pyarrow").table(builder.execute(query).read_all())
    values: list[dict[str, object]] = found.to_pylist()
    return values


def sessions(folder: str) -> list[object]:
    return [
        row["session"] for row in rows(latest(folder), "SELECT session FROM t ORDER BY session")
    ]


def committed(table: DeltaTable) -> list[str]:
    """The runs of the versions of a table, the first one first."""
    return [
        one["nats-dissect.run"] for one in reversed(table.history()) if one["operation"] == "WRITE"
    ]


@pytest.fixture(scope="module", autouse=True)
def _runtime(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Starts the runtime of delta-rs, which a process keeps, before a test that looks for what is left."""
    folder = str(tmp_path_factory.mktemp("delta"))
    write(folder, RUNS[0], ["1.pcap"], "a")
    assert sessions(folder) == ["a"]


def test_the_same_captures_are_there_once_and_others_stay(folder: str) -> None:
    write(folder, RUNS[0], ["s3a://caps/1.pcap"], "a", "b")
    write(folder, RUNS[1], ["s3a://caps/2.pcap"], "c")
    assert sessions(folder) == ["a", "b", "c"]
    write(folder, RUNS[2], ["s3://caps/1.pcap"], "a", "d")
    assert sessions(folder) == ["a", "c", "d"]
    write(folder, RUNS[3], ["s3://caps/1.pcap", "s3://caps/2.pcap", "s3://caps/3.pcap"], "e")
    assert sessions(folder) == ["e"]
    assert committed(latest(folder)) == RUNS
    with pytest.raises(SparkError, match="together with s3://caps/2.pcap; name all"):
        DeltaSink(f"delta:{folder}", ["s3://caps/1.pcap"], ["sessions"]).check()
    DeltaSink(f"delta:{folder}", ["s3://caps/4.pcap"], ["sessions"]).check()


def test_a_run_that_fails_leaves_no_file_and_no_version(folder: str) -> None:
    write(folder, RUNS[0], ["1.pcap"], "a")
    sink = write(folder, RUNS[1], ["1.pcap"], "b", commit=False)

    def own() -> list[str]:
        found = listed(sink._fs, sink._root, recursive=True)
        return [one.path for one in found if RUNS[1] in one.path]

    assert len(own()) == 2  # the rows, and the names of the captures
    sink.discard(RUNS[1])
    assert own() == [] and sessions(folder) == ["a"]
    assert committed(latest(folder)) == RUNS[:1]


def test_a_table_gains_columns(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    columns = delta._columns

    def fewer(name: str) -> Schema:
        return Schema([field for field in columns(name).fields if field.name != "end"])

    with monkeypatch.context() as patch:
        patch.setattr(delta, "_columns", fewer)
        write(folder, RUNS[0], ["1.pcap"], "a")
    write(folder, RUNS[1], ["2.pcap"], "b")
    names = {field.name for field in latest(folder).schema().fields}
    assert names == {field.name for field in columns("sessions").fields} and "end" in names
    assert sessions(folder) == ["a", "b"]


def test_readers_find_a_time_by_day_and_by_the_smallest_and_largest_time(folder: str) -> None:
    write(folder, RUNS[0], ["1.pcap"], "a", first_ns=DAY_NS + 5)
    write(folder, RUNS[1], ["2.pcap"], "b", first_ns=2 * DAY_NS)
    days = rows(latest(folder), "SELECT session, CAST(date AS VARCHAR) AS day FROM t ORDER BY 1")
    assert days == [
        {"session": "a", "day": "1970-01-02"},
        {"session": "b", "day": "1970-01-03"},
    ]
    actions = (
        import_module("pyarrow").table(latest(folder).get_add_actions(flatten=True)).to_pylist()
    )
    ranges = {(one["num_records"], one["min.first_ns"], one["max.first_ns"]) for one in actions}
    assert ranges == {(1, DAY_NS + 5, DAY_NS + 5), (1, 2 * DAY_NS, 2 * DAY_NS)}


def test_what_is_wrong_is_one_line(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_delta("delta:x") and not is_delta("tables")
    assert with_folder("delta:x", str.upper) == "delta:X"
    with pytest.raises(SparkError, match="is not delta:FOLDER"):
        DeltaSink("delta:", [], [])
    if folder.startswith("s3"):
        with pytest.raises(SparkError) as caught:
            DeltaSink("delta:s3://no-such-bucket/x", [], ["frames"]).begin(RUNS[0])
        assert str(caught.value).startswith("delta:s3://no-such-bucket/x: ")
        assert "\n" not in str(caught.value) and SECRET not in str(caught.value)
    sink = write(folder, RUNS[0], ["1.pcap"], "a")
    sink._fs.delete_file(sink._note(RUNS[0]))
    with pytest.raises(SparkError, match="nobody knows what that run has read; name a new folder"):
        sink.check()
    write_whole(sink._fs, f"{sink._root}/frames/x.parquet", b"PAR1")
    with pytest.raises(SparkError, match="frames has files, and is no Delta table; name a new"):
        DeltaSink(f"delta:{folder}", [], ["frames"]).check()
    with monkeypatch.context() as patch:
        patch.delattr("deltalake.transaction.RemoveAction")
        with pytest.raises(MissingLibrary, match="older than 1.6.6; pip install"):
            DeltaSink("delta:x", [], ["frames"])
    monkeypatch.setitem(sys.modules, "deltalake.transaction", None)
    with pytest.raises(
        MissingLibrary, match=r"deltalake is not installed; pip install '.*\[delta\]'"
    ):
        DeltaSink("delta:x", [], ["frames"])


@pytest.mark.spark
def test_a_job_writes_tables_of_delta(spark: SparkSession, folder: str) -> None:
    capture = str(CAPTURES / "core-2.15.1.pcap")
    for _ in range(2):
        done = CliRunner().invoke(cli, ["spark", capture, "--out", f"delta:{folder}"])
        assert done.exit_code == 0, done.output
    for name in ("frames", "sessions"):
        (count,) = rows(latest(folder, name), "SELECT count(*) AS n FROM t")
        assert count["n"] == len(in_one([capture], [name]))
        assert len(committed(latest(folder, name))) == 2
    for command in (["audit"], ["sql", "SELECT 1 FROM frames"]):
        refused = CliRunner().invoke(cli, [*command, "--tables", folder])
        assert (refused.exit_code, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert (
            f"{folder}" in refused.stderr and "tables of Delta Lake, whose logs" in refused.stderr
        )


@pytest.mark.spark
def test_the_command_of_the_page(spark: SparkSession, s3_server: str, s3_bucket: Bucket) -> None:
    capture = CAPTURES / "core-2.15.1.pcap"
    Bucket(s3_server, "caps").put(f"in/{capture.name}", capture.read_bytes())
    Bucket(s3_server, "lake")
    (line,) = [line for line in commands("In a lakehouse") if "delta:" in line]
    done = CliRunner().invoke(cli, shlex.split(line)[1:])
    assert done.exit_code == 0, done.output
    (count,) = rows(latest("s3a://lake/nats", "frames"), "SELECT count(*) AS n FROM t")
    assert count["n"] == len(in_one([str(capture)], ["frames"]))
