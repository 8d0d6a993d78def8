"""SQL over the tables: conditions and queries, what is wrong with them, and what they must not reach."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dissect.nats.errors import CaptureError, DissectError, QueryError
from dissect.nats.output import duckdb as sql
from dissect.nats.output.duckdb import Where, answer
from dissect.nats.pipeline import records
from dissect.nats.schema.records import FrameRecord, Record
from dissect.nats.tables import TABLES
from natsync._extras import pip_install

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    import duckdb
    import pyarrow
except ImportError as lack:
    missing("duckdb or pyarrow", str(lack))

CAPTURE = str(CAPTURES / "core-2.15.1.pcap")

# What nobody must reach, as a condition and as a query. Each is refused for its own reason.
FORBIDDEN = {
    "a file read": "SELECT * FROM read_text('{file}')",
    "a file by its name": "SELECT * FROM '{file}'",
    "a table of values": "SELECT * FROM read_csv('{file}')",
    "a folder": "SELECT * FROM glob('{folder}/*')",
    "the network": "SELECT * FROM read_csv('http://127.0.0.1:1/x')",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "a file written": "COPY (SELECT 1) TO '{folder}/new'",
    "a file written after EXPLAIN": "EXPLAIN ANALYZE COPY (SELECT 1) TO '{folder}/new'",
    "an export": "EXPORT DATABASE '{folder}/new'",
    "another database": "ATTACH '{folder}/new'",
    "an extension": "INSTALL httpfs",
    "an extension loaded": "LOAD httpfs",
    "a setting": "SET enable_external_access = true",
    "a setting, as a pragma": "PRAGMA enable_profiling",
    "a table made": "CREATE TABLE x AS SELECT 1",
    "rows of its own": "WITH x AS (INSERT INTO flows FROM flows RETURNING 1) SELECT * FROM x",
    "a variable of the program": "SELECT * FROM ROWS",
    "two queries": "SELECT 1; SELECT 2",
    "no query": "",
}


def frames() -> list[Record]:
    return list(records([CAPTURE], ["frames"]))


def kept(condition: str, rows: list[Record] | None = None) -> list[Record]:
    with closing(Where("frames", condition)) as where:
        return where.matching(frames() if rows is None else rows)


def source(
    asked: list[str] | None = None,
) -> Callable[[Collection[str]], Generator[Record, None, None]]:
    def rows(tables: Collection[str]) -> Generator[Record, None, None]:
        if asked is not None:
            asked.extend(tables)
        return records([CAPTURE], tables)

    return rows


def answered(query: str, asked: list[str] | None = None) -> list[dict[str, object]]:
    with answer(query, source(asked)) as (schema, batches):
        found = [row for batch in batches for row in batch.to_pylist()]
        assert all(list(row) == schema.names for row in found)
        return found


def test_a_condition_picks_rows_in_their_order() -> None:
    rows = frames()
    expected = [
        row
        for row in rows
        if isinstance(row, FrameRecord)
        and row.op in ("PUB", "HPUB")
        and (row.subject or "").startswith("orders.")
        and (row.payload_bytes or 0) > 1
    ]
    condition = "op IN ('PUB','HPUB') AND subject LIKE 'orders.%' AND payload_bytes > 1"
    assert kept(condition, rows) == expected != []


@pytest.mark.parametrize(
    "condition",
    [
        "headers IS NOT NULL",
        "array_contains(map_keys(headers), 'Nats-Msg-Id')",
        "array_contains(headers['X'], 'v') OR headers IS NOT NULL",
        "frames.op = 'PUB'",
        "op = 'PUB' -- and a remark",
        "OP == 'PUB' AND NOT subject IS NULL",
    ],
)
def test_conditions_in_the_words_of_spark(condition: str) -> None:
    assert 0 < len(kept(condition)) < len(frames())


def test_what_is_absent_is_not_true() -> None:
    assert [row for row in kept("max_msgs > 0") if getattr(row, "max_msgs") is None] == []
    assert kept("true", []) == []


def test_one_condition_serves_many_lists() -> None:
    rows = frames()
    with closing(Where("frames", "op = 'PUB'")) as where:
        one_by_one = [row for some in rows for row in where.matching([some])]
        assert one_by_one == where.matching(rows)


@pytest.mark.parametrize("table", TABLES)
def test_every_column_can_be_asked_for(table: str) -> None:
    """All in one condition, since each condition opens a database; an error names the column."""
    names = [column.name for column in TABLES[table].columns]
    spellings = {text for name in names for text in (name, f'"{name}"', f"{table}.{name}")}
    condition = " OR ".join(f"{text} IS NULL" for text in sorted(spellings - sql.RESERVED))
    rows = list(records([CAPTURE], [table]))[:2]
    with closing(Where(table, f"{condition} OR true")) as where:
        assert where.matching(rows) == rows


@pytest.mark.parametrize("name", sorted(sql.RESERVED))
def test_words_of_sql_need_quotes_and_the_error_says_so(name: str) -> None:
    table = next(
        table for table in TABLES if name in [column.name for column in TABLES[table].columns]
    )
    with pytest.raises(QueryError, match=f'the column is written "{name}"'):
        Where(table, f"{name} IS NULL")


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("opp = 'PUB'", "there is no column 'opp'; is it 'op'?"),
        ("nobody = 'PUB'", "there is no column 'nobody'; frames has session, number, ts_ns,"),
        (
            'op = "PUB"',
            "there is no column 'PUB' (a text is written in single quotes: 'PUB'); frames has session,",
        ),
        (
            "op =PUB",
            "there is no column 'PUB' (a text is written in single quotes: 'PUB'); frames has session,",
        ),
        ("op =", "syntax error"),
        ("", ""),
        ("count(*) > 1", "cannot contain aggregates"),
        ("row_number() OVER () > 1", "cannot contain window functions"),
        ("op", "this is not a condition: it gives VARCHAR"),
        ("op = 'PUB', true", "this is not a condition"),
        ("true; DROP TABLE frames", "this is not one condition"),
        ("true) FROM frames --", "syntax error"),
        ("true) OR (true", "syntax error"),
        ("op IN (SELECT op FROM frames)", "a condition on rows cannot look into tables"),
        ("EXISTS (FROM sessions)", "a condition on rows cannot look into tables"),
        ("op = ?", "parameter"),
        ("op = '\udc80'", "this is not text in UTF-8"),
        ("op = '\0'", "this is not text in UTF-8"),
        ("CAST(op AS INT) > 1", "Could not convert"),
    ],
)
def test_what_is_no_condition_is_reported_on_one_line(condition: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        kept(condition)
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.query == condition


@pytest.mark.parametrize("text", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_query_reaches_the_tables_and_nothing_else(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("treasure")
    query = text.format(file=tmp_path / "file", folder=tmp_path)
    with pytest.raises(QueryError) as caught:
        answered(query)
    assert "treasure" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("text", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_condition_reaches_its_row_and_nothing_else(text: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("treasure")
    query = text.format(file=tmp_path / "file", folder=tmp_path)
    for condition in (
        query,
        f"EXISTS ({query})",
        f"true) FROM frames; {query} --",
        f"true; {query}",
    ):
        with pytest.raises(QueryError):
            kept(condition)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_query_over_one_table() -> None:
    rows = frames()
    (row,) = answered("SELECT count(*) AS n, max(number) AS m FROM frames WHERE op = 'PUB'")
    pubs = [row for row in rows if isinstance(row, FrameRecord) and row.op == "PUB"]
    assert row == {"n": len(pubs), "m": max(row.number for row in pubs)}


def test_a_query_over_several_tables_builds_those_it_names() -> None:
    asked: list[str] = []
    query = "SELECT s.session, count(*) AS n FROM sessions s JOIN frames USING (session) GROUP BY 1"
    found = {row["session"]: row["n"] for row in answered(query, asked)}
    assert {"frames", "sessions"} <= set(asked) < set(TABLES)
    assert sum(map(int, map(str, found.values()))) == len(frames())


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT 1 AS x", []),
        ("FROM Flows", ["flows"]),
        ('SELECT "subscriptions" FROM sessions', ["sessions"]),
        ("WITH frames AS (SELECT 1) FROM frames", []),
        ("SELECT (SELECT count(*) FROM requests), max(op) FROM frames", ["frames", "requests"]),
    ],
)
def test_only_the_tables_that_are_named_are_built(query: str, tables: list[str]) -> None:
    asked: list[str] = []
    answered(query, asked)
    assert asked == tables


def test_rows_come_in_the_order_of_the_table() -> None:
    found = [
        (row["session"], row["number"]) for row in answered("SELECT session, number FROM frames")
    ]
    assert found == [(getattr(row, "session"), getattr(row, "number")) for row in frames()]


@pytest.mark.parametrize("query", ["DESCRIBE frames", "SUMMARIZE flows", "SHOW TABLES"])
def test_what_tells_about_tables_is_a_query_too(query: str) -> None:
    assert answered(query)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("SELECT opp FROM flows", "there is no column 'opp'; flows has session, community_id,"),
        ("SELECT x FROM nowhere", "there is no table 'nowhere'; the tables are"),
        ("SELECT op FROM", "syntax error"),
        ("SELECT CAST(op AS INT) FROM frames", "Could not convert"),
        ("CREATE TABLE x AS SELECT 1", "only queries are answered"),
    ],
)
def test_what_is_no_query_is_reported_on_one_line(query: str, reason: str) -> None:
    with pytest.raises(QueryError) as caught:
        answered(query)
    assert reason in str(caught.value) and "\n" not in str(caught.value)


def test_a_wrong_query_reads_no_capture() -> None:
    asked: list[str] = []
    with pytest.raises(QueryError):
        answered("SELECT opp FROM frames", asked)
    assert asked == []


def test_nothing_is_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    answered("FROM frames LIMIT 3")
    with pytest.raises(CaptureError), answer("FROM flows", lambda t: records(["/nowhere"], t)):
        pass
    with pytest.raises(KeyboardInterrupt), answer("FROM flows", source()) as (_, batches):
        assert list(tmp_path.iterdir())
        assert next(batches).num_rows
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_many_rows_are_loaded_batch_by_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "BATCH_ROWS", 7)
    (row,) = answered("SELECT count(*) AS n, max(number) AS m FROM frames")
    assert row["n"] == len(frames())


def test_too_little_memory_is_reported_on_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql, "_MEMORY", "1MB")
    with pytest.raises(QueryError, match="SQL: Out of Memory Error:") as caught:
        answered("FROM frames a, frames b, frames c ORDER BY a.subject, b.ts_ns, c.ts_ns")
    assert "\n" not in str(caught.value) and "SET" not in str(caught.value)


@pytest.mark.parametrize("size", ["1600000000", "range + 1600000000"])
def test_functions_that_make_giant_texts_are_stopped(size: str) -> None:
    """DuckDB's own limit does not count them: this took gigabytes, and minutes."""
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    for text in (f"repeat('x', {size})", f"length(repeat('x', {size}))"):
        with pytest.raises(QueryError, match="[Mm]emory"):
            answered(f"SELECT {text} FROM range(2)")
    with pytest.raises(QueryError, match="[Mm]emory"):
        kept("length(repeat('x', 1600000000)) > 0")
    assert resource.getrlimit(resource.RLIMIT_DATA) == limits


