"""Filters: conditions added to existing detections, so that known cases are not findings.

title: The monitoring may subscribe to everything
id: 1f0f3c52-7a52-4a9e-9a8e-7d0f2f6b3c14
logsource: {product: nats, category: subscriptions}
filter:
  rules: [subscribes-to-everything]       names or ids; `any`: all detections of this table
  monitoring: {session.user: surveyor}
  condition: not monitoring
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .rules import Correlation, Detection, Filter

Rules = dict[str, Detection | Correlation]


def applied(read: Mapping[str, Detection | Correlation | Filter]) -> Rules:
    """The rules, each with its filters. Raises RuleError if a filter names a rule that does not exist, is a
    correlation, or reads another table."""
    rules: Rules = {name: one for name, one in read.items() if not isinstance(one, Filter)}
    for one in read.values():
        if isinstance(one, Filter):
            for name in _filtered_rules(one, rules):
                rule = rules[name]
                assert isinstance(rule, Detection)
                rules[name] = replace(rule, filters=(*rule.filters, one))
    return rules


def _filtered_rules(one: Filter, rules: Rules) -> list[str]:
    """The names of the rules that a filter applies to."""
    if not one.rules:
        return [
            name
            for name, rule in rules.items()
            if isinstance(rule, Detection) and rule.table == one.table
        ]
    names = {rule.id: name for name, rule in rules.items()}
    found = []
    for place, reference in enumerate(one.rules):
        name = reference if reference in rules else names.get(reference, "")
        path = ("filter", "rules", place)
        if name not in rules:
            raise one.error(f"there is no rule {reference!r}", *path)
        rule = rules[name]
        if isinstance(rule, Correlation):
            counted = ", ".join(each.reference for each in rule.parsed_rule.rules or [])
            reason = f"{reference!r} is a correlation: a filter is for the rules that it counts"
            raise one.error(f"{reason} ({counted})", *path)
        if rule.table != one.table:
            raise one.error(f"{reference!r} is about {rule.table}, not {one.table}", *path)
        found.append(name)
    return found
