"""Findings as text for people: one paragraph per rule, the worst first.

    HIGH password-in-clear: Password sent in clear (2 findings)
      2026-11-21T02:01:47.987784Z c746dd94015387a7 alice client_name="alice's desk" kind=client
      2026-11-21T02:01:47.989241Z 5e449662f981b26c bob client_name="bob's desk" kind=client
      what to do: Turn on TLS for this listener, and change the password.
      could also be: The connection runs in a tunnel.

A line has the time, the session, the number of the frame after `#`, the subject, the count if it is more than
one, and the fields.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby

from ...number_formats import count_text, iso_time
from ...output.terminal import Terminal, painted
from ...schema.records import printable
from ..findings.finding import Finding
from ..sigma.levels import Level

_FIRST_TIME_NS = 10**18  # in 2001
_STYLES = {
    Level.critical: "bold red",
    Level.high: "red",
    Level.medium: "yellow",
    Level.low: "cyan",
    Level.informational: "dim",
}


def paragraphs(
    findings: Iterable[Finding], counts: Mapping[str, int], terminal: Terminal
) -> Iterator[str]:
    """The text, line by line. `counts` is the number of findings of each rule."""
    for number, (rule, group) in enumerate(groupby(findings, key=lambda one: one.rule)):
        first = next(group)
        level = first.level.upper()
        if terminal.colour:
            level = painted(level, _STYLES[first.severity])
        title = printable(first.title)
        between = "\n" if number else ""
        yield f"{between}{level} {rule}: {title} ({count_text(counts[rule], 'finding')})\n"
        yield _line(first)
        for finding in group:
            yield _line(finding)
        if first.remedy:
            yield f"  what to do: {printable(first.remedy)}\n"
        for other in first.false_positives:
            yield f"  could also be: {printable(other)}\n"


def _line(finding: Finding) -> str:
    words = [] if finding.ts_ns is None else [iso_time(finding.ts_ns)]
    if finding.session is not None:
        words.append(finding.session)
    if finding.number is not None:
        words.append(f"#{finding.number}")
    if finding.subject is not None:
        words.append(finding.subject)
    if finding.count > 1:
        words.append(f"x{finding.count}")
    words += [f"{name}={_value(_readable(name, value))}" for name, value in finding.values.items()]
    if finding.suppressed is not None:
        words.append(f"(suppressed: {finding.suppressed})")
    return f"  {printable(' '.join(words))}\n"


def _readable(name: str, value: object) -> object:
    """A time as people read it. No duration in nanoseconds is as long as a time since the epoch."""
    if name.endswith("_ns") and str(value).isdigit() and int(str(value)) >= _FIRST_TIME_NS:
        return iso_time(int(str(value)))
    return value


def _value(value: object) -> str:
    """A value as a word: text without spaces unchanged, other values as JSON."""
    if isinstance(value, str) and value and not any(map(str.isspace, value)):
        return value
    return json.dumps(value, ensure_ascii=False)
