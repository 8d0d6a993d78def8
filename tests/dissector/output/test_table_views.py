"""SQL over a folder of tables: of the archive and of Spark, in a range of time, and of earlier versions."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.capture.time_range import TimeRange
from dissect.nats.cli import cli
from dissect.nats.errors import MissingLibrary, QueryError
from dissect.nats.output.arrow.records import batch
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.day_files import HOUR_NS
from dissect.nats.output.table_views import answer_of_folder, views
from dissect.nats.schema.records import AnomalyRecord, FlowRecord

from tests.support.requirements import missing

try:
    import duckdb  # noqa: F401  # only to know that it is there

    pyarrow()
except (ImportError, MissingLibrary) as lack:
    missing("duckdb and pyarrow", str(lack))

DAY_NS = 24 * HOUR_NS


def anomaly(ts_ns: int) -> AnomalyRecord:
    return AnomalyRecord(
        session="s", ts_ns=ts_ns, packet=1, sender="originator", anomaly="lost", offset=0, bytes=1
    )


def flow(first_ns: int, last_ns: int) -> FlowRecord:
    numbers = {
        f"{name}_{side}": 0
        for name in (
            *("packets", "bytes", "zero_windows", "zero_window_ns", "window_full"),
            *("retransmitted", "out_of_order", "missing"),
        )
        for side in ("originator", "responder")
    }
    make: Callable[..., FlowRecord] = FlowRecord
    return make(
        session=f"{first_ns}",
        community_id="c",
        originator="o",
        responder="r",
        first_ns=first_ns,
        last_ns=last_ns,
        start="handshake",
        end="fin",
        protocol="nats",
        duplicate_bytes=0,
        **numbers,
    )


def write(path: Path, rows: list[AnomalyRecord] | list[FlowRecord], lacks: str = "") -> None:
    from pyarrow import Table, parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    table = Table.from_batches([batch(path.parts[-3], rows)])
    parquet.write_table(table.drop_columns([lacks]) if lacks else table, path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files of an archive, and one of a Spark job, over two days."""
    for hour in (22, 23):
        name = f"anomalies/date=1970-01-01/{hour}-000000001.parquet"
        write(tmp_path / name, [anomaly(hour * HOUR_NS + minute) for minute in range(3)])
    of_job = tmp_path / "anomalies/date=1970-01-02/part-00000-000.parquet"
    write(of_job, [anomaly(DAY_NS + HOUR_NS), anomaly(DAY_NS + 2 * HOUR_NS)])
    write(
        tmp_path / "flows/date=1970-01-01/00-000000001.parquet",
        [flow(5, 23 * HOUR_NS), flow(6, 7), flow(7, 2 * DAY_NS)],
    )
    return tmp_path


def count(folder: Path, table: str, *hours: int | None) -> int:
    between = TimeRange(*(None if hour is None else hour * HOUR_NS for hour in hours))
    with answer_of_folder(f"SELECT count(*) AS n FROM {table}", str(folder), between) as answer:
        (rows,) = [row for some in answer.batches for row in some.to_pylist()]
    return int(rows["n"])


def test_rows_are_those_of_the_range(folder: Path) -> None:
    assert count(folder, "anomalies") == 8
    assert count(folder, "anomalies", 23, None) == 5
    assert count(folder, "anomalies", 23, 24) == 3
    assert count(folder, "anomalies", None, 26) == 7
    assert count(folder, "anomalies", 1000, None) == 0


def test_rows_with_a_last_time_overlap_the_range(folder: Path) -> None:
    assert [count(folder, "flows", *hours) for hours in ((None, None), (23, 24), (24, None))] == [
        *(3, 2, 1)
    ]


def test_files_of_other_hours_are_not_opened(folder: Path) -> None:
    for name in ("date=1970-01-01/22-000000001", "date=1970-01-02/part-00000-000"):
        (folder / f"anomalies/{name}.parquet").write_bytes(b"damaged")
    assert count(folder, "anomalies", 23, 24) == 3
    with pytest.raises(QueryError, match="22-000000001.parquet"):
        count(folder, "anomalies", 22, 24)


def test_columns_that_files_lack_have_no_values(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in (folder / "flows").rglob("*.parquet"):
        write(path, [flow(1, 2)], "duplicate_bytes")
    assert count(folder, "flows WHERE duplicate_bytes IS NULL") == 1
    assert "flows lacks duplicate_bytes" in capsys.readouterr().err


def test_a_query_reads_tables_alone(folder: Path) -> None:
    (folder / "_nats-dissect.archive").mkdir()
    (folder / "_nats-dissect.archive" / "state").write_text("secrets")
    for query in (
        f"SELECT * FROM read_text('{folder}/_nats-dissect.archive/state')",
        "SET enable_external_access = true",
    ):
        with (
            pytest.raises(QueryError, match="disabled|only queries"),
            answer_of_folder(query, str(folder)),
        ):
            pass


def test_only_the_tables_that_are_there_have_views_and_others_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with views(["frames", "flows"], str(folder)) as (_, there):
        assert there == {"flows": []}
    assert count(folder, "flows") > 0 and capsys.readouterr().err == ""
    assert count(folder, "frames, servers") == 0
    assert "has no table frames, servers, so the query finds no rows" in capsys.readouterr().err


def test_the_commands_take_the_folder(folder: Path) -> None:
    def run(*arguments: str) -> str:
        result = CliRunner().invoke(cli, [*arguments, "--tables", str(folder)])
        return result.stdout if result.exit_code == 0 else f"{result.exit_code} {result.output}"

    query = ["sql", "SELECT count(*) AS n FROM anomalies", "--format", "jsonl"]
    assert json.loads(run(*query)) == {"n": 8}
    assert json.loads(run(*query, "--from", "1970-01-01T23", "--until", "1970-01-02")) == {"n": 3}
    ordered = ["sql", "FROM anomalies", "--format", "jsonl", "--sort", "ts_ns:desc", "--limit", "1"]
    assert json.loads(run(*ordered))["ts_ns"] == DAY_NS + 2 * HOUR_NS
    assert "--from does not go with --tables in seconds" in run(*query, "--from", "1.5")
    assert "not dissected again" in run(*query, "--max-flows", "7")
    assert "sql takes captures, or --tables" in run(*query, "capture.pcap")
    result = CliRunner().invoke(cli, [*query, "--tables", str(folder / "none")])
    assert result.exit_code == 2 and "no folder with tables" in result.output
    assert "sql takes captures" in CliRunner().invoke(cli, query).output
