"""How a thread waits for the connection: it moves the bytes itself if nobody else does, else it sleeps."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import Generic, TypeVar

from .errors import Error, fresh
from .options import MAX_WAIT

__all__ = ["Drive", "Waiter"]

_T = TypeVar("_T")

Drive = Callable[[Callable[[], object], float], None]
"""Moves the connection's bytes until the call returns something true, or a time; or returns early."""


class Waiter(Generic[_T]):
    """What one thread waits for and whoever drives settles, once. A bare lock: an Event costs 4 times as
    much."""

    __slots__ = ("_lock", "_drive", "_value", "_error")

    def __init__(self, drive: Drive) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()
        self._drive = drive
        self._value: list[_T] = []
        self._error: Error | None = None

    def settle(self, value: _T) -> None:
        """Ends the wait with `value`. Only the first end counts; for who drives."""
        if not self._is_settled():
            self._value.append(value)
            self._lock.release()

    def fail(self, error: Error) -> None:
        """Ends the wait with `error`."""
        if not self._is_settled():
            self._error = error
            self._lock.release()

    def wait(self, timeout: float) -> _T | None:
        """The value; None if there is none within `timeout` seconds. For one thread, once."""
        until = monotonic() + timeout
        self._drive(self._is_settled, until)
        if not self._is_settled():
            self._lock.acquire(timeout=min(max(0.0, until - monotonic()), MAX_WAIT))
        if self._error:
            raise fresh(self._error)
        return self._value[0] if self._value else None

    def _is_settled(self) -> bool:
        return bool(self._value) or self._error is not None
