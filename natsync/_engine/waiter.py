"""Locks and events with which threads wait for each other and for the connection."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ..options import MAX_WAIT

__all__ = [
    "Drive",
    "Event",
    "Guest",
    "StateLock",
    "Turns",
    "deadline_after",
    "release",
    "set_free",
]

StateLock = threading.RLock
"""The type of the lock that guards the state of one client."""

Drive = Callable[[Callable[[], object], float], None]
"""Moves the connection's bytes until the call returns true or until a time; may return early."""


def deadline_after(timeout: float) -> float:
    """Returns the time `timeout` seconds from now, limited to what every platform can wait."""
    return monotonic() + min(timeout, MAX_WAIT)


def set_free(lock: threading.RLock) -> None:
    """Resets `lock` in a forked child, as the standard library does with its own locks."""
    if hasattr(lock, "_at_fork_reinit"):  # a lock of gevent resets itself
        lock._at_fork_reinit()


def release(turn: threading.Lock) -> bool:
    """Wakes the thread that waits for `turn`; returns False if it was woken already."""
    try:
        turn.release()
    except RuntimeError:
        return False
    return True


class Event:
    """Replaces `threading.Event`, whose `wait` may lose a lock at an interrupt. For any thread."""

    __slots__ = ("is_set", "_waiting")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: dict[threading.Lock, None] = {}  # single operations, which are atomic

    def set(self) -> None:
        """Wakes all threads that wait; later calls of `wait` return at once."""
        self.is_set = True
        for turn in self._waiting.copy():
            release(turn)

    def clear(self) -> None:
        """Makes later calls of `wait` wait."""
        self.is_set = False

    def wait(self, timeout: float) -> bool:
        """Returns whether the event was set within `timeout` seconds."""
        turn = threading.Lock()
        turn.acquire()
        try:
            self._waiting[turn] = None
            # Only now: a thread that sets it after this look finds the lock.
            return self.is_set or turn.acquire(timeout=min(max(0.0, timeout), MAX_WAIT))
        finally:
            self._waiting.pop(turn, None)


class Guest:
    """A thread that drives in place of the I/O thread, from `Seat.take` to `Seat.release`.

    `idle`: it only waits for the socket, so that a call from a signal handler that interrupts it may take
    the seat from it. `evicted`: such a call has taken the seat, and the guest must not touch anything.
    """

    __slots__ = ("evicted", "idle", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.idle = False
        self.evicted = False


class Turns:
    """Threads that each wait for a condition. For any thread."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[threading.Lock, None] = {}
        """The threads that wait. Changed only by single operations, which are atomic."""

    def wake(self) -> None:
        """Makes all waiting threads check their conditions once."""
        for turn in self.waiting.copy():
            release(turn)
            self.waiting.pop(turn, None)  # only now: an interrupt may come in between

    def wait(self, done: Callable[[], bool], until: float) -> bool:
        """Waits until `done()` is true or the time is `until`; returns whether it is done."""
        while not done():
            turn = threading.Lock()
            turn.acquire()
            try:
                self.waiting[turn] = None
                # Only now: a thread that changes the condition after this look finds the lock.
                if not done() and not turn.acquire(
                    timeout=min(max(0.0, until - monotonic()), MAX_WAIT)
                ):
                    return done()
            finally:
                self.waiting.pop(turn, None)
        return True
