"""How long a reader waits for a sign of life of its consumer, over calls that follow each other closely.

A program that polls, with `next(timeout=1.0)` say, waits as long in all as one that makes a single call, and
has to hear of missing heartbeats as well.
"""

from __future__ import annotations

from time import monotonic

__all__ = ["Silence"]

_CLOSELY = 0.25
"""Seconds between two calls that count as one wait. After a longer pause what has arrived meanwhile may not
be read yet: a process that was stopped would raise a false alarm."""


class Silence:
    """The wait of a reader in which nothing has arrived. `received` is how many messages its subscription has
    received so far, statuses among them. Any thread may call anything: a wait that another thread cuts short
    counts from its own beginning."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0.0, -_CLOSELY, -1  # the beginning, the end, and `received` then

    def begin(self, received: int) -> float:
        """Returns when the wait began that a call goes on with: an earlier one's time, or now."""
        now = monotonic()
        began, ended, before = self._last
        return began if received == before and now <= ended + _CLOSELY else now

    def pause(self, began: float, received: int) -> None:
        """Notes that a call ends whose wait `began` at that time."""
        self._last = began, monotonic(), received
