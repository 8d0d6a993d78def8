"""Queries with DuckDB: over records, and over Parquet files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.audit.engines.duckdb import over_folder, over_records
from dissect.nats.errors import QueryError
from dissect.nats.output.arrow.records import batch

from tests.support.audit import frame
from tests.support.refused import refuse
from tests.support.requirements import missing

try:
    from pyarrow import Table, parquet
except ImportError as lack:
    missing("pyarrow", str(lack))

COUNT = "SELECT count(*) AS n FROM frames"


def write(path: Path, numbers: range, without: tuple[str, ...] = ()) -> None:
    path.parent.mkdir(parents=True)
    rows = Table.from_batches([batch("frames", [frame(number, subject="a") for number in numbers])])
    parquet.write_table(rows.drop_columns([*without]), path)


def test_rows_of_records() -> None:
    records = (frame(number) for number in range(20_000))
    with over_records({"frames"}, lambda tables: records) as engine:
        (answer,) = engine.rows(COUNT)
        assert answer == (20_000,)
        assert len(list(engine.rows("SELECT number FROM frames"))) == 20_000


def test_tables_that_are_missing_have_no_rows_if_the_caller_is_lenient(tmp_path: Path) -> None:
    write(tmp_path / "frames/part-0.parquet", range(3))
    tables = ["frames", "sessions"]
    with over_folder(tables, str(tmp_path), lenient=True) as engine:
        assert engine.tables == {"frames"}  # so that rules that lack tables do not run
        assert engine.named(COUNT) == [{"n": 3}]
        assert engine.named("SELECT session, kind FROM sessions") == []
    with over_folder(tables, str(tmp_path)) as engine, pytest.raises(QueryError, match="sessions"):
        engine.named("SELECT session FROM sessions")


def test_rows_of_files(tmp_path: Path) -> None:
    root = tmp_path / "it's [1]"
    write(root / "frames/date=2026-11-21/part-0.parquet", range(3))
    write(root / "frames/date=2026-11-22/part-0.parquet", range(4))
    (root / "sessions").mkdir()
    with over_folder({"frames", "sessions", "kv"}, str(root)) as engine:
        assert engine.tables == {"frames", "sessions"}
        (answer,) = engine.rows(COUNT)
        assert answer == (7,)
        assert list(engine.rows("SELECT session FROM sessions")) == []


def test_a_table_that_is_one_file(tmp_path: Path) -> None:
    write(tmp_path / "tables/frames.parquet", range(5))
    with over_folder({"frames", "sessions"}, str(tmp_path / "tables")) as engine:
        assert engine.tables == {"frames"}
        assert list(engine.rows(COUNT)) == [(5,)]


def test_columns_that_older_files_lack_have_no_values(tmp_path: Path) -> None:
    root = str(tmp_path)
    write(tmp_path / "frames/date=2026-11-21/a.parquet", range(3), ("account", "subject"))
    query = "SELECT count(*) AS n, count(account) AS named, count(subject) AS texts FROM frames"
    with over_folder({"frames"}, root) as engine:
        assert engine.lacking == {"frames": ["subject", "account"]}
        assert engine.named(query) == [{"n": 3, "named": 0, "texts": 0}]
    write(tmp_path / "frames/date=2026-11-22/b.parquet", range(4), ("account",))
    with over_folder({"frames"}, root) as engine:
        assert engine.lacking == {"frames": ["account"]}
        assert list(engine.rows(query)) == [(7, 0, 4)]


def test_files_that_are_no_such_table(tmp_path: Path) -> None:
    write(tmp_path / "sessions/part-0.parquet", range(1))
    with (
        pytest.raises(QueryError, match="not the table 'sessions'"),
        over_folder({"sessions"}, str(tmp_path)),
    ):
        pass
    (tmp_path / "frames").mkdir()
    (tmp_path / "frames/x.parquet").write_bytes(b"none")
    with (
        pytest.raises(QueryError, match="not the table 'frames'"),
        over_folder({"frames"}, str(tmp_path)),
    ):
        pass


def test_a_folder_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    day = tmp_path / "frames/date=2026-11-21"
    write(day / "part-0.parquet", range(3))
    write(tmp_path / "frames/date=2026-11-22/part-0.parquet", range(4))
    refuse(day, monkeypatch)
    with (
        pytest.raises(QueryError, match="date=2026-11-21 cannot be read: Permission denied"),
        over_folder({"frames"}, str(tmp_path)),
    ):
        pass


def test_a_root_that_cannot_be_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "frames/part-0.parquet", range(3))
    refuse(tmp_path / "frames", monkeypatch)
    with (
        pytest.raises(QueryError, match="frames cannot be read: Permission denied"),
        over_folder({"frames"}, str(tmp_path)),
    ):
        pass


def test_a_query_reaches_no_files(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    with over_records({"frames"}, lambda tables: (frame(n) for n in range(1))) as engine:
        with pytest.raises(QueryError, match="disabled"):
            list(engine.rows(f"SELECT * FROM read_text('{tmp_path / 'secret'}')"))
