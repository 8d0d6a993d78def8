"""The deadlines of requests whose callers do not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

__all__ = ["Deadlines"]

_NEVER = float("inf")
_NEW = 64
"""New entries are sorted in once there are more than this many. With 1000, which no longer fit the
processor's first-level cache, a request takes 1.02 times as much CPU time (CPython 3.11)."""
_SLACK = 1000
"""Entries of ended requests are removed once there are more than twice as many entries as after the last
removal, plus this many."""


class Deadlines:
    """A queue holds the deadlines that were added in ascending order, as for requests with the same timeout.
    A heap holds the others; there an entry costs five times as much. New entries are sorted in by the dozen,
    since most of their requests have ended by then. The entry of an ended request stays until it comes first,
    or until about half of all entries belong to ended requests. So the next deadline costs the same with one
    request in flight as with 16,000.

    Any thread may call `add`, which only appends to a list; the other methods are for one thread at a time.
    """

    def __init__(self) -> None:
        self._added: list[tuple[float, bytes, float]] = []
        self._looked = 0  # how many of them `_next` takes into account
        self._next = _NEVER
        self._queue: deque[tuple[float, bytes, float]] = deque()
        self._heap: list[tuple[float, bytes, float]] = []
        self._room = _SLACK

    def add(self, token: bytes, timeout: float, now: float) -> None:
        """Adds a deadline for `token`, `timeout` seconds after `now`."""
        self._added.append((now + timeout, token, timeout))

    def next(self, waits: Callable[[bytes], bool]) -> float:
        """Returns the time at which to call `late`: the first deadline of a request that still waits, or an
        earlier one of a request that has ended. Checking whether it has ended would take 0.2 us for each
        request (CPython 3.11)."""
        count = len(self._added)
        if count > _NEW:
            self._take_in(waits)
        else:
            self._look(count)
        return self._next

    def late(self, now: float, waits: Callable[[bytes], bool]) -> tuple[bytes, float] | None:
        """Returns the first request that is too late, with its timeout. It stays the first until it no
        longer waits, so that an interrupt loses none."""
        first = self._first(waits)
        self._next = first[0] if first else _NEVER
        return first[1:] if first and first[0] <= now else None

    def _first(self, waits: Callable[[bytes], bool]) -> tuple[float, bytes, float] | None:
        self._take_in(waits)
        heap, queue = self._heap, self._queue
        while queue and not waits(queue[0][1]):
            queue.popleft()
        while heap and not waits(heap[0][1]):
            heappop(heap)
        if heap and queue:
            return min(heap[0], queue[0])
        return heap[0] if heap else queue[0] if queue else None

    def _look(self, count: int) -> None:
        if count > self._looked:
            first = min(self._added[self._looked : count])
            self._next = min(self._next, first[0])
            self._looked = count

    def _take_in(self, waits: Callable[[bytes], bool]) -> None:
        count = len(self._added)
        if not count:
            return
        self._look(count)  # first, since an interrupt may come below
        heap, queue = self._heap, self._queue
        last = queue[-1][0] if queue else 0.0
        for entry in [entry for entry in self._added[:count] if waits(entry[1])]:
            if entry[0] >= last:
                queue.append(entry)
                last = entry[0]
            else:
                heappush(heap, entry)
        # No call between these two lines, so that no interrupt comes in between.
        self._looked = 0
        del self._added[:count]
        if len(heap) + len(queue) > self._room:
            kept = [entry for entry in heap if waits(entry[1])]
            heapify(kept)
            heap[:] = kept
            self._queue = deque(entry for entry in queue if waits(entry[1]))
            self._room = 2 * (len(heap) + len(self._queue)) + _SLACK
