"""Waiting for descriptors: epoll where the system has it, else what `selectors` finds.

epoll itself, since its wrapper in `selectors` takes longer than the call of the system behind it. Knows no
sockets. One thread at a time.
"""

from __future__ import annotations

import select
import selectors
from collections.abc import Iterable
from typing import Protocol

__all__ = ["READABLE", "WRITABLE", "Poller", "epoll", "gate", "new_poller"]

READABLE = 1
WRITABLE = 4
# What epoll says, with no name on systems that have none.
assert (READABLE, WRITABLE) == (
    getattr(select, "EPOLLIN", READABLE),
    getattr(select, "EPOLLOUT", WRITABLE),
)


class Poller(Protocol):
    """Descriptors, and what is waited for on each: READABLE, WRITABLE or both. `poll` waits for `timeout`
    seconds at most, and gives those that are ready."""

    def register(self, fd: int, mask: int) -> None: ...
    def modify(self, fd: int, mask: int) -> None: ...
    def unregister(self, fd: int) -> None: ...
    def poll(self, timeout: float) -> Iterable[tuple[int, int]]: ...
    def close(self) -> None: ...


def epoll() -> Poller | None:
    """An epoll, where there is one; gevent takes it away."""
    return select.epoll() if hasattr(select, "epoll") else None


def new_poller() -> Poller:
    """The best there is."""
    return epoll() or _Selector()


def gate(poller: Poller) -> tuple[Poller | None, int]:
    """An epoll that is ready when `poller` is, and what stands for that in it; None where the system, or
    who patched it, has none."""
    outer = epoll()
    if outer is None or not hasattr(poller, "fileno"):
        return None, -1
    fd: int = poller.fileno()
    outer.register(fd, READABLE)
    return outer, fd


class _Selector:
    """The same by `selectors`."""

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
