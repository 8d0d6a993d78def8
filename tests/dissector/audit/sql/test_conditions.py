"""Conditions of all forms."""

from __future__ import annotations

import pytest

from dissect.nats.audit.sigma.rules import Detection
from dissect.nats.audit.sql.conditions import used_fields
from dissect.nats.errors import RuleError

from tests.support.audit import OLD_PYSIGMA, detection_text, frame, matched, rules

ROWS = [
    frame(1, subject="a", op="PUB"),
    frame(2, subject="b", op="PUB"),
    frame(3, subject="a", op="SUB"),
    frame(4, subject="c", op="MSG"),
]
DETECTIONS = """sel_a: {subject: a}
  sel_pub: {op: PUB}
  other: [{subject: c}, {op: SUB}]
  condition: """


@pytest.mark.parametrize(
    ("condition", "numbers"),
    [
        ("sel_a", [1, 3]),
        ("sel_a and sel_pub", [1]),
        ("sel_a or sel_pub", [1, 2, 3]),
        ("not sel_a", [2, 4]),
        ("not (sel_a or sel_pub)", [4]),
        ("sel_a and not sel_pub", [3]),
        ("not sel_a and sel_pub or other", [2, 3, 4]),
        ("not not sel_a", [1, 3]),
        ("1 of sel_*", [1, 2, 3]),
        ("all of sel_*", [1]),
        ("1 of them", [1, 2, 3, 4]),
        ("all of them", []),
        ("any of sel_*", [1, 2, 3]),
        ("other", [3, 4]),
        ("[sel_a and sel_pub, other]", [1, 3, 4]),
    ],
)
def test_a_condition_selects_its_rows(condition: str, numbers: list[int]) -> None:
    assert matched(DETECTIONS + condition, *ROWS) == numbers


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        (
            "nothing",
            f"Detection '{'hing' if OLD_PYSIGMA else 'nothing'}' not defined",
        ),  # "not hing"
        ("sel_a and", "Expected"),
        pytest.param(
            *("1 of x_*", "doesn't match any detection"),
            marks=pytest.mark.skipif(OLD_PYSIGMA, reason="pySigma 1 calls the condition empty"),
        ),
        ("sel_a | count() > 5", "deprecated"),
    ],
)
def test_a_condition_that_is_none(condition: str, reason: str) -> None:
    with pytest.raises(RuleError, match=reason) as raised:
        matched(DETECTIONS + condition)
    assert raised.value.line == 9


def test_a_fault_in_a_detection_that_is_not_used_is_found_too() -> None:
    with pytest.raises(RuleError, match="test.yml:7: frames has no column 'nobody'"):
        matched("s: {op: x}\n  unused: {nobody: x}\n  condition: s")


def test_the_fields_of_a_rule() -> None:
    text = "  a: [{subject: x}, {op|contains: y, subject: z}]\n  condition: a"
    (rule,) = rules(detection_text(text)).values()
    assert isinstance(rule, Detection)
    assert used_fields(rule) == ("subject", "op")
