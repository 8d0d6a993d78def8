"""How a thread waits for the connection: it moves the bytes itself if nobody else does, else it sleeps."""

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
    """The time `timeout` seconds from now, or as far off as any platform can wait."""
    return monotonic() + min(timeout, MAX_WAIT)


def set_free(lock: threading.RLock) -> None:
    """Makes `lock` as new in a forked child, as the standard library does with its own."""
    if hasattr(lock, "_at_fork_reinit"):  # that of gevent does it by itself
        lock._at_fork_reinit()


def release(turn: threading.Lock) -> bool:
    """Lets the thread go on that waits for `turn`; False where somebody did so before."""
    try:
        turn.release()
    except RuntimeError:
        return False
    return True


class Event:
    """As `threading.Event`, in whose `wait` an interrupt may lose a lock. Any thread may call anything."""

    __slots__ = ("is_set", "_waiting")

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: dict[threading.Lock, None] = {}  # in single operations, which are atomic

    def set(self) -> None:
        """Lets all go on that wait, now and later."""
        self.is_set = True
        for turn in self._waiting.copy():
            release(turn)

    def clear(self) -> None:
        """Makes those wait who come later."""
        self.is_set = False

    def wait(self, timeout: float) -> bool:
        """Whether it was set within `timeout` seconds."""
        turn = threading.Lock()
        turn.acquire()
        try:
            self._waiting[turn] = None
            # Only now: who sets it after this look finds the lock.
            return self.is_set or turn.acquire(timeout=min(max(0.0, timeout), MAX_WAIT))
        finally:
            self._waiting.pop(turn, None)


class Turns:
    """Threads that wait, each for a condition of its own. Any thread may call anything."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[threading.Lock, None] = {}  # in single operations, which are atomic

    @property
    def waiting(self) -> bool:
        """Whether any thread waits."""
        return bool(self._waiting)

    def wake(self) -> None:
        """Makes all that wait look at their conditions."""
        for turn in self._waiting.copy():
            release(turn)

    def wait(self, done: Callable[[], bool], until: float) -> bool:
        """Waits until `done()`, or the time `until`; returns whether it is done."""
        while not done():
            turn = threading.Lock()
            turn.acquire()
            try:
                self._waiting[turn] = None
                # Only now: who changes the condition after this look finds the lock.
                if not done() and not turn.acquire(
                    timeout=min(max(0.0, until - monotonic()), MAX_WAIT)
                ):
                    return done()
            finally:
                self._waiting.pop(turn, None)
        return True


class Waiter(Generic[_T]):
    """What one thread waits for and whoever drives settles, once. A bare lock, if any: an Event costs 4
    times as much, and mostly the thread that waits settles it itself."""

    __slots__ = ("_turn", "_drive", "_value", "_error")

    def __init__(self, drive: Drive) -> None:
        self._turn: threading.Lock | None = None  # of the thread, once it sleeps
        self._drive = drive
        self._value: list[_T] = []
        self._error: Error | None = None

    def settle(self, value: _T) -> None:
        """Ends the wait with `value`. Only the first end counts; for who drives."""
        if not self._is_settled():
            self._value = [value]
            if self._turn:  # no call up to that of `release`: an interrupt cannot come in between
                self._turn.release()

    def fail(self, error: Error) -> None:
        """Ends the wait with `error`."""
        if not self._is_settled():
            self._error = error
            if self._turn:
                self._turn.release()

    def wait(self, timeout: float) -> _T | None:
        """The value; None if there is none within `timeout` seconds. For one thread, once."""
        until = monotonic() + timeout
        self._drive(self._is_settled, until)
        if not self._is_settled():
            turn = threading.Lock()
            turn.acquire()
            self._turn = turn
            if not self._is_settled():  # only now: who settles it behind this look finds the lock
                turn.acquire(timeout=min(max(0.0, until - monotonic()), MAX_WAIT))
        if self._error:
            raise fresh(self._error)
        return self._value[0] if self._value else None

    def _is_settled(self) -> bool:
        return bool(self._value) or self._error is not None
