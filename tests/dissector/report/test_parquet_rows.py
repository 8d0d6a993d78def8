"""Rows that come back from Parquet are the rows that went in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dissect.nats.output.arrow.records import batch
from dissect.nats.report.aggregates.aggregate import TABLES
from dissect.nats.report.parquet_rows import (
    TablesError,
    records_from,
    records_of,
    rows_in,
    tables_in,
)
from dissect.nats.schema.records import Record
from dissect.nats.tables import TABLE_OF

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES
from tests.support.refused import refuse

NAMES = ["orders-2.15.1.pcap", "gateway-2.15.1.pcap", "stores-2.15.1.pcap", "services-2.15.1.pcap"]


def written(folder: Path, every: list[Record]) -> None:
    for table in TABLES:
        some = [row for row in every if TABLE_OF[type(row)].name == table]
        if some:
            (folder / table).mkdir()
            pq.write_table(
                pa.Table.from_batches([batch(table, some)]), folder / table / "a.parquet"
            )


def test_rows_of_every_table_come_back(tmp_path: Path) -> None:
    every = rows([CAPTURES / name for name in NAMES], TABLES)
    written(tmp_path, every)
    places = tables_in(str(tmp_path), TABLES)
    assert len(places) > 12
    for table, path in places.items():
        expected = [row for row in every if TABLE_OF[type(row)].name == table]
        assert list(rows_in(table, path)) == expected != []


@pytest.mark.parametrize("table", ["sessions", "frames"])
def test_rows_come_back_from_pandas(table: str) -> None:
    """In which lists are arrays: several errors of a session, values of a header."""
    found = rows([CAPTURES / "core-2.15.1.pcap", CAPTURES / "auth-2.15.1.pcap"], [table])
    frame = pa.Table.from_batches([batch(table, found)]).to_pandas()
    assert list(records_from(table, frame.to_dict("records"))) == found


def test_missing_columns_are_absent() -> None:
    row, *_ = rows([CAPTURES / "core-2.15.1.pcap"], ["sessions"])
    narrow = batch("sessions", [row], ["session", "kind", "frames_originator"])
    (found,) = records_of("sessions", narrow)
    assert found == replace(
        TABLE_OF[type(row)].row(
            **{name: getattr(row, name) for name in ("session", "kind", "frames_originator")},
            **dict.fromkeys("capture transport originator responder start end".split(), ""),
            first_ns=0,
            last_ns=0,
        )
    )


def test_a_folder_without_tables(tmp_path: Path) -> None:
    with pytest.raises(TablesError, match="has no table sessions; .*--out DIR"):
        tables_in(str(tmp_path), TABLES)
    with pytest.raises(TablesError, match="is not a folder"):
        tables_in(str(tmp_path / "none"), TABLES)


def test_a_table_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sessions").mkdir()
    refuse(tmp_path / "sessions", monkeypatch)
    with pytest.raises(TablesError, match="sessions: cannot be read: Permission denied$"):
        tables_in(str(tmp_path), TABLES)


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    (tmp_path / "sessions.parquet").write_bytes(b"no parquet")
    with pytest.raises(TablesError, match="cannot be read as table sessions") as caught:
        list(rows_in("sessions", str(tmp_path / "sessions.parquet")))
    assert "\n" not in str(caught.value)


def test_other_files_in_the_folder_of_a_table_are_not_its_data(tmp_path: Path) -> None:
    every = rows([CAPTURES / "core-2.15.1.pcap"], TABLES)
    written(tmp_path, every)
    expected = list(rows_in("frames", str(tmp_path / "frames")))
    (tmp_path / "frames" / "page.html").write_text("<!DOCTYPE html>")
    (tmp_path / "frames" / "page.html.7.part").touch()
    assert list(rows_in("frames", str(tmp_path / "frames"))) == expected != []


def test_a_table_without_files_has_no_rows(tmp_path: Path) -> None:
    assert not list(rows_in("frames", str(tmp_path)))
