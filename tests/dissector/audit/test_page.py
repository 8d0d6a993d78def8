"""The page of the rules is made from the rules: `pytest --update-goldens` writes it."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterator

import pytest

from dissect.nats.audit.sigma.rule_files import load_rules
from dissect.nats.audit.sigma.rules import Correlation, Detection, Rule
from dissect.nats.audit.sql.compiler import reporting

from tests.dissector.audit.test_advisories import ADVISORIES
from tests.support.paths import ROOT

PAGE = ROOT / "docs" / "audit-rules.md"
GROUPS = {
    "credentials": "Credentials",
    "transport": "Transport",
    "access": "Access",
    "jetstream": "JetStream",
    "stores": "Buckets and objects",
    "operations": "Operations",
    "legacy": "Old software",
}
HEAD = """# The rules of nats-dissect audit

These rules come with the package. `nats-dissect audit --explain NAME` shows one with the SQL that it
becomes, and `--rules DIR` adds others or replaces them by name. Where many rows are one story, such as all
connections that send a password to the same server, they are one finding, with their number, and the first
of them as evidence. Each rule has a level, and a [harm](audit.md#order-of-findings) that puts findings of one
level in order.

Rules say what the packets show. What is encrypted without secrets in a key log, or was not captured, no rule
can judge.
"""
ADVISED = """## Advisories

Versions of nats-server with security advisories of the NATS project, as of 29 June 2026;
`server-with-advisories` finds them. A range ends before the first version that is mended.

| advisory | date | versions | about |
|---|---|---|---|
"""


def rule_text(rule: Rule) -> str:
    """One rule, as the page shows it."""
    links = " ".join(f"[[{number}]]({each})" for number, each in enumerate(rule.references, 1))
    lines = [
        f"### {rule.name}\n",
        f"**{rule.title}** ({rule.level.name}, {rule.harm.name}). {rule.description} {links}\n",
        f"- What to do: {rule.remedy}",
        *(f"- Could also be: {each}" for each in rule.false_positives),
    ]
    techniques = [tag[7:].upper() for tag in rule.tags if tag.startswith("attack.t1")]
    if techniques:
        lines.append(f"- MITRE ATT&CK: {', '.join(techniques)}")
    return "\n".join(lines).replace("<", "&lt;") + "\n"


def advisory_lines() -> Iterator[str]:
    with ADVISORIES.open(encoding="utf-8", newline="") as file:
        for each in reversed(list(csv.DictReader(file))):
            ranges = ", ".join(part.replace("-", " to ") for part in each["from_before"].split())
            yield f"| [{each['ids']}]({each['url']}) | {each['date']} | {ranges} | {each['title']} |\n"


def page() -> str:
    """The whole page."""
    rules = load_rules()
    groups: dict[str, list[Detection | Correlation]] = defaultdict(list)
    for name in reporting(rules):
        groups[rules[name].place.partition("/")[0]].append(rules[name])
    assert groups.keys() == GROUPS.keys()
    parts = [HEAD]
    for group, title in GROUPS.items():
        parts.append(f"## {title}\n")
        some = sorted(groups[group], key=lambda rule: (-rule.level, -rule.harm, rule.name))
        parts += map(rule_text, some)
    return "\n".join(parts) + "\n" + ADVISED + "".join(advisory_lines())


def test_the_page_is_what_the_rules_say(request: pytest.FixtureRequest) -> None:
    made = page()
    if request.config.getoption("--update-goldens"):
        PAGE.write_text(made, encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == made
