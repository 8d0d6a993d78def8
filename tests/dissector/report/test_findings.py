"""Findings of a report are those of `nats-dissect audit`, over the tables of the report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.audit.engines.duckdb import over_records
from dissect.nats.audit.sigma.levels import Level
from dissect.nats.cli import cli
from dissect.nats.pipeline import records
from dissect.nats.report.answers import Answers, answers_of
from dissect.nats.report.findings import Findings, findings_in, rules, wanted
from natsync._extras import pip_install

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES

AUTH = CAPTURES / "auth-2.15.1.pcap"


def found_in(path: Path) -> tuple[Findings, Answers]:
    queries = rules()
    columns = wanted(queries)
    with over_records(columns, lambda tables: records([str(path)], tables), columns) as engine:
        return findings_in(queries, engine), answers_of(engine)


def test_the_findings_of_the_audit() -> None:
    findings, answers = found_in(AUTH)
    done = CliRunner().invoke(cli, ["audit", "--format", "jsonl", "--fail-on", "never", str(AUTH)])
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    names = ("rule", "level", "ts_ns", "session", "number")
    values = [tuple(getattr(one, name) for name in names) for one in findings.worst]
    assert values == [tuple(line.get(name) for name in names) for line in lines] != []
    assert findings.levels.total() == len(lines) and findings.left_out == 0
    assert list(findings.levels) == sorted(findings.levels, key=lambda name: -Level[name])
    assert answers.totals.sessions == len(rows([AUTH], ["sessions"]))


def test_without_the_libraries_the_report_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sigma.rule", None)
    findings, answers = found_in(AUTH)
    assert pip_install("audit") in findings.why_not and not findings.worst
    assert answers.totals.sessions > 0
