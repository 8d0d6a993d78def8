"""Measuring whole programs: wall time, CPU time and peak memory of a command and its children."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

# Linux counts what a process takes before it runs the command, which is a copy of its parent's memory, to the
# command's peak: a test run of 150 MB made every command one of 150 MB. So a small process starts it.
_LAUNCHER = """
import json, os, sys, time
null = [(os.POSIX_SPAWN_OPEN, out, os.devnull, os.O_WRONLY, 0) for out in (1, 2)]
begun = time.monotonic()
pid = os.posix_spawnp(sys.argv[1], sys.argv[1:], os.environ, file_actions=null)
_, status, usage = os.wait4(pid, 0)
wall = time.monotonic() - begun
cpu = usage.ru_utime + usage.ru_stime
print(json.dumps([os.waitstatus_to_exitcode(status), wall, cpu, usage.ru_maxrss]))
"""


class Taken(NamedTuple):
    """What a command took. `peak_bytes` is that of the largest of its processes."""

    wall: float
    cpu: float
    peak_bytes: int


def taken(command: Sequence[str], folder: Path) -> Taken:
    """Runs the command there, output thrown away; it must succeed."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    # An installed program has its bytecode; to compile it takes each process half a second.
    kept = {name: text for name, text in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    printed = subprocess.run(
        launcher, cwd=folder, env=kept, stdout=subprocess.PIPE, check=True
    ).stdout
    returncode, wall, cpu, peak_kib = json.loads(printed)
    assert returncode == 0, f"exit status {returncode}: {' '.join(command)}"
    return Taken(wall, cpu, peak_kib * 1024)


def alternating(commands: Sequence[Sequence[str]], folder: Path, rounds: int) -> list[Taken]:
    """The median of each figure of each command; all take their turn in each round."""
    runs = [[taken(command, folder) for command in commands] for _ in range(rounds)]
    return [
        Taken(*(median(figures) for figures in zip(*(each[at] for each in runs))))
        for at in range(len(commands))
    ]
