"""Measuring: CPU time of this process, in interleaved rounds, so that a slow moment hits all alike."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable
from statistics import median

ROUNDS = 9


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
