"""Rules made at random: the SQL of DuckDB finds what the rules mean."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.audit import detection_text, findings
from tests.support.audit_evaluator import Rule, rows


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 32))
def test_a_rule_finds_the_rows_that_it_means(seed: int) -> None:
    random = Random(seed)
    frames = rows(random, 30)
    rule = Rule(random)
    meant = [frame.number for frame in frames if rule.holds(frame)]
    found = [finding.number for finding in findings(detection_text(rule.yaml), frames)]
    assert found == meant, rule.yaml
