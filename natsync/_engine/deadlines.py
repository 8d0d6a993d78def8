"""The deadlines of requests whose callers do not wait."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heapify, heappop, heappush

__all__ = ["Deadlines"]

_NEVER = float("inf")
_NEW = 64
"""New entries, before they are looked through. With 1000, which no longer fit the processor's first cache, a
request takes 1.02 times as much CPU time (CPython 3.11)."""
_SLACK = 1000  # entries of requests that are over may be kept before all are looked through


class Deadlines:
    """A queue of deadlines that came in order, as those of requests with the same timeout do, and a heap of
    the others, whose entries cost five times as much. New entries are put in there by the dozen: most of
    their requests have ended by then. Entries of requests that have ended stay until they are the first or
    half of all, so that the next deadline costs the same beside one request and beside 16,000.

    Any thread may call `add`, which only appends to a list; the rest is for one thread at a time.
    """

    def __init__(self) -> None:
        self._added: list[tuple[float, bytes, float]] = []
        self._looked = 0  # at so many of them
        self._next = _NEVER
        self._queue: deque[tuple[float, bytes, float]] = deque()
        self._heap: list[tuple[float, bytes, float]] = []
        self._room = _SLACK

    def add(self, token: bytes, timeout: float, now: float) -> None:
        """Adds a deadline for `token`, `timeout` seconds after `now`."""
        self._added.append((now + timeout, token, timeout))

    def next(self, waits: Callable[[bytes], bool]) -> float:
        """Returns the time to call `late`: the first deadline of a request that still waits, or an earlier
        one of a request that has ended: to look whether it has takes 0.2 us for each request (CPython
        3.11)."""
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
        self._look(count)  # first: an interrupt may come
        heap, queue = self._heap, self._queue
        last = queue[-1][0] if queue else 0.0
        for entry in [entry for entry in self._added[:count] if waits(entry[1])]:
            if entry[0] >= last:
                queue.append(entry)
                last = entry[0]
            else:
                heappush(heap, entry)
        # No call between these two.
        self._looked = 0
        del self._added[:count]
        if len(heap) + len(queue) > self._room:
            kept = [entry for entry in heap if waits(entry[1])]
            heapify(kept)
            heap[:] = kept
            self._queue = deque(entry for entry in queue if waits(entry[1]))
            self._room = 2 * (len(heap) + len(self._queue)) + _SLACK
