"""Files of rows by day; what Spark's tasks write into them is in tests/spark/test_output.py."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow.records import batch
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.day_files import DAY_NS, HOUR_NS, DayFiles, WrittenFile, day_folder
from dissect.nats.schema.records import AnomalyRecord

from tests.support.requirements import missing

if TYPE_CHECKING:
    import pyarrow as pa

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))


def anomalies(*times_ns: int) -> pa.RecordBatch:
    rows = [
        AnomalyRecord(
            session="s",
            ts_ns=ts_ns,
            packet=1,
            sender="originator",
            anomaly="lost",
            offset=0,
            bytes=1,
        )
        for ts_ns in times_ns
    ]
    return batch("anomalies", rows)


def test_each_hour_has_a_file_in_the_folder_of_its_day(tmp_path: Path) -> None:
    from pyarrow import parquet

    def new(table: str, first_ns: int | None) -> tuple[WrittenFile, BinaryIO]:
        assert first_ns is not None
        path = tmp_path / f"{first_ns}.parquet"
        name = f"{day_folder(first_ns)}/{first_ns % DAY_NS // HOUR_NS}"
        return WrittenFile(table, name, str(path), 0), path.open("wb")

    files = DayFiles(HOUR_NS, new)
    files.add("anomalies", anomalies(DAY_NS + 1, HOUR_NS - 1, DAY_NS + 2))
    files.add("anomalies", anomalies(HOUR_NS))
    files.close()
    assert [(one.name, one.rows) for one in files.written] == [
        ("date=1970-01-02/0", 2),
        ("date=1970-01-01/0", 1),
        ("date=1970-01-01/1", 1),
    ]
    first = parquet.ParquetFile(files.written[0].path).read()
    assert first.column("ts_ns").to_pylist() == [DAY_NS + 1, DAY_NS + 2]


def test_rows_without_a_time_have_a_folder() -> None:
    assert day_folder(None) == "date=__HIVE_DEFAULT_PARTITION__"
