"""Queries of rules: what a finding shows, and which rules make findings."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sql.compiler import compiled, reporting
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.errors import RuleError
from dissect.nats.tables import TABLES

from tests.support.audit import detection_text, findings, frame, rule_text, rules, session

BASE = detection_text("  selection: {op: PUB}", number=1)
COUNT = (
    "correlation: {{type: event_count, rules: [rule-1], timespan: 1m, condition: {{gte: 1}}{}}}\n"
)


def test_a_finding_shows_the_fields_of_the_rule() -> None:
    more = "fields: [reply, headers, queues, session.user, number]\nsubject: session.user\n"
    text = detection_text("  selection: {op: PUB}", more=more)
    row = frame(5, subject="x", headers={"a": ["b"]}, queues=["q"])
    (finding,) = findings(text, [row, session(user="alice")])
    assert finding.values == {"headers": {"a": ["b"]}, "queues": ["q"], "session.user": "alice"}
    assert (finding.subject, finding.number, finding.ts_ns) == ("alice", 5, 5 * 10**9)
    assert (finding.capture, finding.packet, finding.count) == ("a.pcap", 5, 1)
    assert finding.follow == f"nats-dissect follow {finding.session} a.pcap"


@pytest.mark.parametrize("dialect", Dialect)
@pytest.mark.parametrize("table", TABLES)
def test_every_table_can_be_audited(table: str, dialect: Dialect) -> None:
    made = rules(detection_text("  selection: [keyword]", table))
    (query,) = compiled(made, made, dialect)
    assert query.tables == {table}


@pytest.mark.parametrize(
    ("more", "line", "reason"),
    [
        ("fields: [subject, nobody]\n", 4, "frames has no column 'nobody'"),
        ("subject: nobody\n", 4, "frames has no column 'nobody'"),
        ("subject: queues\n", 4, "'queues' has no single value"),
    ],
)
def test_a_field_that_there_is_not(more: str, line: int, reason: str) -> None:
    made = rules(detection_text("  selection: {op: PUB}", more=more))
    with pytest.raises(RuleError, match=f"test.yml:{line}: {reason}"):
        compiled(made, made, Dialect.DUCKDB)


def test_a_rule_that_a_correlation_counts_makes_no_findings_of_its_own() -> None:
    silent = rules(f"{BASE}---\n{rule_text(COUNT.format(''), 2)}")
    assert reporting(silent) == ["rule-2"]
    loud = rules(f"{BASE}---\n{rule_text(COUNT.format(', generate: true'), 2)}")
    assert reporting(loud) == ["rule-1", "rule-2"]
