"""Lines of YAML, and what is not YAML."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest
import yaml

from dissect.nats.audit.sigma.yaml_lines import YamlFault, documents

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


def test_a_trusted_text_is_read_alike() -> None:
    folder = Path(str(resources.files("dissect.nats.audit").joinpath("rules")))
    files = [*folder.rglob("*.yml")]
    assert len(files) > 30
    for file in files:
        text = file.read_text(encoding="utf-8")
        for one, other in zip(documents(text), documents(text, trusted=True), strict=True):
            assert one.value == other.value
            assert lines(one.node) == lines(other.node)


def lines(node: yaml.Node) -> list[tuple[int, object]]:
    """The line of every part, in order."""
    found: list[tuple[int, object]] = [(node.start_mark.line, node.tag)]
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            found += [*lines(key), *lines(value)]
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            found += lines(item)
    return found


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
