"""The output folder: what tasks write, and what of it is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import DissectError, SparkError
from dissect.nats.output.arrow.records import batch
from dissect.nats.schema.records import AnomalyRecord, Record, SubscriptionRecord
from dissect.nats.spark.output import Folder, PartitionWriter

if TYPE_CHECKING:
    import pyarrow as pa

DAY_NS = 86_400 * 10**9


def anomaly(ts_ns: int) -> Record:
    return AnomalyRecord(
        session="s", ts_ns=ts_ns, packet=1, sender="originator", anomaly="lost", offset=0, bytes=1
    )


def anomalies(*times_ns: int) -> pa.RecordBatch:
    return batch("anomalies", list(map(anomaly, times_ns)))


def names(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_rows_are_in_files_by_day_in_order(tmp_path: Path) -> None:
    from pyarrow import parquet

    folder = Folder(str(tmp_path / "out"))
    run = folder.begin("r1")
    writer = PartitionWriter(folder.out, run, 7, ["anomalies", "subscriptions"])
    writer.add("anomalies", anomalies(1, DAY_NS + 5, 3))
    writer.add("anomalies", anomalies(4))
    untimed = SubscriptionRecord(session="s", sid="1", sender="originator")
    writer.add("subscriptions", batch("subscriptions", [untimed]))
    writer.close()
    folder.publish(run, ["anomalies", "subscriptions"], writer.written, {"done": True})
    assert names(tmp_path / "out") == [
        "_nats-dissect.json",
        "anomalies/date=1970-01-01/part-00007-000.parquet",
        "anomalies/date=1970-01-02/part-00007-001.parquet",
        "subscriptions/date=__HIVE_DEFAULT_PARTITION__/part-00007-002.parquet",
    ]
    first = tmp_path / "out" / "anomalies" / "date=1970-01-01" / "part-00007-000.parquet"
    assert parquet.ParquetFile(first).read().column("ts_ns").to_pylist() == [1, 3, 4]


def test_only_what_is_listed_is_published(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"))
    run = folder.begin("r1")
    lost = PartitionWriter(folder.out, run, 0, ["anomalies"])
    lost.add("anomalies", anomalies(1))
    lost.close()  # a task whose answer never came
    again = PartitionWriter(folder.out, run, 0, ["anomalies"])
    again.add("anomalies", anomalies(1))
    again.close()
    folder.publish(run, ["anomalies"], again.written, {})
    assert len(names(tmp_path / "out" / "anomalies")) == 1


def test_until_all_is_there_the_old_tables_stay(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"))
    run = folder.begin("r1")
    folder.publish(run, ["frames", "flows"], [], {})
    before = names(tmp_path / "out")
    folder.check()
    folder.begin("r2")
    assert [name for name in names(tmp_path / "out") if "runs" not in name] == before
    folder.check()
    folder.publish(folder.begin("r3"), ["flows"], [], {})
    assert names(tmp_path / "out") == [
        "_nats-dissect.json",
        "flows/date=1970-01-01/part-00000.parquet",
    ]


def test_clocks_that_went_mad_leave_a_few_files_open(tmp_path: Path) -> None:
    folder = Folder(str(tmp_path / "out"))
    run = folder.begin("r1")
    writer = PartitionWriter(folder.out, run, 0, ["anomalies"])
    times = [number * 1000 * DAY_NS for number in range(100)] + [1 << 127, -(1 << 127)]
    writer.add("anomalies", anomalies(*times))
    writer.close()
    assert sum(one.rows for one in writer.written) == 102
    days = {one.name.partition("/")[0] for one in writer.written}
    assert {"date=2262-04-11", "date=1677-09-21"} <= days  # of the times that 64 bits hold


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("x")
    with pytest.raises(SparkError, match="is not a folder"):
        Folder(str(tmp_path / "out")).check()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(SparkError, match="cannot be"):
        Folder(str(tmp_path / "file" / "out")).begin("r1")


@pytest.mark.parametrize("out", ["foo://x/y", "hdfs://no host/x"])
def test_a_folder_that_cannot_be_reached_is_named(out: str) -> None:
    with pytest.raises(DissectError, match="cannot be reached") as caught:
        Folder(out)
    assert str(caught.value).startswith(f"{out}: ")
