"""Findings that are known."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from dissect.nats.audit.findings.suppressions import (
    Suppressions,
    load_suppressions,
    names_of,
)
from dissect.nats.errors import RuleError

from tests.support.audit import finding

NAMES = names_of([("a", "00000000-0000-4000-8000-000000000001"), ("b", "2")])
TODAY = date(2026, 11, 22)


def loaded(tmp_path: Path, text: str) -> Suppressions:
    path = tmp_path / "known.yml"
    path.write_text(text, encoding="utf-8")
    return load_suppressions(str(path), NAMES, TODAY)


@pytest.mark.parametrize(
    ("match", "holds"),
    [
        ("all", True),
        ("{session: s, number: 1}", True),
        ("{session: S}", False),
        ("{subject: 'or?ers.*'}", True),
        ("{subject: 'orders'}", False),
        ("{user: alice}", True),
        ("{user: bob}", False),
        ("{user: alice, capture: lab}", False),
        ("{nobody: x}", False),
    ],
)
def test_all_of_a_match_must_match(tmp_path: Path, match: str, holds: bool) -> None:
    known = loaded(tmp_path, f"- {{rule: a, match: {match}, reason: ' It is\n  known. '}}")
    one = finding(subject="orders.new", fields='{"user": "alice"}')
    other = finding(rule="b", subject="orders.new")
    assert [each.suppressed for each in known.applied([one, other])] == [
        "It is known." if holds else None,
        None,
    ]


def test_a_rule_is_named_by_its_id_too(tmp_path: Path) -> None:
    text = "- {rule: 00000000-0000-4000-8000-000000000001, match: all, reason: x}"
    (one,) = loaded(tmp_path, text).applied([finding()])
    assert one.suppressed == "x"


def test_the_last_day_counts(tmp_path: Path) -> None:
    text = "- {rule: a, match: all, reason: x, expires: %s}"
    (one,) = loaded(tmp_path, text % "2026-11-22").applied([finding()])
    assert one.suppressed == "x"
    known = loaded(tmp_path, text % "2026-11-21")
    (other,) = known.applied([finding()])
    assert other.suppressed is None
    (remark,) = known.remarks()
    assert remark.endswith("known.yml:1: the suppression of a expired on 2026-11-21")


def test_what_was_not_needed_is_reported(tmp_path: Path) -> None:
    known = loaded(
        tmp_path, "- {rule: a, match: all, reason: x}\n- {rule: b, match: all, reason: y}"
    )
    assert [each.suppressed for each in known.applied([finding()])] == ["x"]
    (remark,) = known.remarks()
    assert remark.endswith("known.yml:2: the suppression of b matched no finding")


def test_an_empty_file_suppresses_nothing(tmp_path: Path) -> None:
    (one,) = loaded(tmp_path, "# nothing\n").applied([finding()])
    assert one.suppressed is None


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("rule: a", 1, "a list of maps"),
        ("- a", 1, "a map with rule, match and reason"),
        ("- rule: z\n  match: all\n  reason: x", 1, "there is no rule 'z'"),
        ("- rule: a\n  match: all", 1, "has a reason"),
        ("- rule: a\n  reason: x\n  match: {}", 3, "'match' is a map"),
        ("- rule: a\n  reason: x\n  match: all\n  expires: soon", 4, "'expires' is a day"),
        ("- rule: a\n  reason: x\n  match: all\n  until: x", 4, "unknown key 'until'"),
        ("- [", 1, "expected"),
        ("--- []\n--- []", 2, "one document"),
    ],
)
def test_what_is_wrong_is_reported_with_its_line(
    tmp_path: Path, text: str, line: int, reason: str
) -> None:
    with pytest.raises(RuleError, match=reason) as raised:
        loaded(tmp_path, text)
    assert raised.value.line == line


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="cannot be read: No such file"):
        load_suppressions(str(tmp_path / "none"), NAMES, TODAY)
