"""Findings as Detection Findings (class 2004) of OCSF 1.3 (https://schema.ocsf.io), one JSON object per line.

`time` is in milliseconds; it is 0 if the finding has no time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from ...output.json_lines import json_text
from ...version import version
from ..findings.finding import Finding
from ..sigma.levels import Level
from .report import TOOL, Report, fingerprint, message, techniques

if TYPE_CHECKING:
    from ..sigma.rules import Rule

_CLASS, _CATEGORY, _CREATE = 2004, 2, 1
_SEVERITY = {
    Level.informational: (1, "Informational"),
    Level.low: (2, "Low"),
    Level.medium: (3, "Medium"),
    Level.high: (4, "High"),
    Level.critical: (5, "Critical"),
}
_NEW, _SUPPRESSED = (1, "New"), (3, "Suppressed")


def write_ocsf(output: TextIO, report: Report) -> None:
    """Writes a line for each finding."""
    for finding in report.findings:
        output.write(json_text(_event(finding, report.rules[finding.rule])) + "\n")


def _event(finding: Finding, rule: Rule) -> dict[str, object]:
    severity_id, severity = _SEVERITY[finding.severity]
    status_id, status = _NEW if finding.suppressed is None else _SUPPRESSED
    event: dict[str, object] = {
        "activity_id": _CREATE,
        "activity_name": "Create",
        "category_uid": _CATEGORY,
        "category_name": "Findings",
        "class_uid": _CLASS,
        "class_name": "Detection Finding",
        "type_uid": _CLASS * 100 + _CREATE,
        "type_name": "Detection Finding: Create",
        "time": (finding.ts_ns or 0) // 10**6,
        "severity_id": severity_id,
        "severity": severity,
        "status_id": status_id,
        "status": status,
        "count": finding.count,
        "message": message(finding),
        "metadata": {
            "version": "1.3.0",
            "product": {"name": TOOL, "vendor_name": "natsync", "version": version()},
        },
        "finding_info": _info(finding, rule),
        "evidences": [{"data": _evidence(finding)}],
    }
    if finding.remedy:
        event["remediation"] = {"desc": finding.remedy, "references": [*rule.references]}
    if finding.suppressed is not None:
        event["status_detail"] = finding.suppressed
    return event


def _info(finding: Finding, rule: Rule) -> dict[str, object]:
    info: dict[str, object] = {
        "uid": fingerprint(finding),
        "title": finding.title,
        "desc": rule.description or finding.title,
        "types": [rule.name],
        "analytic": {"type_id": 1, "type": "Rule", "uid": rule.id, "name": rule.name},
    }
    if attacks := techniques(rule):
        info["attacks"] = [{"technique": {"uid": technique}} for technique in attacks]
    return info


def _evidence(finding: Finding) -> dict[str, object]:
    names = ("session", "number", "capture", "packet", "subject", "follow", "ts_ns")
    found = {name: getattr(finding, name) for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    return {**known, "fields": finding.values}
