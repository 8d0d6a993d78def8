"""Waiting for descriptors: with epoll if the system has it, else with `selectors`.

epoll is used directly, since its wrapper in `selectors` takes longer than the system call. This module
knows nothing of sockets. One thread at a time may use a poller.
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Iterable
from typing import Protocol

__all__ = ["READABLE", "WRITABLE", "Poller", "epoll", "gate", "new_poller"]

READABLE = 1
WRITABLE = 4
# The same values as EPOLLIN and EPOLLOUT, which are not defined on systems without epoll.
assert (READABLE, WRITABLE) == (
    getattr(select, "EPOLLIN", READABLE),
    getattr(select, "EPOLLOUT", WRITABLE),
)


class Poller(Protocol):
    """Descriptors with the events to wait for: READABLE, WRITABLE or both. `poll` waits for at most
    `timeout` seconds, and returns the ready ones."""

    def register(self, fd: int, mask: int) -> None: ...
    def modify(self, fd: int, mask: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def poll(self, timeout: float) -> Iterable[tuple[int, int]]: ...
    def close(self) -> None: ...


def epoll() -> Poller | None:
    """Returns an epoll; None if the system has none, or gevent has removed it."""
    return select.epoll() if hasattr(select, "epoll") else None


def new_poller() -> Poller:
    """Returns the best poller of this system."""
    return epoll() or _Selector()


def gate(poller: Poller) -> tuple[Poller | None, int]:
    """Returns an epoll that is ready when `poller` is, and the descriptor of `poller` in it; None and -1 if
    the system has no epoll, or gevent has removed it."""
    outer = epoll()
    if outer is None or not hasattr(poller, "fileno"):
        return None, -1
    fd: int = poller.fileno()
    outer.register(fd, READABLE)
    return outer, fd


class _Selector:
    """A poller on `selectors`."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()

    def register(self, fd: int, mask: int) -> None:
        self._selector.register(fd, _events(mask))

    def modify(self, fd: int, mask: int) -> None:
        self._selector.modify(fd, _events(mask))

    def unregister(self, fd: int) -> None:
        self._selector.unregister(fd)

    def poll(self, timeout: float) -> list[tuple[int, int]]:
        return [
            (key.fd, READABLE * bool(ready & 1) | WRITABLE * bool(ready & 2))
            for key, ready in self._selector.select(timeout)
        ]

    def close(self) -> None:
        self._selector.close()


def _events(mask: int) -> int:
    reading = selectors.EVENT_READ if mask & READABLE else 0
    return reading | (selectors.EVENT_WRITE if mask & WRITABLE else 0)
