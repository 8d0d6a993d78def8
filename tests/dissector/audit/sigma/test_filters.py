"""Filters: conditions that are added to the rules of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sigma.rules import Detection
from dissect.nats.errors import RuleError

from tests.support.audit import detection_text, findings, frame, rule_text, rules

RULES = "---\n".join(
    [
        detection_text("  selection: {op: PUB}", number=1),
        detection_text("  selection: {op: SUB}", number=2),
        detection_text("  selection: {kind: client}", "sessions", number=3),
        rule_text(
            "correlation: {type: event_count, rules: [rule-1], timespan: 1m, condition: {gte: 2},"
            " generate: true}\n",
            4,
        ),
    ]
)
FILTER = """---
{head}logsource: {{product: nats, category: frames}}
filter:
  rules: {rules}
  known: {{subject|startswith: known.}}
  condition: not known
"""
ROWS = [
    frame(1, subject="known.a"),
    frame(2, subject="b"),
    frame(3, subject="known.c", op="SUB"),
    frame(4, subject="known.d"),
]


def found(wanted: str) -> list[tuple[str, int | None]]:
    text = RULES + FILTER.format(head=rule_text("", 5), rules=wanted)
    return [(one.rule, one.number) for one in findings(text, ROWS)]


def test_a_filter_leaves_out_what_is_known_of_the_rules_that_it_names() -> None:
    assert found("[rule-1]") == [("rule-1", 2), ("rule-2", 3)]
    assert found("[00000000-0000-4000-8000-000000000002]") == [
        ("rule-1", 1),
        ("rule-1", 2),
        ("rule-1", 4),
        ("rule-4", 2),
    ]


def test_a_filter_for_any_is_for_the_rules_of_its_table() -> None:
    assert found("any") == [("rule-1", 2)]


@pytest.mark.parametrize(
    ("wanted", "reason"),
    [
        ("[nobody]", "there is no rule 'nobody'"),
        ("[rule-3]", "'rule-3' is about sessions, not frames"),
        ("[rule-4]", "is a correlation: a filter is for the rules that it counts (rule-1)"),
    ],
)
def test_a_filter_for_no_rule_is_refused_with_its_line(wanted: str, reason: str) -> None:
    text = RULES + FILTER.format(head=rule_text("", 5), rules=wanted)
    with pytest.raises(RuleError) as raised:
        rules(text)
    assert (
        reason in str(raised.value)
        and raised.value.line == text[: text.index(wanted)].count("\n") + 1
    )


def test_a_filter_in_a_file_is_for_a_rule_of_the_package(tmp_path: Path) -> None:
    made = FILTER.format(head=rule_text("", 5), rules="[permission-violation]")
    (tmp_path / "filter.yml").write_text(made.removeprefix("---\n"), encoding="utf-8")
    rule = load_rules([str(tmp_path)])["permission-violation"]
    assert isinstance(rule, Detection) and [one.name for one in rule.filters] == ["rule-5"]
