"""`make dist`: what dist/ has is installed into an environment of its own, which runs the README.

    python -m tests.support.installed [EXTRAS]

Needs the package index for what the extras need. From the README run the command whose output it shows, the
answers to its questions, and its program, against a server in memory.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import natsync

from tests.support.paths import ROOT

_CAPTURE = "samples/captures/core-2.15.1.pcap"
_FOUND = 1  # by the audit: findings of the level that `--fail-on` has by default
_PROGRAM = """
import pathlib
from natsync.testing import MemoryServer
text = pathlib.Path("readme.py").read_text()
with MemoryServer() as server:
    exec(text.replace("nats://127.0.0.1:4222", server.url))
"""


def main(extras: str = "all") -> None:
    """Installs and runs; ends with what failed."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    with TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
        package = f"natsync[{extras}]=={natsync.__version__}"
        run(folder, "pip", "install", "--quiet", "--find-links", str(ROOT / "dist"), package)
        (folder / _CAPTURE).parent.mkdir(parents=True)
        shutil.copy(ROOT / _CAPTURE, folder / _CAPTURE)
        check_shown(readme, folder)
        questions = re.findall(r"`nats-dissect ([^`]*FILES[^`]*)`", readme)
        for question in questions:
            words = shlex.split(question.replace(" ID ", " e6a8 "))
            words[words.index("FILES")] = _CAPTURE
            if words[0] == "spark":
                words[words.index("DIR")] = "tables"
            run(folder, "nats-dissect", *words)
        (program,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
        (folder / "readme.py").write_text(program, encoding="utf-8")
        said = run(folder, "python", "-c", _PROGRAM)
        missing = [part for part in ("b'hello, world'", "b'two teapots' high") if part not in said]
        if missing:
            sys.exit(f"the program of the README did not print {missing}, but {said}")
    print(f"natsync[{extras}] from dist/ ran {len(questions) + 2} parts of the README")


def check_shown(readme: str, folder: Path) -> None:
    """Ends with the lines that the README shows and the program does not print."""
    (block,) = re.findall(r"```console\n\$ (nats-dissect sessions .*?)```", readme, re.DOTALL)
    command, *shown = block.splitlines()
    printed = [line.rstrip() for line in run(folder, *shlex.split(command)).splitlines()]
    lost = [line for line in shown if line != "..." and line not in printed]
    if lost:
        sys.exit("\n".join(["the README shows, and the program does not print:", *lost]))


def run(folder: Path, program: str, *words: str) -> str:
    """Runs a program of the environment in its folder; returns what it printed. Ends if it fails."""
    command = [str(folder / "env" / "bin" / program), *words]
    done = subprocess.run(
        command,
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    if done.returncode and (done.returncode, words[0]) != (_FOUND, "audit"):
        sys.exit(f"{shlex.join([program, *words])} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


if __name__ == "__main__":
    main(*sys.argv[1:])
