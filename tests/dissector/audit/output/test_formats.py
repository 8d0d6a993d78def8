"""The formats of findings."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from dissect.nats.audit.findings.finding import Finding
from dissect.nats.audit.output.formats import OUTPUTS, column_names
from dissect.nats.audit.output.report import Report
from dissect.nats.output.writer import Layout

from tests.support.audit import finding
from tests.support.requirements import missing

try:
    from pyarrow import parquet
except ImportError as lack:
    missing("pyarrow", str(lack))

FINDINGS = [
    finding(fields='{"user": "alice"}', subject="=1+1"),
    finding(rule="b", ts_ns=None, session=None, false_positives=[]),
]


def written(name: str, findings: list[Finding], columns: tuple[str, ...] | None = None) -> str:
    output = io.StringIO()
    layout = Layout(columns, csv_safe=True)
    OUTPUTS[name].write(output, Report(findings, {"a": 1, "b": 1}, {}, layout))
    return output.getvalue()


def test_json_lines_leave_out_what_is_absent() -> None:
    one, two = map(json.loads, written("jsonl", [*FINDINGS]).splitlines())
    assert one["fields"] == {"user": "alice"}
    assert one["time"] == "1970-01-01T00:00:00.000000005Z"
    assert "ts_ns" not in two and "false_positives" not in two


def test_csv_has_all_columns_and_no_formulas() -> None:
    one, two = csv.DictReader(io.StringIO(written("csv", [*FINDINGS])))
    assert list(one) == list(column_names())
    assert (one["subject"], one["fields"]) == ("'=1+1", '{"user": "alice"}')
    assert (two["ts_ns"], two["time"], two["false_positives"]) == ("", "", "[]")


def test_columns_come_in_the_order_asked_for() -> None:
    assert written("csv", [*FINDINGS], ("count", "rule")) == "count,rule\n1,a\n1,b\n"
    lines = written("text", [*FINDINGS], ("rule", "time")).splitlines()
    assert lines[0].split() == ["rule", "time"]


@pytest.mark.parametrize("findings", [FINDINGS, []])
def test_parquet_has_all_findings_and_their_time_in_utc(
    tmp_path: Path, findings: list[Finding]
) -> None:
    path = tmp_path / "findings.parquet"
    with path.open("w", encoding="utf-8") as output:
        report = Report(findings, {}, {}, Layout())
        OUTPUTS["parquet"].write(output, report)
    table = parquet.read_table(path)
    assert table.num_rows == len(findings)
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"


def test_without_findings_only_csv_has_a_line() -> None:
    assert written("text", []) == ""
    assert written("jsonl", []) == ""
    assert written("csv", []).splitlines() == [",".join(column_names())]
