"""Files of rules: of the package and of the user."""

from __future__ import annotations

import re
from datetime import date
from pathlib import Path

import pytest

from dissect.nats.audit.findings.suppressions import load_suppressions, names_of
from dissect.nats.audit.run import queries_of
from dissect.nats.audit.sigma.levels import Level
from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sql.compiler import reporting
from dissect.nats.audit.sql.dialect import Dialect
from dissect.nats.errors import RuleError

from tests.support.audit import detection_text
from tests.support.paths import ROOT
from tests.support.refused import refuse

RULE = detection_text("  selection: {op: PUB}")


def test_every_rule_of_the_package_tells_what_to_do() -> None:
    rules = load_rules()
    assert len(rules) >= 3
    for rule in map(rules.__getitem__, reporting(rules)):
        assert rule.description and rule.remedy and rule.false_positives, rule.name
        assert rule.name != rule.id


def test_rules_are_added_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/one.yaml").write_text(RULE, encoding="utf-8")
    known = load_rules()
    added = load_rules([str(tmp_path)])
    assert added.keys() - known.keys() == {"rule-1"}
    name, rule = next(iter(known.items()))
    own = RULE.replace("00000000-0000-4000-8000-000000000001", rule.id)
    (tmp_path / "two.yml").write_text(own.replace("rule-1", "mine") + "level: low\n", "utf-8")
    replaced = load_rules([str(tmp_path / "two.yml")])
    assert replaced["mine"].level is Level.low
    assert name not in replaced and len(replaced) == len(known)


def test_a_replaced_correlation_takes_the_rule_that_only_counted_for_it(tmp_path: Path) -> None:
    """Else each row that was counted would be a finding."""
    known = load_rules()
    assert "password-in-clear-each" in known.keys() - set(reporting(known))
    (tmp_path / "mine.yml").write_text(RULE.replace("rule-1", "password-in-clear"), "utf-8")
    replaced = load_rules([str(tmp_path)])
    assert known.keys() - replaced.keys() == {"password-in-clear-each"}
    again = detection_text("  selection: {auth: token}").replace("rule-1", "password-in-clear-each")
    (tmp_path / "other.yml").write_text(
        again.replace("8000-000000000001", "8000-000000000002"), "utf-8"
    )
    assert load_rules([str(tmp_path)]).keys() == known.keys()  # the user's own rule stays


def test_the_rules_of_the_manual_are_rules(tmp_path: Path) -> None:
    page = (ROOT / "docs/audit.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    rules = [block for block in blocks if "title:" in block]
    for number, block in enumerate(rules):
        (tmp_path / f"{number}.yml").write_text(block, encoding="utf-8")
    known = load_rules([str(tmp_path)])
    assert {"wildcard-listener", "refused", "many-refusals"} <= known.keys()
    queries_of(known, Dialect.DUCKDB)
    (suppressions,) = (block for block in blocks if block not in rules)
    (tmp_path / "known.yml").write_text(suppressions, encoding="utf-8")
    names = names_of([(rule.name, rule.id) for rule in known.values()])
    load_suppressions(str(tmp_path / "known.yml"), names, date(2026, 11, 22))


def test_one_folder_has_a_name_once(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text(RULE, encoding="utf-8")
    (tmp_path / "b.yml").write_text(f"# the same\n{RULE}", encoding="utf-8")
    with pytest.raises(RuleError, match=r"b.yml:4: .*a.yml has a rule with this name or id"):
        load_rules([str(tmp_path)])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xff", "no text in UTF-8"),
        (b"a: [", "x.yml:1: "),
        (b"", "x.yml: has no rules"),
        (b"# title: later\n---\n", "x.yml: has no rules"),
        (b"#" * (1 << 20) + b"#", "too large for rules"),
    ],
)
def test_a_file_that_has_no_rules(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "x.yml"
    file.write_bytes(data)
    with pytest.raises(RuleError, match=reason):
        load_rules([str(file)])


def test_one_file_of_a_folder_may_be_commented_out(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("# " + RULE.replace("\n", "\n# "), encoding="utf-8")
    with pytest.raises(RuleError, match="has no rules"):
        load_rules([str(tmp_path)])
    (tmp_path / "b.yml").write_text(RULE, encoding="utf-8")
    assert len(load_rules([str(tmp_path)])) == len(load_rules()) + 1


def test_a_folder_without_rules_and_a_missing_file_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no rules in this folder"):
        load_rules([str(tmp_path)])
    with pytest.raises(RuleError, match="cannot be read: No such file"):
        load_rules([str(tmp_path / "none.yml")])


def test_a_folder_of_rules_that_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "one.yml").write_text(RULE, encoding="utf-8")
    deep = tmp_path / "deep"
    deep.mkdir()
    refuse(deep, monkeypatch)
    with pytest.raises(RuleError, match="deep: cannot be read: Permission denied"):
        load_rules([str(tmp_path)])
