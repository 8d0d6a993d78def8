"""Audits from Python."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.audit import audit
from dissect.nats.capture import CaptureReport
from dissect.nats.errors import CaptureError, RuleError

from tests.support.audit import detection_text
from tests.support.paths import CAPTURES

CAPTURE = CAPTURES / "auth-2.15.1.pcap"


def test_findings_of_a_capture(tmp_path: Path) -> None:
    rule = tmp_path / "rule.yml"
    rule.write_text(detection_text("  s: {op: CONNECT}\n  condition: s"), encoding="utf-8")
    report = CaptureReport()
    found = list(audit(CAPTURE, [rule], report=report))
    assert {"password-in-clear", "rule-1"} <= {finding.rule for finding in found}
    assert [finding.severity for finding in found] == sorted(
        (finding.severity for finding in found), reverse=True
    )
    assert [file.packets > 0 for file in report.files] == [True]


def test_missing_rules_and_captures_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RuleError, match="no rules in this folder"):
        audit([CAPTURE], [tmp_path])
    with pytest.raises(CaptureError):
        next(audit(tmp_path / "none.pcap"))


def test_a_name_that_no_file_can_have() -> None:
    with pytest.raises(CaptureError, match="no file has such a name"):
        list(audit("a\0b"))
    with pytest.raises(RuleError, match="cannot be read: embedded null"):
        list(audit(CAPTURE, "a\0b"))


def test_one_path_of_rules_and_one_value_need_no_list(tmp_path: Path) -> None:
    rule = tmp_path / "rule.yml"
    detection = "  s: {client_name|expand: '%desk%'}\n  condition: s"
    text = detection_text(detection, "sessions")
    rule.write_text(text, encoding="utf-8")
    listed = list(audit(CAPTURE, [rule], variables={"desk": ["bob's desk"]}))
    assert "rule-1" in {finding.rule for finding in listed}
    for path in (rule, str(rule)):
        assert list(audit(CAPTURE, path, variables={"desk": "bob's desk"})) == listed


def test_wrong_paths_and_options_are_refused_at_once() -> None:
    with open(CAPTURE, "rb") as file:
        with pytest.raises(
            TypeError, match="^paths must be paths of captures, not BufferedReader$"
        ):
            audit(file)  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(ValueError, match="^no capture is named$"):
        audit([])
    with pytest.raises(TypeError, match="^options must be Options, not dict$"):
        audit(CAPTURE, options={})  # type: ignore[arg-type]  # a wrong call
    with pytest.raises(TypeError, match="^report must be a CaptureReport, not list$"):
        audit(CAPTURE, report=[])  # type: ignore[arg-type]  # a wrong call
    for rules in (None, 5):
        with pytest.raises(TypeError, match=f"^rules must be paths of rules, not {rules}$"):
            audit(CAPTURE, rules)  # type: ignore[arg-type]  # a wrong call


def test_wrong_variables_are_refused_at_once() -> None:
    for wrong in (None, [("known_clusters", "east")]):
        with pytest.raises(TypeError, match="^variables must be a dict of values, not "):
            audit(CAPTURE, variables=wrong)  # type: ignore[arg-type]  # a wrong call
    for values in (5, [5], b"east"):
        with pytest.raises(
            TypeError, match="^the values of variable 'known_clusters' must be texts, not "
        ):
            audit(CAPTURE, variables={"known_clusters": values})  # type: ignore[dict-item]  # too
    with pytest.raises(
        ValueError, match="^no rule has the placeholder %cluster%; rules have %known_clusters%$"
    ):
        audit(CAPTURE, variables={"cluster": ["east"]})
