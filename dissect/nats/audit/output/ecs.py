"""Findings as alerts in the Elastic Common Schema, one JSON object per line.

The schema: https://www.elastic.co/docs/reference/ecs. Facts without a field there are in the object `nats`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from ...number_formats import iso_time
from ...output.json_lines import json_text
from ...version import version
from ..findings.finding import Finding
from .report import TOOL, Report, fingerprint, message, techniques

if TYPE_CHECKING:
    from ..sigma.rules import Rule

_VERSION = "8.17.0"


def write_ecs(output: TextIO, report: Report) -> None:
    """Writes a line for each finding."""
    for finding in report.findings:
        output.write(json_text(_event(finding, report.rules[finding.rule])) + "\n")


def _event(finding: Finding, rule: Rule) -> dict[str, object]:
    names = ("session", "number", "capture", "packet", "subject", "count", "follow", "suppressed")
    found = {name: getattr(finding, name) for name in names}
    known = {name: value for name, value in found.items() if value is not None}
    made: dict[str, object] = {
        "@timestamp": iso_time(finding.ts_ns or 0),
        "ecs": {"version": _VERSION},
        "message": message(finding),
        "event": {
            "kind": "alert",
            "category": ["network"],
            "type": ["info"],
            "module": "nats",
            "dataset": "nats.audit",
            "provider": TOOL,
            "id": fingerprint(finding),
            "severity": finding.severity.value + 1,
        },
        "observer": {"product": TOOL, "version": version(), "type": "dissector"},
        "network": {"protocol": "nats"},
        "rule": _rule(rule),
        "nats": {**known, "level": finding.level, "fields": finding.values},
    }
    if attacks := techniques(rule):
        made["threat"] = {
            "framework": "MITRE ATT&CK",
            "technique": [{"id": technique} for technique in attacks],
        }
    return made


def _rule(rule: Rule) -> dict[str, object]:
    made = {"id": rule.name, "uuid": rule.id, "name": rule.title, "description": rule.description}
    if rule.references:
        made["reference"] = rule.references[0]
    return {name: value for name, value in made.items() if value}
