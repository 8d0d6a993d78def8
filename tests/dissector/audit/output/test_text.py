"""Findings as text."""

from __future__ import annotations

from dissect.nats.audit.output.text import paragraphs
from dissect.nats.output.terminal import PLAIN, Terminal

from tests.support.audit import finding

FINDINGS = [
    finding(rule="one", title="T\x1b", fields='{"a": "b c", "n": [1], "e": ""}', count=3),
    finding(rule="one", ts_ns=None, session=None, number=None, subject="\x1b[2J"),
    finding(
        rule="two", level="low", suppressed="known", remedy="Stop.", false_positives=["x", "y"]
    ),
]


def test_a_paragraph_for_each_rule() -> None:
    text = "".join(paragraphs(FINDINGS, {"one": 2, "two": 1}, PLAIN))
    assert text == (
        "HIGH one: T\\x1b (2 findings)\n"
        '  1970-01-01T00:00:00.000000005Z s #1 x3 a="b c" n=[1] e=""\n'
        "  \\x1b[2J\n"
        "  could also be: x\n"
        "\n"
        "LOW two: A (1 finding)\n"
        "  1970-01-01T00:00:00.000000005Z s #1 (suppressed: known)\n"
        "  what to do: Stop.\n"
        "  could also be: x\n"
        "  could also be: y\n"
    )


def test_a_level_has_its_colour() -> None:
    line, *_ = paragraphs(FINDINGS, {"one": 2, "two": 1}, Terminal(80, True))
    assert line.startswith("\x1b[31mHIGH\x1b[0m one")
