"""Sorts runs of frames by time within a window, as `engine.time_order.TimeOrder` sorts rows. Only positions
are sorted, so that the rows themselves may wait as columns."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import itemgetter

RunPiece = tuple[int, str, int, int, int]
"""All or some rows of a run: their sort key (time, session, number of the first), the position of the first
one, and their number."""

first_row, size_of = itemgetter(3), itemgetter(4)


class RunWindow:
    """Runs that wait, and `placed` runs in order, which have `released` rows."""

    def __init__(self) -> None:
        self.waiting: list[RunPiece] = []
        self.placed: list[RunPiece] = []
        self.released = 0

    def release(self, count: int) -> None:
        """Places the `count` earliest waiting rows, in order of time."""
        waiting = self.waiting
        waiting.sort()
        ends = list(accumulate(map(size_of, waiting)))
        whole = bisect_right(ends, count)
        self.released += count
        self.placed += waiting[:whole]
        if some := count - (ends[whole - 1] if whole else 0):
            ts_ns, session, number, first, size = waiting[whole]
            self.placed.append((ts_ns, session, number, first, some))
            waiting[whole] = ts_ns, session, number + some, first + some, size - some
        del waiting[:whole]

    def take(self) -> list[RunPiece]:
        """Removes and returns the placed runs."""
        placed, self.placed, self.released = self.placed, [], 0
        return placed
