"""The tutorials work: their programs are written to files, their commands run, and print what the page shows.

Blocks of the kind `console` are run, in order and in one shell, as in the folder of a user who cloned the
project. In what they print, `...` stands for any text, and on a line of its own for any lines. Blocks of the
kind `sh` need root or a network, and are not run.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from dissect.nats.errors import DissectError
from dissect.nats.spark.launch.java import check_java

from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import program_of

TUTORIALS = sorted((ROOT / "docs").glob("tutorial-*.md"))
BLOCK = re.compile(
    r'^```(console|python title="([\w.]+)"|yaml title="([\w.]+)")\n(.*?)^```', re.M | re.S
)
MARK = "@@@ "
SLOWER = 4  # times as long as the page says does a command sleep, for busy machines
PATIENCE = 600  # seconds, for busy machines; on an idle one, Spark takes most of half a minute


class Command(NamedTuple):
    """A command, with the lines that the page shows below it."""

    text: str
    shown: list[str]


def parts_of(page: str) -> tuple[dict[str, str], list[Command]]:
    """The files of a page by name, and its commands."""
    files: dict[str, str] = {}
    commands: list[Command] = []
    for _, program, settings, text in BLOCK.findall(page):
        if program or settings:
            files[program or settings] = text
            continue
        for line in text.splitlines():
            if line.startswith("$ "):
                commands.append(Command(line[2:], []))
            else:
                commands[-1].shown.append(line.rstrip())
    return files, commands


def outputs_of(commands: list[Command], folder: Path) -> list[tuple[int, str]]:
    """The exit status of each command, and what it printed."""
    script = ["trap 'kill $(jobs -p) 2>/dev/null' EXIT"]
    for command in commands:
        slower = re.sub(
            r"\bsleep (\d+)", lambda time: f"sleep {int(time[1]) * SLOWER}", command.text
        )
        script += [slower, f"echo; echo '{MARK}'$?"]
        if command.text.endswith("&"):
            script.append(f"sleep {SLOWER}")  # a user takes a while to type the next command
    programs = [str(Path(sys.executable).parent), os.environ["PATH"]]
    if any("nats-server" in command.text for command in commands):
        programs.insert(1, str(program_of("current").parent))
    done = subprocess.run(
        ["bash", "-c", "\n".join(script)],
        cwd=folder,
        env={**os.environ, "PATH": os.pathsep.join(programs), "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
    )
    texts = re.split(rf"\n?^{MARK}(\d+)\n", done.stdout, flags=re.MULTILINE)
    return [(int(status), text) for text, status in zip(texts[::2], texts[1::2])]


def as_pattern(shown: list[str]) -> str:
    lines = [
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(r"\.\.\.", ".*") + r"\n"
        for line in shown
    ]
    return "".join(lines)


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def test_each_kind_of_user_has_a_tutorial() -> None:
    kinds = {page.stem.removeprefix("tutorial-") for page in TUTORIALS}
    assert kinds == {"threads", "capture", "audit", "incident"}


@pytest.mark.timeout(PATIENCE + 10)
@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_a_tutorial_works_as_it_stands_there(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    if "nats-server -js" in text:
        text = text.replace("4222", str(free_port()))
    files, commands = parts_of(text)
    assert len(commands) > 4
    if "nats-dissect spark" in text:
        try:
            check_java()
        except DissectError as error:
            missing("Java", str(error))
    (tmp_path / "samples").symlink_to(ROOT / "samples")
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    outputs = outputs_of(commands, tmp_path)
    assert len(outputs) == len(commands), outputs
    for command, (status, output) in zip(commands, outputs):
        assert status in (0, 1) and "Traceback" not in output, (command.text, output)
        if command.shown:
            printed = "".join(f"{line.rstrip()}\n" for line in output.splitlines())
            assert re.fullmatch(as_pattern(command.shown), printed), (command.text, printed)
        assert status == 0 or command.shown, (command.text, output)
