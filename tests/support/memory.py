"""What this process has of the memory of the machine, over time, and whether it grows."""

from __future__ import annotations

import os
from statistics import linear_regression
from time import monotonic


class Memory:
    """What this process has of the machine's memory, over time."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []

    def look(self) -> None:
        """Notes what it has now."""
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[1])
        self._seen.append((monotonic(), pages * os.sysconf("SC_PAGESIZE") / 1e6))

    def __str__(self) -> str:
        later = self._seen[
            len(self._seen) // 3 :
        ]  # when everything was imported and every buffer had its size
        if len({at for at, _ in later}) < 2:
            return "RSS: too short a run"
        slope = linear_regression([at for at, _ in later], [size for _, size in later]).slope
        told = f"RSS {self._seen[0][1]:.1f} MB at first, {later[0][1]:.1f} MB after a third of the time"
        return f"{told}, {later[-1][1]:.1f} MB at the end: {3600 * slope:+.2f} MB/h"
