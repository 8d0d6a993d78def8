"""Findings of a report are those of `nats-dissect audit`, from the same pass over the rows."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from dissect.nats.audit.sigma.levels import Level
from dissect.nats.cli import cli
from dissect.nats.output.arrow.records import batch
from dissect.nats.pipeline import records
from dissect.nats.report.aggregates.aggregate import Aggregate
from dissect.nats.report.aggregates.findings import (
    Findings,
    audited,
    audited_folder,
    rules,
    wanted_tables,
)
from dissect.nats.tables import TABLES

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES

AUTH = CAPTURES / "auth-2.15.1.pcap"


@cache
def found_in(path: Path) -> tuple[Findings, Aggregate]:
    """What is found in a capture, once for all tests that only read it."""
    aggregate, queries = Aggregate(), rules()
    source = records([str(path)], wanted_tables(queries))
    return audited(queries, aggregate, source), aggregate


def values(findings: Findings) -> list[tuple[object, ...]]:
    return [(one.rule, one.level, one.ts_ns, one.session, one.number) for one in findings.worst]


def test_the_findings_of_the_audit() -> None:
    findings, aggregate = found_in(AUTH)
    done = CliRunner().invoke(cli, ["audit", "--format", "jsonl", "--fail-on", "never", str(AUTH)])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    names = ("rule", "level", "ts_ns", "session", "number")
    assert values(findings) == [tuple(line.get(name) for name in names) for line in lines] != []
    assert findings.levels.total() == len(lines) and findings.left_out == 0
    assert list(findings.levels) == sorted(findings.levels, key=lambda name: -Level[name])
    assert aggregate.rows["sessions"] == len(rows([AUTH], ["sessions"]))


def test_the_same_from_tables(tmp_path: Path) -> None:
    for table in TABLES:
        some = rows([AUTH], [table])
        (tmp_path / table).mkdir()
        if some:
            pq.write_table(
                pa.Table.from_batches([batch(table, some)]), tmp_path / table / "a.parquet"
            )
    assert values(audited_folder(rules(), str(tmp_path))) == values(found_in(AUTH)[0])


def test_without_the_libraries_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sigma.rule", None)
    findings, aggregate = found_in.__wrapped__(AUTH)
    assert "pip install 'natsync[audit]'" in findings.why_not and not findings.worst
    assert aggregate.rows["sessions"] > 0
