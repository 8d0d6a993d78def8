"""What this process has of the memory of the machine, over time, and whether it grows.

Two figures, since neither is enough alone: the resident set, without what the allocator keeps for later, and
the number of Python's memory blocks, which says more exactly whether objects are left over.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from statistics import linear_regression
from time import monotonic


def resident() -> float:
    """The resident memory of this process, in megabytes."""
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6


class Memory:
    """What this process has of the machine's memory, over time."""

    def __init__(self) -> None:
        self._seen: list[tuple[float, float, int]] = []
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # only the GNU library has it

    def look(self) -> None:
        """Notes what it has now."""
        gc.collect()
        if self._trim:
            self._trim(0)
        self._seen.append((monotonic(), resident(), sys.getallocatedblocks()))

    def __str__(self) -> str:
        later = self._seen[
            len(self._seen) // 3 :
        ]  # when everything was imported and every buffer had its size
        if len({at for at, _, _ in later}) < 2:
            return "RSS: too short a run"
        times, sizes, blocks = zip(*later)
        megabytes = 3600 * linear_regression(times, sizes).slope
        objects = 3600 * linear_regression(times, blocks).slope
        return (
            f"RSS {self._seen[0][1]:.1f} MB at first, {sizes[0]:.1f} MB after a third of the time, "
            f"{sizes[-1]:.1f} MB at the end: {megabytes:+.2f} MB/h\n"
            f"memory blocks {blocks[0]:,} after a third of the time, {blocks[-1]:,} at the end: "
            f"{objects:+,.0f}/h"
        )