def test_missing_libraries_are_reported_on_one_line() -> None:
    code = (
        "import sys; sys.modules['duckdb'] = None\n"
        "from dissect.nats import errors\nfrom dissect.nats.output import duckdb\n"
        "try: duckdb.Where('frames', 'true')\n"
        "except errors.DissectError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == f"duckdb is not installed; {pip_install('sql')}\n"


def test_the_witnesses_are_there() -> None:
    assert issubclass(QueryError, DissectError)
    assert duckdb.__version__ and pyarrow.__version__


def test_a_new_database_compresses_few_rows_at_once(tmp_path: Path) -> None:
    """A row group is compressed as a whole, in memory that DuckDB's limit does not count."""
    path = str(tmp_path / "it's.duckdb")
    with closing(sql.create(duckdb, path, sql.limits_of(str(tmp_path)))) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT range AS number FROM range(20000)")
        with pytest.raises(duckdb.PermissionException):
            connection.execute(f"ATTACH '{tmp_path}/other.duckdb'")
        connection.execute("CHECKPOINT")
        groups = "SELECT count(DISTINCT row_group_id) FROM pragma_storage_info('numbers')"
        assert connection.execute(groups).fetchone() == (2,)


def test_frames_with_large_headers_do_not_wait_for_many_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eight thousand frames with headers of 50 kB would take a gigabyte before they are stored."""
    with closing(records([CAPTURE], ["frames"])) as rows:
        frame = next(row for row in rows if isinstance(row, FrameRecord))
    large = replace(frame, header_bytes=sql.BATCH_BYTES // 2)
    sizes = []

    def counted(table: str, rows: list[Record], columns: list[str] | None) -> object:
        sizes.append(len(rows))
        return batch(table, rows, columns)

    batch = sql.batch
    monkeypatch.setattr(sql, "batch", counted)
    with closing(sql.create(duckdb, str(tmp_path / "t.db"), {})) as connection:
        sql.create_tables(connection, ["frames"])
        sql.load(connection, [large, large, frame, large, frame])
        assert connection.execute("SELECT count(*) FROM frames").fetchone() == (5,)
    assert sizes == [2, 3]


def test_columns_that_a_query_names() -> None:
    texts = ["SELECT op FROM frames", "SELECT 1 FROM frames WHERE session = 'x'"]
    assert sql.columns_named("frames", texts) == ["session", "op"]
    assert sql.columns_named("frames", ["SELECT count(*) FROM frames"]) == ["session"]


def test_tables_are_created_as_duckdb_reads_them_from_arrow() -> None:
    with closing(duckdb.connect(":memory:")) as connection:
        sql.create_tables(connection, TABLES)
        for table in TABLES:
            connection.register("rows", sql.schema(table).empty_table())
            expected = connection.execute("DESCRIBE rows").fetchall()
            assert connection.execute(f"DESCRIBE {table}").fetchall() == expected
