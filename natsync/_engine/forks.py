"""Forks: a forked child has copies of its parent's connections, objects without their threads, on sockets
that belong to the parent.

The child must not use any part of them, not even their locks, which a thread of the parent may have held at
the fork. It closes its copies of the descriptors, which the server does not notice. Each client then makes
a new connection at the first call that needs one; or, by option, every such call raises ForkedError.
"""

from __future__ import annotations

import gc
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from ..errors import ReentrantCallError
from .connection import Connection, Stats, Status

__all__ = ["Inherited", "watch"]


class ForkAware(Protocol):
    """A client, as this module sees it."""

    def inherit(self) -> None: ...


_clients: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch(client: ForkAware) -> None:
    """Makes every forked child call `client.inherit`."""
    _clients.add(client)


class _Collector:
    """Keeps the garbage collector from running finalizers between a fork and the end of `_after_fork`: they
    may call a client whose threads exist only in the parent."""

    def __init__(self) -> None:
        self._forking = 0
        self._was_enabled = False

    def stop(self) -> None:
        """Called before a fork. Several threads may fork at the same time."""
        if not self._forking:
            self._was_enabled = gc.isenabled()
        self._forking += 1
        gc.disable()

    def go_on(self) -> None:
        """Called in the parent."""
        self._forking -= 1
        if self._was_enabled and not self._forking:
            gc.enable()

    def go_on_in_child(self) -> None:
        """Called in the child, where no other thread forks."""
        self._forking = 1
        self.go_on()


_collector = _Collector()


def _after_fork() -> None:
    for client in list(_clients):
        client.inherit()
    _collector.go_on_in_child()


# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_collector.stop,
        after_in_parent=_collector.go_on,
        after_in_child=_after_fork,
    )


class Inherited:
    """Replaces the parent's connection in a child. It has the attributes that need no connection; for all
    others it calls `renew`, once, to make a new connection."""

    status = Status.CLOSED
    stats = Stats(0, 0, 0, 0)

    def __init__(self, parents: Connection, renew: Callable[[Connection], Connection]) -> None:
        self.options = parents.options
        self.info = parents.info
        self.server = parents.server
        self._parents = parents
        self._renew = renew
        self._own: Connection | None = None
        self._is_renewing = False
        parents.abandon()

    def close(self, timeout: float) -> None:
        """Does nothing: there is nothing to close, and no connection is made just to close it."""

    def own(self) -> Connection:
        """Returns the connection of this process."""
        failure: Exception | None = None
        # Made only now, because gevent patches `threading` after the fork in a worker of gunicorn.
        lock: AbstractContextManager[object] = vars(self).setdefault("_lock", threading.RLock())
        with lock:
            own = self._own
            if own is None and self._is_renewing:  # a signal handler interrupts the same call
                failure = ReentrantCallError()
            elif own is None:
                self._is_renewing = True
                try:
                    self._own = own = self._renew(self._parents)
                except Exception as error:  # raised below: see `connection` on errors and locks
                    failure = error
                finally:
                    self._is_renewing = False
        if failure:
            raise failure
        assert own
        return own

    def __getattr__(self, name: str) -> object:
        return getattr(self.own(), name)
