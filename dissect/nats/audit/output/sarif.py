"""Findings as SARIF 2.1.0 (https://docs.oasis-open.org/sarif/sarif/v2.1.0), for code scanning and CI.

A log has one run, with the rules that ran and a result for each finding; results are written as they arrive.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO
from urllib.parse import quote

from ...output.json_lines import json_text
from ...version import version
from ..findings.finding import Finding
from ..sigma.levels import Level
from .report import TOOL, Report, fingerprint, message

if TYPE_CHECKING:
    from ..sigma.rules import Rule

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_LEVELS = {
    Level.critical: "error",
    Level.high: "error",
    Level.medium: "warning",
    Level.low: "note",
    Level.informational: "note",
}
# GitHub sorts by this number: https://docs.github.com/en/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning  # noqa: E501  # an address
_SEVERITY = {
    "critical": "9.5",
    "high": "8.0",
    "medium": "5.0",
    "low": "2.0",
    "informational": "0.0",
}


def write_sarif(output: TextIO, report: Report) -> None:
    """Writes one log."""
    driver = {
        "name": TOOL,
        "version": version(),
        "rules": [_rule(rule) for rule in report.rules.values()],
    }
    indexes = {name: index for index, name in enumerate(report.rules)}
    head = json_text({"$schema": _SCHEMA, "version": "2.1.0"})[:-1]
    output.write(f'{head},"runs":[{{"tool":{json_text({"driver": driver})},"results":[')
    for number, finding in enumerate(report.findings):
        result = json_text(_result(finding, indexes[finding.rule]))
        output.write(f"{',' if number else ''}\n{result}")
    output.write("\n]}]}\n")


def _rule(rule: Rule) -> dict[str, object]:
    made: dict[str, object] = {
        "id": rule.name,
        "guid": rule.id,
        "shortDescription": {"text": rule.title},
        "fullDescription": {"text": rule.description or rule.title},
        "help": {"text": "\n".join([rule.remedy or rule.title, *rule.false_positives])},
        "defaultConfiguration": {"level": _LEVELS[rule.level]},
        "properties": {
            "tags": [*rule.tags],
            "security-severity": _SEVERITY[rule.level.name],
        },
    }
    links = [link for link in rule.references if link.startswith("https://")]
    if links:
        made["helpUri"] = links[0]
    return made


def _result(finding: Finding, index: int) -> dict[str, object]:
    shown = {
        "ts_ns": finding.ts_ns,
        "session": finding.session,
        "number": finding.number,
        "packet": finding.packet,
        "subject": finding.subject,
        "follow": finding.follow,
        "fields": finding.values,
    }
    made: dict[str, object] = {
        "ruleId": finding.rule,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": message(finding)},
        "occurrenceCount": finding.count,
        "partialFingerprints": {"natsDissect/v1": fingerprint(finding)},
        "properties": {name: value for name, value in shown.items() if value is not None},
    }
    if location := _location(finding):
        made["locations"] = [location]
    if finding.suppressed is not None:
        made["suppressions"] = [{"kind": "external", "justification": finding.suppressed}]
    return made


def _location(finding: Finding) -> dict[str, object]:
    """The capture, and the session and frame in it."""
    made: dict[str, object] = {}
    if finding.capture is not None:
        uri = quote(finding.capture.encode("utf-8", "backslashreplace"))
        made["physicalLocation"] = {"artifactLocation": {"uri": uri}}
    if finding.session is not None:
        frame = "" if finding.number is None else f"#{finding.number}"
        made["logicalLocations"] = [
            {"fullyQualifiedName": f"{finding.session}{frame}", "kind": "session"}
        ]
    return made
