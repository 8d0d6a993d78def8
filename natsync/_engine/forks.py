"""What a forked child has of its parent's connections: copies of objects without their threads, on
sockets that are the parent's.

So nothing of it may be used, not even its locks, which a thread that is not there may hold. The child
closes its copies of the descriptors, which says nothing to anybody, and each client opens a connection of
its own with the first call that needs one; or, by option, every such call raises ForkedError.
"""

from __future__ import annotations

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
    """A client, as the fork sees it."""

    def inherit(self) -> None: ...


_clients: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def watch(client: ForkAware) -> None:
    """Makes `client.inherit` be called in every forked child."""
    _clients.add(client)


def _after_fork() -> None:
    for client in list(_clients):
        client.inherit()


# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Inherited:
    """Stands where the connection was: it knows what can be known without one; for all else `renew` makes
    a new one, once."""

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
        """There is nothing to close; and nothing to open either."""

    def own(self) -> Connection:
        """This process's connection."""
        failure: Exception | None = None
        # Made only now: gevent patches `threading` after the fork, in a worker of gunicorn.
        lock: AbstractContextManager[object] = vars(self).setdefault("_lock", threading.RLock())
        with lock:
            own = self._own
            if own is None and self._is_renewing:  # a signal handler interrupts the same call
                failure = ReentrantCallError()
            elif own is None:
                self._is_renewing = True
                try:
                    self._own = own = self._renew(self._parents)
                except Exception as error:  # raised below: as in connection, none leaves the block
                    failure = error
                finally:
                    self._is_renewing = False
        if failure:
            raise failure
        assert own
        return own

    def __getattr__(self, name: str) -> object:
        return getattr(self.own(), name)
