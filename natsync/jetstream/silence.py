"""How long a reader has waited for a sign of life of its consumer, across calls in close
succession.

A program that polls, such as with `next(timeout=1.0)`, waits as long in total as one that makes a
single call, and must also learn of missing heartbeats.
"""

from __future__ import annotations

from time import monotonic

__all__ = ["Silence"]

_CLOSELY = 0.25
"""Calls at most this many seconds apart count as one wait. After a longer pause, what has arrived
meanwhile may not have been read yet: a process that was suspended would raise a false alarm."""


class Silence:
    """A reader's wait during which nothing has arrived. `received` is the number of messages,
    including statuses, that its subscription has received so far. Any thread may call any method; a
    wait that another thread interrupts counts from its own beginning."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0.0, -_CLOSELY, -1  # when the wait began and ended, and `received` at its end

    def begin(self, received: int) -> float:
        """Returns the time when the wait that this call continues began, or now if it continues
        none."""
        now = monotonic()
        began, ended, before = self._last
        return began if received == before and now <= ended + _CLOSELY else now

    def pause(self, began: float, received: int) -> None:
        """Records the end of a call whose wait began at the time `began`."""
        self._last = began, monotonic(), received
