"""`nats-dissect sql`: the answers in all formats, and one line for what is wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest
from click.testing import CliRunner, Result

from dissect.nats.cli import cli

from tests.support.paths import CAPTURES, ROOT
from tests.support.requirements import missing

try:
    import duckdb  # noqa: F401  # whether it is there
    from pyarrow import parquet
except ImportError as lack:
    missing("duckdb or pyarrow", str(lack))

CORE = str(CAPTURES / "core-2.15.1.pcap")
WITHOUT_PANDAS = """
import sys

class Lack:
    def find_spec(name, *_):
        if name == "pandas":
            raise ImportError(name)

sys.meta_path.insert(0, Lack)
from dissect.nats.cli import main
main()
"""
COUNTS = "SELECT op, count(*) AS n FROM frames WHERE op IN ('SUB', 'PUB') GROUP BY 1 ORDER BY 1"


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, ["sql", *args])


def lines(query: str, *args: str) -> list[dict[str, object]]:
    result = run(query, CORE, "--format", "jsonl", *args)
    assert (result.exit_code, result.stderr) == (0, "")
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize("limit, rows", [("1", 1), ("2", 2), (str(1 << 63), 2)])
def test_a_limit_may_be_any_number(limit: str, rows: int) -> None:
    assert len(lines(COUNTS, "--limit", limit)) == rows


@pytest.mark.parametrize(
    "query",
    [
        "SELECT op, count(*) AS n FROM frames GROUP BY 1",
        "FROM frames SELECT op, count(*) AS n GROUP BY op -- of all; sessions",
        "SELECT op, /* ö; */ count(*) AS n FROM frames WHERE op != 'ö;' GROUP BY 1; -- that is all;",
        "SELECT NULL AS op, 0 AS n UNION ALL SELECT op, count(*) FROM frames GROUP BY 1 ORDER BY op;\n",
    ],
)
def test_rows_in_the_order_of_a_column(query: str) -> None:
    counts = [row["n"] for row in lines(query, "--sort", "n:desc")]
    assert counts == sorted([row["n"] for row in lines(query)], reverse=True) and counts[0] == 52
    ops = [row.get("op") for row in lines(query, "--sort", "op")]
    known = [op for op in ops if op]
    assert known == sorted(known, key=str) and None not in ops[: len(known)]
    assert [row["n"] for row in lines(query, "--sort", "n:desc", "--limit", "2")] == counts[:2]


def test_an_unknown_column_to_sort_by_is_refused_before_captures_are_read() -> None:
    done = run('SELECT kind AS "a b", session FROM sessions', "nowhere.pcap", "--sort", "kind")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr == (
        "nats-dissect: --sort: the result has no column 'kind' to sort by; it has a b, session\n"
    )


def test_a_table_for_a_person() -> None:
    result = run(COUNTS, CORE)
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["op", "n"],
        ["PUB", "43"],
        ["SUB", "15"],
    ]


def test_the_answer_as_json_lines_has_an_object_for_each_row() -> None:
    assert lines(COUNTS) == [{"op": "PUB", "n": 43}, {"op": "SUB", "n": 15}]


def test_the_answer_as_csv_has_a_head() -> None:
    result = run(COUNTS, CORE, "--format", "csv")
    assert [*csv.reader(io.StringIO(result.stdout))] == [["op", "n"], ["PUB", "43"], ["SUB", "15"]]


def test_the_answer_as_parquet_is_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "answer.parquet"
    assert run(COUNTS, CORE, "--format", "parquet", "-o", str(path)).exit_code == 0
    assert parquet.read_table(path).to_pylist() == [{"op": "PUB", "n": 43}, {"op": "SUB", "n": 15}]
    assert [found.name for found in tmp_path.iterdir()] == ["answer.parquet"]


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(SELECT sum(i) FROM range(5) AS r(i))", 10),
        ("CAST(1.50 AS DECIMAL(9, 2))", 1.5),
        ("170141183460469231731687303715884105727", 170141183460469231731687303715884105727),
        ("make_timestamp_ns(1700000000123456789)", "2023-11-14 22:13:20.123456789"),
        ("DATE '2020-01-02'", "2020-01-02"),
        ("true", True),
        ("'nan'::DOUBLE", "nan"),
        ("MAP {'a': [1, 2]}", {"a": [1, 2]}),
        ("{'a': 1.25, 'b': [DATE '2020-01-02']}", {"a": 1.25, "b": ["2020-01-02"]}),
        ("'\\xff'::BLOB", "\\xff"),
        ("chr(8232) || 'x'", "\u2028x"),
        ("['a', NULL]", ["a", None]),
    ],
)
def test_values_of_all_types(expression: str, value: object) -> None:
    (row,) = lines(f"SELECT {expression} AS x, NULL AS y")
    assert row == {"x": value}


def test_values_on_one_line_for_a_person() -> None:
    result = run("SELECT 'a' || chr(10) || chr(27) AS x, [1, 2] AS y, NULL AS z", CORE)
    assert [line.split() for line in result.stdout.splitlines()] == [
        ["x", "y"],
        ["a\\x0a\\x1b", "[1,2]"],
    ]


@pytest.mark.parametrize(("form", "head"), [("csv", "op\n"), ("jsonl", ""), ("text", "")])
def test_an_answer_without_rows_has_only_the_head_of_its_format(form: str, head: str) -> None:
    result = run("SELECT op FROM frames WHERE false", CORE, "--format", form)
    assert (result.exit_code, result.stdout) == (0, head)


@pytest.mark.parametrize("limit", [0, 1, 7])
def test_a_limit_holds_for_each_format(limit: int, tmp_path: Path) -> None:
    query = "SELECT number FROM frames"
    assert len(lines(query, "--limit", str(limit))) == limit
    path = tmp_path / "answer.parquet"
    run(query, CORE, "--format", "parquet", "-o", str(path), "--limit", str(limit))
    assert parquet.read_table(path).num_rows == limit


def test_payloads_and_secrets_as_for_the_tables() -> None:
    assert lines("SELECT count(payload) AS n FROM frames") == [{"n": 0}]
    (row,) = lines("SELECT count(payload) AS n FROM frames", "--payload", "text")
    assert row["n"] != 0
    query = "SELECT string_agg(json) AS x FROM frames"
    auth = str(CAPTURES / "auth-2.15.1.pcap")
    assert "s3cret" not in run(query, auth, "--format", "jsonl").stdout
    assert "s3cret" in run(query, auth, "--format", "jsonl", "--no-redact").stdout


@pytest.mark.parametrize(
    ("query", "capture", "reason"),
    [
        ("SELECT opp FROM flows", CORE, "there is no column 'opp'; flows has session,"),
        ("SELECT * FROM nope", CORE, "no table 'nope'; the tables are frames, sessions,"),
        ("SELECT * FROM test_all_types()", CORE, "cast it to a text"),
        ("SELECT * FROM read_text('/etc/hosts')", CORE, "Permission Error"),
        ("FROM flows", "/nowhere", "/nowhere: no such file"),
        ("SELECT CAST(op AS INT) FROM frames", CORE, "Could not convert"),
    ],
)
def test_what_is_wrong_is_reported_on_one_line(query: str, capture: str, reason: str) -> None:
    result = run(query, capture)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr and result.stderr.count("\n") == 1


def test_nanoseconds_in_a_struct_need_pandas_or_a_cast() -> None:
    """Python has no such times: pyarrow makes those of pandas, if it is there."""
    query = "SELECT {'a': make_timestamp_ns(1)} AS x"
    command = [sys.executable, "-c", WITHOUT_PANDAS, "sql", query, CORE]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (result.returncode, result.stdout) == (2, "")
    assert "cast it to a text" in result.stderr and result.stderr.count("\n") == 1


def test_what_parquet_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "answer.parquet"
    result = run("SELECT INTERVAL 1 MONTH AS x", CORE, "--format", "parquet", "-o", str(path))
    assert result.exit_code == 2 and "Parquet cannot hold it" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_termination_leaves_no_temporary_folder(tmp_path: Path, number: signal.Signals) -> None:
    """The query waits for packets from standard input meanwhile."""
    command = [sys.executable, "-m", "dissect.nats", "sql", "FROM flows", "-"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin and process.stderr
        process.stdin.write(Path(CORE).read_bytes())
        process.stdin.flush()
        deadline = monotonic() + 50
        while not list(tmp_path.glob("nats-dissect-*/tables.duckdb")):
            assert process.poll() is None and monotonic() < deadline
            sleep(0.01)
        process.send_signal(number)
        err = process.stderr.read()
    assert (process.returncode, err) == (128 + number, b"")
    assert list(tmp_path.iterdir()) == []


def test_damage_is_reported_and_counts(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(Path(CORE).read_bytes()[:-5])
    result = run("SELECT count(*) AS n FROM flows", str(path))
    assert result.exit_code == 3
    assert "everything before it was read" in result.stderr
