"""Tables as DataFrames: from folders that Spark's own reader reaches, and from those that pyarrow does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import CaptureError
from dissect.nats.output.arrow.records import batch
from dissect.nats.spark.output import Folder, PartitionWriter
from dissect.nats.spark.table_reader import read_table

from tests.support.audit import session
from tests.support.requirements import missing
from tests.support.s3 import Bucket

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from pyarrow import Table, parquet
except ImportError:
    missing("pyarrow", "pip install 'natsync[spark]'")

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

RUN, KILLED = f"{1:032x}", f"{2:032x}"


def publish(out: str, run: str, *names: str) -> None:
    folder = Folder(out)
    folder.begin(run)
    writer = PartitionWriter(out, run, 0, ["sessions"])
    writer.add("sessions", batch("sessions", [session(session=name) for name in names]))
    writer.close()
    if run == KILLED:
        folder._move(writer.written)
    else:
        folder.publish(run, ["sessions", "flows"], writer.written, {})


@pytest.mark.parametrize("remote", [False, True])
def test_only_the_files_of_complete_runs_are_read(
    spark: SparkSession, remote: bool, s3_bucket: Bucket, tmp_path: Path
) -> None:
    out = s3_bucket.uri("tables", "s3a") if remote else str(tmp_path / "tables")
    for run, names in ((RUN, "ab"), (KILLED, "c")):
        publish(out, run, *names)
        found = read_table(spark, out, "sessions")
        assert found is not None
        assert sorted(row.session for row in found.rows.select("session").collect()) == ["a", "b"]
    flows = read_table(spark, out, "flows")
    assert flows is not None and flows.rows.count() == 0
    assert read_table(spark, out, "kv") is None


def test_a_column_that_a_file_lacks_has_no_values(
    spark: SparkSession, s3_bucket: Bucket, tmp_path: Path
) -> None:
    arrow = Table.from_batches([batch("sessions", [session(session="a", user="bob")])])
    parquet.write_table(arrow.drop(["user"]), tmp_path / "old.parquet")
    parquet.write_table(arrow, tmp_path / "new.parquet")
    for name in ("old", "new"):
        content = (tmp_path / f"{name}.parquet").read_bytes()
        s3_bucket.put(f"tables/sessions/{name}.parquet", content)
    found = read_table(spark, s3_bucket.uri("tables"), "sessions")
    assert found is not None and "user" in found.names
    assert {row.user for row in found.rows.select("user").collect()} == {None, "bob"}


def test_a_storage_that_nobody_knows_is_named(spark: SparkSession) -> None:
    with pytest.raises(CaptureError, match="cannot be reached"):
        read_table(spark, "what://is/this", "frames")
