"""A layer is added by adding a file: its table is in every output, with one process and with several."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dissect.nats import Options, Payload, frames
from dissect.nats.errors import MissingLibrary
from dissect.nats.number_formats import time_text
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.output.duckdb import Where

from tests.support.grown import ROOT, with_toys
from tests.support.requirements import missing

try:
    pyarrow()
    Where("frames", "true").close()
    from pyarrow import parquet
except (MissingLibrary, ImportError) as lack:
    missing("pyarrow or duckdb", str(lack))

CAPTURE = str(ROOT / "samples" / "captures" / "core-2.15.1.pcap")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return with_toys(tmp_path_factory.mktemp("package"))


def run(package: Path, *args: str) -> bytes:
    here = {"PYTHONPATH": str(package), "PATH": os.environ["PATH"]}
    command = [sys.executable, *args]
    return subprocess.run(command, cwd=package, env=here, check=True, capture_output=True).stdout


def expected() -> list[dict[str, object]]:
    """The rows, from the frames alone."""
    rows: list[dict[str, object]] = []
    before: dict[str, int] = {}
    for frame in frames([CAPTURE], Options(payload=Payload.SHA256)):
        if frame.op in ("PUB", "HPUB"):
            row: dict[str, object] = {
                "session": frame.session,
                "number": frame.number,
                "ts_ns": frame.ts_ns,
                "time": time_text(frame.ts_ns),
                "subject": frame.subject,
                "digest": frame.payload_sha256,
                "headers": len(frame.headers) if frame.headers else None,
                "before_bytes": before.get(frame.session, 0),
            }
            rows.append(row)
            before[frame.session] = before.get(frame.session, 0) + (frame.payload_bytes or 0)
    return rows


@pytest.mark.parametrize("jobs", ["1", "3"])
def test_an_added_table_is_written_as_json_lines(package: Path, jobs: str) -> None:
    lines = run(package, "-m", "dissect.nats", "toys", "--format=jsonl", f"--jobs={jobs}", CAPTURE)
    rows = expected()
    assert len(rows) > 40 and len({row["headers"] for row in rows}) > 1
    assert list(map(json.loads, lines.splitlines())) == [
        {name: value for name, value in row.items() if value is not None} for row in rows
    ]


def test_text_csv_and_parquet(package: Path, tmp_path: Path) -> None:
    rows = expected()
    head, *lines = run(package, "-m", "dissect.nats", "toys", CAPTURE).decode().splitlines()
    assert head.split() == ["subject", "before"] and len(lines) == len(rows)
    text = run(package, "-m", "dissect.nats", "toys", "--format=csv", CAPTURE).decode()
    plain = [{name: "" if v is None else str(v) for name, v in row.items()} for row in rows]
    assert list(csv.DictReader(io.StringIO(text))) == plain
    path = str(tmp_path / "toys.parquet")
    run(package, "-m", "dissect.nats", "toys", "--format=parquet", "-o", path, CAPTURE)
    found = parquet.read_table(path)
    assert found.column("digest").to_pylist() == [row["digest"] for row in rows]
    times = found.column("time").cast("int64").to_pylist()
    assert times == [int(str(row["ts_ns"])) // 1000 for row in rows]


def test_sql_conditions_and_python(package: Path) -> None:
    rows = expected()
    large = [row for row in rows if int(str(row["before_bytes"])) > 1000]
    query = "SELECT count(*) AS n FROM toys JOIN frames USING (session, number)"
    answer = run(package, "-m", "dissect.nats", "sql", "--format=jsonl", query, CAPTURE)
    assert json.loads(answer) == {"n": len(rows)}
    where = ("toys", "--where", "before_bytes > 1000", "--format=csv", CAPTURE)
    assert len(run(package, "-m", "dissect.nats", *where).splitlines()) == len(large) + 1
    code = (
        "import sys; from dissect.nats import TABLES, records;"
        "print(len(list(records(sys.argv[1:], ['toys']))), TABLES['toys'].summary)"
    )
    assert run(package, "-c", code, CAPTURE).decode().split()[:2] == [str(len(rows)), "List"]
