"""The manual says what the program does: its commands are run, its tables are those of the code."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dissect.nats.archive.arguments import ArchiveOptions
from dissect.nats.audit.arguments import AuditOptions
from dissect.nats.cli import cli
from dissect.nats.commands.arguments import INPUT, ROWS
from dissect.nats.commands.command_options import CommandOptions, own
from dissect.nats.commands.top.options import TopOptions
from dissect.nats.option_types import declared
from dissect.nats.options import Options
from dissect.nats.schema.anomalies import Anomaly
from dissect.nats.spark.options.arguments import JobArguments
from dissect.nats.spark.options.settings import Settings
from dissect.nats.tables import TABLES

from tests.support.paths import ROOT

PAGES = [
    ROOT / "docs" / page for page in ("nats-dissect.md", "questions.md", "recipes.md", "tables.md")
]
CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
GENERATED = re.compile(r"(<!-- (tables|anomalies) -->\n).*?(?=\n## |\Z)", re.DOTALL)
OPTIONS = re.compile(r"(<!-- options: (\w+) -->\n).*?(?=<!-- end -->)", re.DOTALL)
OPTION_PAGES = [ROOT / "docs" / page for page in ("nats-dissect.md", "spark.md", "audit.md")]
LISTED: dict[str, tuple[type, tuple[str, ...]]] = {
    "rows": (CommandOptions, (*ROWS, "payload", *INPUT)),
    "top": (TopOptions, own(TopOptions)),
    "spark": (JobArguments, (*own(JobArguments), "progress")),
    "archive": (ArchiveOptions, own(ArchiveOptions)),
    "audit": (AuditOptions, (*own(AuditOptions), "format")),
    "source": (Settings, tuple(declared(Settings))),
}
"""The tables of options: the class that declares them, and their names."""


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


def options(listed: str) -> str:
    """The declarations of options as a table. Those of a dissection have a name in Python and Spark, too."""
    place, names = LISTED[listed]
    head = ["option", *["in Python and Spark"] * (listed == "rows"), "default", ""]
    rows = [head, ["---"] * len(head)]
    for name, opt in {**declared(place), **declared(Options)}.items():
        if name in names:
            metavar = opt.form.metavar.strip("[]") if opt.form.choices else opt.form.metavar
            flag = f"`{' '.join((', '.join(opt.flags) or opt.flag(name), metavar)).strip()}`"
            keyword = f"{name}=False" if opt.flag(name) == f"--no-{name}" else name
            cells = {"rows": [flag, f"`{keyword}`" if name in declared(Options) else ""]}
            cells["source"] = [f"`{name}`"]
            rows.append([*cells.get(listed, [flag]), opt.default, opt.help])
    return "".join(f"| {' | '.join(_escaped(row))} |\n" for row in rows)


def _escaped(cells: list[str]) -> list[str]:
    return [cell.replace("|", "\\|") for cell in cells]


@pytest.mark.parametrize("page", OPTION_PAGES, ids=lambda page: page.name)
def test_the_manual_has_every_option_as_it_is_declared(
    page: Path, golden: Callable[[Path, str], None]
) -> None:
    written = page.read_text(encoding="utf-8")
    assert OPTIONS.search(written)
    golden(page, OPTIONS.sub(lambda found: found[1] + options(found[2]), written))


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
