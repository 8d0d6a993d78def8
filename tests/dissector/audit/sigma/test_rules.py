"""What a document must be to be a rule."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sigma.levels import Level
from dissect.nats.audit.sigma.rules import Detection
from dissect.nats.errors import RuleError

from tests.support.audit import detection_text, rule_text, rules

MORE = """level: critical
description: >
  Some
  words
remedy: Do this.
falsepositives: [Tests]
references: ['https://example.org']
tags: [attack.t1040]
fields: [subject]
subject: reply
"""


def test_a_rule_has_its_parts() -> None:
    (rule,) = rules(detection_text("  selection: {op: PUB}", more=MORE)).values()
    assert isinstance(rule, Detection)
    assert (rule.name, rule.table, rule.level) == ("rule-1", "frames", Level.critical)
    assert (rule.description, rule.remedy, rule.subject) == ("Some words", "Do this.", "reply")
    assert (rule.false_positives, rule.fields) == (("Tests",), ("subject",))
    assert (rule.references, rule.tags) == (("https://example.org",), ("attack.t1040",))


def test_a_rule_without_a_name_has_its_id_for_one() -> None:
    text = detection_text("  selection: {op: PUB}").replace("name: rule-1\n", "")
    assert list(rules(text)) == ["00000000-0000-4000-8000-000000000001"]


SOURCE = "logsource: {product: nats, category: frames}\n"
GOOD = "detection: {s: {op: PUB}, condition: s}\n"


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("- a", 1, "a rule is a YAML map"),
        (rule_text("status: x\nlevl: high\n"), 5, "unknown key 'levl'"),
        (rule_text("filter: {}\n"), 1, "'logsource' is missing"),
        (rule_text(SOURCE + "filter: x\n"), 5, "'filter' is missing, or is not a map"),
        (rule_text(SOURCE + "filter: {s: {op: x}, condition: s}\n"), 1, "have a 'rules' field"),
        (rule_text(SOURCE + "filter:\n  rules: any\n  s:\n    op|x: y\n"), 8, "modifier 'x'"),
        (rule_text("action: global\n"), 4, "'action' (Sigma) is not supported"),
        ("id: x\n", 1, "'title' is missing, or is not text"),
        ("title: x\nid: 7\n", 2, "'id' is missing, or is not text: write a UUID"),
        ("title: x\nid: abc\n", 2, "id 'abc' is not a UUID"),
        (rule_text("level: bad\n"), 4, "level 'bad' is not one of informational"),
        (rule_text("harm: bad\n"), 4, "harm 'bad' is not one of practice, exposure, delay"),
        (rule_text("falsepositives: x\n"), 4, "'falsepositives' must be a list of text"),
        (rule_text("remedy: [x]\n"), 4, "'remedy' must be text"),
        (rule_text(GOOD), 1, "'logsource' is missing"),
        (
            rule_text("logsource: {product: linux, category: frames}\n"),
            4,
            "the product must be 'nats'",
        ),
        (rule_text("logsource: {product: nats, category: x}\n"), 4, "there is no table 'x'"),
        (rule_text("logsource: {product: nats, service: x}\n"), 4, "'service' of a logsource"),
        (rule_text(SOURCE), 1, "'detection' is missing"),
        (rule_text(SOURCE + "detection:\n  s: {op: x}\n  timeframe: 5m\n"), 7, "'timeframe'"),
        (
            rule_text(SOURCE + "detection:\n  s: {op: x}\n  condition: {}\n"),
            7,
            "'condition' is not",
        ),
        (rule_text(SOURCE + "detection:\n  s: {op: x}\n  condition: [{}]\n"), 7, "'condition' is"),
        (rule_text(SOURCE + "detection:\n  s: &a [*a]\n  condition: s\n"), 6, "cannot read this"),
        (rule_text(SOURCE + "detection:\n  s: {op: x}\n"), 1, "at least one condition"),
        (rule_text(SOURCE + "detection:\n  s:\n    op|x: y\n"), 7, "Unknown modifier 'x'"),
        (
            rule_text(SOURCE + "detection:\n  s:\n    op: {a: b}\n"),
            7,
            "is not a field with a value",
        ),
        (rule_text(SOURCE + "detection:\n  s:\n    op: []\n"), 7, "'op' has no values"),
        (rule_text(SOURCE + "detection:\n  s:\n  - op: x\n  - op|re: '('\n"), 8, "is not closed"),
        (rule_text(SOURCE + "detection:\n  s:\n    op|gt: x\n"), 7, "incompatible"),
        (rule_text("correlation: {type: nothing}\n"), 1, "no valid Sigma correlation type"),
        (rule_text("correlation: {type: event_count}\n"), 1, "without rule references"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(RuleError) as raised:
        rules(text)
    assert (raised.value.path, raised.value.line) == ("test.yml", line)
    assert reason in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_is_one_word() -> None:
    with pytest.raises(RuleError, match="test.yml:3: a name must be lower-case words"):
        rules(detection_text("  s: {op: x}").replace("rule-1", "A Rule"))
