"""Measuring: CPU time of this process, in interleaved rounds, so that a slow moment hits all alike."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import NamedTuple

ROUNDS = 9


class Taken(NamedTuple):
    """Microseconds for one message, key or the like, of wall and of CPU."""

    wall: float
    cpu: float


class Medians(NamedTuple):
    """The medians of ours and of theirs, and how many times theirs takes as long."""

    ours: Taken
    theirs: Taken
    wall: float
    cpu: float


def medians(runs: Sequence[tuple[Taken, Taken]]) -> Medians:
    """Of rounds, each of ours and then of theirs."""
    ours, theirs = (
        Taken(median(run[at].wall for run in runs), median(run[at].cpu for run in runs))
        for at in (0, 1)
    )
    return Medians(ours, theirs, theirs.wall / ours.wall, theirs.cpu / ours.cpu)


def cpu_seconds(action: Callable[[], object]) -> float:
    gc.collect()
    gc.disable()
    try:
        begun = time.process_time()
        action()
        return time.process_time() - begun
    finally:
        gc.enable()


def interleaved(actions: list[Callable[[], object]], rounds: int = ROUNDS) -> list[float]:
    """The median CPU seconds of each action; all take their turn in each round, after one to warm up."""
    for action in actions:
        action()
    taken = [[cpu_seconds(action) for action in actions] for _ in range(rounds)]
    return [median(each) for each in zip(*taken)]


def machine() -> str:
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{platform.machine()}, {os.cpu_count()} cores, {python}"
