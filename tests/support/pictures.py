"""Draws the pictures of the pages again: `python -m tests.support.pictures` (needs Graphviz's `dot`).

The picture of the dissector comes from the imports of its code, so it cannot show another structure than the
code has: a test compares them. The terminal and the topology come from real commands over real captures.
"""

from __future__ import annotations

import ast
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from rich.console import Console
from rich.text import Text

from tests.support.paths import ROOT

PICTURES = ROOT / "docs" / "pictures"
PACKAGE = ROOT / "dissect" / "nats"
# What every part may use: values and declarations, drawn by nobody who wants to see the way of the bytes.
GROUND = {
    *("errors", "number_formats", "option_types", "options", "schema", "secrets", "tables"),
    *("durations", "outcomes", "storage", "subjects", "temporary", "types", "version"),
    *("__init__", "__main__"),
}
SHOWN = {
    "capture": "files -> packets",
    "packet": "packets -> segments",
    "tcp": "segments -> chunks and gaps",
    "transport": "between TCP and NATS",
    "framing": "chunks -> frames",
    "sessions": "frames -> sessions",
    "application": "frames -> layers above NATS",
    "engine": "drives the stages",
    "kernel": "plain packets, fast",
    "pipeline": "one process",
    "parallel": "several processes",
    "partition": "exact splits",
    "output": "rows -> text, files, SQL",
    "audit": "rules -> findings",
    "questions": "tables -> figures, in SQL",
    "report": "answers -> one HTML page",
    "commands": "what each command prints",
    "spark": "many tasks",
    "archive": "tables that grow",
    "plots": "figures for notebooks",
    "cli": "nats-dissect",
    "api": "Python functions",
}
TERMINAL = (
    "audit samples/incidents/left.pcap --columns level,title,subject,count",
    "requests samples/incidents/left.pcap --where \"outcome <> 'ok'\" --limit 4",
)
TOPOLOGY = ["servers", "--format", "dot"] + [
    f"samples/captures/{name}-2.15.1.pcap" for name in ("cluster", "gateway", "leafcluster")
]


def parts_of(package: Path) -> set[str]:
    """The folders and modules at the top of a package, without the ground that all stand on."""
    found = {path.stem for path in package.glob("*.py")}
    found |= {path.name for path in package.iterdir() if (path / "__init__.py").exists()}
    return found - GROUND


def imports_of(package: Path) -> set[tuple[str, str]]:
    """Which part of a package imports which other one."""
    parts, arrows = parts_of(package), set()
    for path in package.rglob("*.py"):
        inside = path.relative_to(package).with_suffix("").parts
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.ImportFrom) and node.level:
                base = inside[: len(inside) - node.level]
                names = [alias.name for alias in node.names] if not node.module else [node.module]
                targets = {(*base, *name.split("."))[0] for name in names}
                arrows |= {(inside[0], target) for target in targets}
    return {(one, other) for one, other in arrows if one != other and {one, other} <= parts}


def needed(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """The arrows without those that follow from others (the transitive reduction)."""

    def reached(start: str, without: tuple[str, str]) -> set[str]:
        found, waiting = set(), [start]
        while waiting:
            here = waiting.pop()
            for one, other in arrows - {without}:
                if one == here and other not in found:
                    found.add(other)
                    waiting.append(other)
        return found

    return {(one, other) for one, other in arrows if other not in reached(one, (one, other))}


def structure() -> str:
    """The parts of the dissector and who imports whom, in Graphviz's language."""
    parts, arrows = sorted(parts_of(PACKAGE)), sorted(needed(imports_of(PACKAGE)))
    lines = [
        "digraph dissector {",
        '  rankdir=TB; bgcolor="transparent"; nodesep=0.25; ranksep=0.4;',
    ]
    lines += ['  node [shape=box, style="rounded,filled", fillcolor="#eef3fb", color="#5b7db1",']
    lines += ['        fontname="Helvetica", fontsize=12, margin="0.15,0.08"];']
    lines += ['  edge [color="#5b7db1", arrowsize=0.7];']
    lines += [f"  {part} [label=<<b>{part}</b><br/>{text(SHOWN[part])}>];" for part in parts]
    lines += [f"  {one} -> {other};" for one, other in arrows]
    return "\n".join([*lines, "}"]) + "\n"


def text(label: str) -> str:
    return label.replace("->", "&#8594;")


def terminal() -> str:
    """Commands and what they print, as a picture of a terminal."""
    from dissect.nats.cli import cli

    lines: list[Text] = []
    for command in TERMINAL:
        lines.append(Text(f"$ nats-dissect {command}", style="bold green"))
        printed = CliRunner().invoke(cli, shlex.split(command)).output
        lines += map(Text, printed.splitlines())
    width = max(map(len, lines)) + 1
    console = Console(record=True, width=width, file=io.StringIO(), force_terminal=True)
    for line in lines:
        console.print(line, highlight=False)
    svg = console.export_svg(title="nats-dissect", unique_id="incident")
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    return re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts from the network


def topology() -> str:
    """The servers in some captures and their links, in Graphviz's language, as the command prints them."""
    from dissect.nats.cli import cli

    return CliRunner().invoke(cli, TOPOLOGY).stdout


def main() -> int:
    if shutil.which("dot") is None:
        print("Graphviz is missing: apt-get install graphviz", file=sys.stderr)
        return 2
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "dissector.dot").write_text(structure())
    (PICTURES / "incident.svg").write_text(terminal())
    (PICTURES / "topology.dot").write_text(topology())
    for source in PICTURES.glob("*.dot"):
        svg = subprocess.run(["dot", "-Tsvg", source], check=True, capture_output=True, text=True)
        source.with_suffix(".svg").write_text(svg.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
