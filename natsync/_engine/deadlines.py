"""When requests that nobody waits for are too late."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

__all__ = ["Deadlines"]

_NEVER = float("inf")


class Deadlines:
    """A queue for every timeout in use, so that the next one is at the head of one of them. Any thread may
    `add`; the rest is for one at a time. No lock, which would take longer than all it guards."""

    def __init__(self) -> None:
        self._queues: dict[float, deque[tuple[float, bytes]]] = {}

    def add(self, token: bytes, timeout: float, now: float) -> None:
        """`token` is too late `timeout` seconds from `now`."""
        queues = self._queues
        queue = queues.get(timeout)
        if queue is None:
            queue = queues.setdefault(timeout, deque())
        queue.append((now + timeout, token))
        if queues.get(timeout) is not queue:  # it was forgotten meanwhile, as it was empty
            queues.setdefault(timeout, deque()).append((now + timeout, token))

    def next(self, waits: Callable[[bytes], bool]) -> float:
        """When the next one is too late of those that still wait; those that do not are forgotten."""
        soonest = _NEVER
        for timeout, queue in self._queues.copy().items():
            while queue and not waits(queue[0][1]):
                queue.popleft()
            if not queue:
                del self._queues[timeout]
                if queue:  # one came between these two lines
                    self._queues.setdefault(timeout, deque()).extend(queue)
            if queue:
                soonest = min(soonest, queue[0][0])
        return soonest

    def pop(self, now: float) -> list[tuple[bytes, float]]:
        """Those that are too late, with their timeouts."""
        late = []
        for timeout, queue in self._queues.copy().items():
            while queue and queue[0][0] <= now:
                late.append((queue.popleft()[1], timeout))
        return late
