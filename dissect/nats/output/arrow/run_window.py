"""Puts runs of frames in order of time within a window, as `engine.time_order.TimeOrder` does with rows: by
their places, so that rows may wait as columns."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from operator import itemgetter

RunPiece = tuple[int, str, int, int, int]
"""The rows of a run, or some: their place in the order of time (time, session, number of the first), where
the first one is, and how many there are."""

first_row, size_of = itemgetter(3), itemgetter(4)


class RunWindow:
    """Runs that wait, and those that were `placed`, in order; `released` is how many rows these have."""

    def __init__(self) -> None:
        self.waiting: list[RunPiece] = []
        self.placed: list[RunPiece] = []
        self.released = 0

    def release(self, count: int) -> None:
        """Places the first `count` rows that wait, in order of time."""
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
        """The placed runs, which are not here any more."""
        placed, self.placed, self.released = self.placed, [], 0
        return placed
