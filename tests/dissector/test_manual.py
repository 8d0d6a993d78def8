"""The manual says what the program does: its commands are run, its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.cli import cli
from dissect.nats.output.formats import FORMATS
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.tables import TABLES

from tests.support.paths import ROOT

PAGES = [
    ROOT / "docs" / page for page in ("nats-dissect.md", "questions.md", "recipes.md", "tables.md")
]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
GENERATED = re.compile(r"(<!-- (tables|anomalies) -->\n).*?(?=\n## |\Z)", re.DOTALL)


def answered(console: re.Match[str]) -> str:
    """The commands of a block, each followed by what it prints."""
    parts = []
    for line in console[1].splitlines():
        if line.startswith("$ nats-dissect "):
            done = CliRunner().invoke(cli, shlex.split(line)[2:])
            assert done.exit_code == 0, done.output
            parts += [line, *done.output.splitlines()]
    return "```console\n%s\n```" % "\n".join(text.rstrip() for text in parts)


def tables() -> str:
    lines = []
    for table in TABLES.values():
        lines += ["", f"### {table.name}", "", "| column | type | meaning |", "|---|---|---|"]
        lines += [
            f"| `{item.name}` | {item.type.value} | {item.meaning} |" for item in table.columns
        ]
    return "\n".join(lines) + "\n"


def anomalies() -> str:
    """The closed list, with what stands under each of its members."""
    source = (ROOT / "dissect" / "nats" / "schema" / "anomalies.py").read_text(encoding="utf-8")
    meanings = dict(
        re.findall(r'^    [A-Z_]+ = "(\w+)"\n    """(.*?)"""', source, re.DOTALL | re.MULTILINE)
    )
    assert meanings.keys() == {item.value for item in Anomaly}
    rows = [f"| `{name}` | {' '.join(text.split())} |" for name, text in meanings.items()]
    return "\n".join(["", "| anomaly | means |", "|---|---|", *rows]) + "\n"


def test_the_manual_names_every_output_format() -> None:
    names = "\\|".join(FORMATS)
    line = f"| `--format {names}` |"
    assert line in PAGES[0].read_text(encoding="utf-8"), "its line in the table of options"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_manual_is_what_the_program_says(
    page: Path, golden: Callable[[Path, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    written = page.read_text(encoding="utf-8")
    made = CONSOLE.sub(answered, written)
    generated = {"tables": tables, "anomalies": anomalies}
    made = GENERATED.sub(lambda found: found[1] + generated[found[2]](), made)
    golden(page, made)
