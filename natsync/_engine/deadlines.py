"""The deadlines of requests whose callers do not wait."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush

__all__ = ["Deadlines"]

_NEVER = float("inf")
_SLACK = 1000  # entries of requests that are over may be kept before all are looked through


class Deadlines:
    """A heap. Entries of requests that have ended stay until they reach its top or are half of it, so
    that the next deadline costs the same beside one request and beside 16,000.

    Any thread may call `add`, which only appends to a list; the rest is for one thread at a time.
    """

    def __init__(self) -> None:
        self._added: list[tuple[float, bytes, float]] = []
        self._heap: list[tuple[float, bytes, float]] = []
        self._room = _SLACK

    def add(self, token: bytes, timeout: float, now: float) -> None:
        """Adds a deadline for `token`, `timeout` seconds after `now`."""
        self._added.append((now + timeout, token, timeout))

    def next(self, waits: Callable[[bytes], bool]) -> float:
        """Returns the first deadline of a request that still waits."""
        heap = self._heap
        self._take_in(waits)
        while heap and not waits(heap[0][1]):
            heappop(heap)
        return heap[0][0] if heap else _NEVER

    def pop(self, now: float, waits: Callable[[bytes], bool]) -> list[tuple[bytes, float]]:
        """Removes and returns the requests that are too late, with their timeouts."""
        self._take_in(waits)
        late = []
        while self._heap and self._heap[0][0] <= now:
            _, token, timeout = heappop(self._heap)
            late.append((token, timeout))
        return late

    def _take_in(self, waits: Callable[[bytes], bool]) -> None:
        count = len(self._added)
        if not count:
            return
        heap = self._heap
        for entry in self._added[:count]:
            if waits(entry[1]):
                heappush(heap, entry)
        del self._added[:count]
        if len(heap) > self._room:
            heap[:] = [entry for entry in heap if waits(entry[1])]
            heapify(heap)
            self._room = 2 * len(heap) + _SLACK
