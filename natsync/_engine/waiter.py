"""How a thread waits for the connection: it drives if no other thread does, else it sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from ..errors import Error, fresh
from ..options import MAX_WAIT

__all__ = [
    "Drive",
    "Event",
    "Guest",
    "StateLock",
    "Turns",
    "Waiter",
    "deadline_after",
    "release",
    "set_free",
]

_T = TypeVar("_T")

StateLock = threading.RLock
"""For annotations: the lock that guards the state of one client."""

Drive = Callable[[Callable[[], object], float], None]
"""Moves the connection's bytes until the call returns something true, or a time; or returns early."""


def deadline_after(timeout: float) -> float:
    """Returns the time `timeout` seconds from now, at most as far off as any platform can wait."""
    return monotonic() + min(timeout, MAX_WAIT)


def set_free(lock: threading.RLock) -> None:
    """Resets `lock` in a forked child, as the standard library does with its own locks."""
    if hasattr(lock, "_at_fork_reinit"):  # that of gevent does it by itself
        lock._at_fork_reinit()


def release(turn: threading.Lock) -> bool:
    """Wakes the thread that waits for `turn`; returns False if it was woken before."""
    try:
        turn.release()
    except RuntimeError:
        return False
    return True


class Event:
    """As `threading.Event`, whose `wait` may lose a lock at an interrupt. Any thread may call anything."""

    __slots__ = ("is_set", "_waiting")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: dict[threading.Lock, None] = {}  # in single operations, which are atomic

    def set(self) -> None:
        """Wakes all threads that wait, now and later."""
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
            # Only now: who sets it after this look finds the lock.
            return self.is_set or turn.acquire(timeout=min(max(0.0, timeout), MAX_WAIT))
        finally:
            self._waiting.pop(turn, None)


class Guest:
    """A thread that drives in place of the I/O thread, from `Loop.take_seat` to `Loop.release`.

    `idle`: it only waits for the socket, so that a call from a signal handler that interrupts it may
    take the seat from it. `evicted`: such a call has done so, and the guest touches nothing any more.
    """

    __slots__ = ("evicted", "idle", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.idle = False
        self.evicted = False


class Turns:
    """Threads that wait, each for a condition of its own. Any thread may call anything."""

    __slots__ = ("waiting",)

    def __init__(self) -> None:
        self.waiting: dict[threading.Lock, None] = {}
        """The threads that wait, in single operations, which are atomic."""

    def wake(self) -> None:
        """Makes all waiting threads check their conditions."""
        for turn in self.waiting.copy():
            release(turn)

    def wait(self, done: Callable[[], bool], until: float) -> bool:
        """Waits until `done()`, or the time `until`; returns whether it is done."""
        while not done():
            turn = threading.Lock()
            turn.acquire()
            try:
                self.waiting[turn] = None
                # Only now: who changes the condition after this look finds the lock.
                if not done() and not turn.acquire(
                    timeout=min(max(0.0, until - monotonic()), MAX_WAIT)
                ):
                    return done()
            finally:
                self.waiting.pop(turn, None)
        return True


class Waiter(Generic[_T]):
    """The wait of one thread for one result, which the driver sets once. It uses a bare lock, and only
    if it sleeps: an Event costs 4 times as much, and mostly the waiting thread is the driver."""

    __slots__ = ("subject", "_turn", "_drive", "_outcome")

    def __init__(self, drive: Drive, subject: str = "") -> None:
        self.subject = subject
        self._turn: threading.Lock | None = None  # of the thread, once it sleeps
        self._drive = drive
        # Empty, then a value or an error: always the same list, whose length the driver looks at.
        self._outcome: list[tuple[_T | None, Error | None]] = []

    def settle(self, value: _T) -> None:
        """Ends the wait with `value`. Only the first end counts. For the driver."""
        outcome = self._outcome
        if not outcome:
            outcome += ((value, None),)
            if self._turn:  # no call up to that of `release`: an interrupt cannot come in between
                self._turn.release()

    def fail(self, error: Error) -> None:
        """Ends the wait with `error`."""
        outcome = self._outcome
        if not outcome:
            outcome += ((None, error),)
            if self._turn:
                self._turn.release()

    def wait(self, timeout: float) -> _T | None:
        """Returns the value, or None if there is none within `timeout` seconds. For one thread, once."""
        until = monotonic() + timeout
        outcome = self._outcome
        self._drive(outcome.__len__, until)
        if not outcome:
            turn = threading.Lock()
            turn.acquire()
            self._turn = turn
            if not outcome:  # only now: who settles it after this look finds the lock
                turn.acquire(timeout=min(max(0.0, until - monotonic()), MAX_WAIT))
        for value, error in outcome:
            if error:
                raise fresh(error)
            return value
        return None
