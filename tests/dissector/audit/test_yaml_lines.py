"""Lines of YAML, and what is not YAML."""

from __future__ import annotations

import pytest

from dissect.nats.audit.yaml_lines import YamlFault, documents

TEXT = """\
a: 1
b:
  c:
    - x
    - d: y
---
---
e: 2
"""


def test_a_part_has_its_line() -> None:
    first, second = documents(TEXT)
    assert first.value == {"a": 1, "b": {"c": ["x", {"d": "y"}]}}
    assert first.line("b", "c", 1, "d") == 5
    assert first.line("b", "nothing", "there") == 2
    assert first.line("b", "c", 7) == 3
    assert (first.line(), second.line("e")) == (1, 8)


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("a: 1\nb: [", 2, "expected"),
        ("a: 1\na: 2", 2, "'a' stands here twice"),
        ("a: &x [*x]\nb: !!python/object:os.system x", 2, "could not determine a constructor"),
        ("d: 2026-13-45", 1, "month"),
        ("\x07", 1, "special characters"),
        ("[" * 5000, 1, ""),
    ],
)
def test_a_fault_has_its_line(text: str, line: int, reason: str) -> None:
    with pytest.raises(YamlFault) as raised:
        list(documents(text))
    assert raised.value.line >= 1
    assert reason in raised.value.reason
    assert reason == "" or raised.value.line == line
