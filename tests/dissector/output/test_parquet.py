"""Parquet files: what other readers see, row groups, and that no half file has the final name."""

from __future__ import annotations

import errno
import gc
import io
import threading
from pathlib import Path
from typing import Any

import pytest

from dissect.nats.errors import FormatError, MissingLibrary
from dissect.nats.output import parquet
from dissect.nats.output.arrow.records import batch_of_values, schema, values
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.parquet import BatchWriter, ParquetWriter
from dissect.nats.pipeline import records
from dissect.nats.schema.records import Record, Value
from dissect.nats.tables import TABLES

from tests.support.arrow_rows import records_of
from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    pyarrow()
    import duckdb
    import pyarrow as arrow
    from pyarrow import parquet as witness
except (MissingLibrary, ImportError) as lack:
    missing("pyarrow or duckdb", str(lack))

CAPTURE = CAPTURES / "core-2.15.1.pcap"


def names(table: str) -> list[str]:
    return [column.name for column in TABLES[table].columns]


def written(table: str, rows: list[Record], columns: list[str] | None = None) -> bytes:
    columns = columns or names(table)
    output = io.BytesIO()
    text = io.TextIOWrapper(output)
    writer = ParquetWriter(text, table, columns)
    writer.write(list(map(values(table, columns), rows)))
    writer.close()
    return output.getvalue()


@pytest.mark.parametrize("table", TABLES)
def test_rows_come_back(table: str) -> None:
    rows = list(records([str(CAPTURE)], [table]))
    found = witness.read_table(io.BytesIO(written(table, rows)))
    assert found.schema.equals(schema(table), check_metadata=False)
    assert [row for part in found.to_batches() for row in records_of(table, part)] == rows


def test_duckdb_reads_it(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    rows = list(records([str(CAPTURE)], ["frames"]))
    path.write_bytes(written("frames", rows))
    with duckdb.connect() as connection:
        connection.execute(
            "SELECT op, count(*), max(map_keys(headers)) FROM read_parquet(?) GROUP BY 1",
            [str(path)],
        )
        found = {op: count for op, count, _ in connection.fetchall()}
    assert found["PUB"] == sum(getattr(row, "op") == "PUB" for row in rows) > 0


def test_no_rows_are_a_file() -> None:
    found = witness.read_table(io.BytesIO(written("frames", [], ["op", "queues"])))
    assert (found.num_rows, found.column_names) == (0, ["op", "queues"])


def test_row_groups_are_bounded_in_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BATCH_ROWS", 10)
    monkeypatch.setattr(parquet, "GROUP_ROWS", 25)
    rows = list(records([str(CAPTURE)], ["frames"]))[:64]
    file = witness.ParquetFile(io.BytesIO(written("frames", rows)))
    groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    assert groups == [30, 30, 4]


def test_row_groups_are_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 1000)
    output = io.BytesIO()
    text = io.TextIOWrapper(output)
    writer = ParquetWriter(text, "frames", ["op", "payload"])
    rows: list[tuple[Value, ...]] = [("PUB", "x" * 600)] * 5 + [("PING", None)]
    writer.write(rows)
    writer.close()
    file = witness.ParquetFile(output)
    groups = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    assert groups == [2, 2, 2]


class _Full(io.BytesIO):
    """A disk with room for the first bytes only."""

    def write(self, data: Any) -> int:
        if self.tell() > 2000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def test_an_error_of_the_thread_that_encodes_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 100)
    text = io.TextIOWrapper(_Full())
    writer = BatchWriter(text, schema("frames", ["op", "payload"]))
    rows: list[tuple[Value, ...]] = [("PUB", f"{at:032x}") for at in range(200)]
    some = batch_of_values("frames", rows, ["op", "payload"])
    with pytest.raises(OSError, match="No space left"):
        for _ in range(5):
            writer.write([some])
    assert "parquet row group" not in [each.name for each in threading.enumerate()]


def test_work_that_breaks_off_is_left_as_it_is() -> None:
    text = io.TextIOWrapper(io.BytesIO())
    writer = ParquetWriter(text, "sessions", names("sessions"))
    text.close()
    del writer
    gc.collect()


def test_a_type_that_parquet_lacks_is_one_line() -> None:
    columns = arrow.schema([arrow.field("x", arrow.month_day_nano_interval())])
    with pytest.raises(FormatError, match="Parquet cannot hold it: "):
        BatchWriter(io.TextIOWrapper(io.BytesIO()), columns)
