"""The connection of a parent, as a forked child has it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager

from ..errors import ReentrantCallError
from .connection import Connection, Stats, Status

__all__ = ["Inherited"]


class Inherited:
    """Replaces the parent's connection in a child, and closes the child's copies of its descriptors, which
    the server does not notice. It has the attributes that need no connection; for all others it calls
    `renew`, once, to make a new connection. If `renew` raises, so does the call that needs the connection.
    """

    status = Status.CLOSED
    stats = Stats(0, 0, 0, 0)

    def __init__(
        self, parents: Connection | Inherited, renew: Callable[[Connection], Connection]
    ) -> None:
        self.process = os.getpid()
        # A child that has never used the connection may have forked again.
        first = parents._parents if isinstance(parents, Inherited) else parents
        self.options = first.options
        self.info = first.info
        self.server = first.server
        self._parents: Connection = first
        self._renew = renew
        self._own: Connection | None = None
        self._is_renewing = False
        first.abandon()

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
