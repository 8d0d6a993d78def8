"""When requests that nobody waits for are too late."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["Deadlines"]

_NEVER = float("inf")


class Deadlines:
    """A queue for every timeout in use, so that the next one is at the head of one of them. One lock, a
    leaf."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[float, deque[tuple[float, bytes]]] = {}

    def add(self, token: bytes, timeout: float, now: float) -> None:
        """`token` is too late `timeout` seconds from `now`."""
        with self._lock:
            queue = self._queues.get(timeout)
            if queue is None:
                queue = self._queues[timeout] = deque()
            queue.append((now + timeout, token))

    def next(self, waits: Callable[[bytes], bool]) -> float:
        """When the next one is too late of those that still wait; those that do not are forgotten."""
        if not self._queues:
            return _NEVER
        with self._lock:
            for timeout, queue in list(self._queues.items()):
                while queue and not waits(queue[0][1]):
                    queue.popleft()
                if not queue:
                    del self._queues[timeout]
            return min((queue[0][0] for queue in self._queues.values()), default=_NEVER)

    def pop(self, now: float) -> list[tuple[bytes, float]]:
        """Those that are too late, with their timeouts."""
        late = []
        with self._lock:
            for timeout, queue in self._queues.items():
                while queue and queue[0][0] <= now:
                    late.append((queue.popleft()[1], timeout))
        return late
