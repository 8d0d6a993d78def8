"""The input of every output format of audits, and facts that several formats show."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ...output.writer import Layout
from ..findings.finding import Finding

if TYPE_CHECKING:
    from ..sigma.rules import Rule

TOOL = "nats-dissect"


class Report(NamedTuple):
    """The findings in order, their number per rule, the rules that ran by name, and the output's layout."""

    findings: Iterable[Finding]
    counts: Mapping[str, int]
    rules: Mapping[str, Rule]
    layout: Layout


def fingerprint(finding: Finding) -> str:
    """A text that is the same for the same finding in every run."""
    parts = (finding.rule, finding.ts_ns, finding.session, finding.number, finding.subject)
    return hashlib.sha256(repr(parts).encode("utf-8", "backslashreplace")).hexdigest()[:32]


def message(finding: Finding) -> str:
    """The finding in one sentence."""
    subject = "" if finding.subject is None else f": {finding.subject}"
    times = "" if finding.count == 1 else f" ({finding.count} times)"
    return f"{finding.title}{subject}{times}"


def techniques(rule: Rule) -> list[str]:
    """The techniques of MITRE ATT&CK among the tags of a rule, as `T1040`."""
    tags = (tag.removeprefix("attack.") for tag in rule.tags if tag.startswith("attack."))
    return [tag.upper() for tag in tags if tag[:1] == "t" and tag[1:2].isdigit()]
