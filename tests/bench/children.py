"""Measuring whole programs: wall time, CPU time and peak memory of a command and its children."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple


class Taken(NamedTuple):
    """What a command took. `peak_bytes` is that of the largest of its processes."""

    wall: float
    cpu: float
    peak_bytes: int


def taken(command: Sequence[str], folder: Path) -> Taken:
    """Runs the command there, output thrown away; it must succeed."""
    begun = time.monotonic()
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - begun
    assert child.returncode == 0, f"exit status {child.returncode}: {' '.join(command)}"
    return Taken(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)


def alternating(commands: Sequence[Sequence[str]], folder: Path, rounds: int) -> list[Taken]:
    """The median of each figure of each command; all take their turn in each round."""
    runs = [[taken(command, folder) for command in commands] for _ in range(rounds)]
    return [
        Taken(*(median(figures) for figures in zip(*(each[at] for each in runs))))
        for at in range(len(commands))
    ]
