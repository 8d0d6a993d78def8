"""Replies that come later: a `concurrent.futures.Future` for each request.

What is called when a future is done runs on the callback thread; the thread that reads only sets results.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from .errors import Error, fresh
from .message import Delivered, Msg
from .options import MAX_WAIT
from .waiter import Drive, Flag

__all__ = ["ReplyFuture"]

if sys.version_info >= (3, 11):
    _LateError = TimeoutError
else:
    from concurrent.futures import TimeoutError as _FutureTimeoutError

    class _LateError(_FutureTimeoutError, TimeoutError):
        """There are two of that name before Python 3.11, and callers may catch either."""


class ReplyFuture(Future[Msg]):
    """The reply to one request. `result` reads the connection itself where nobody else does; `cancel`
    gives the request up."""

    def __init__(
        self,
        read: Callable[[Delivered], Msg],
        drive: Drive,
        post: Callable[[Callable[[], object]], object],
        give_up: Callable[[], None],
    ) -> None:
        super().__init__()
        self._read = read
        self._drive = drive
        self._post = post
        self._give_up = give_up
        self._over = Flag()
        self._ending = False

    def result(self, timeout: float | None = None) -> Msg:
        """The reply; raises what `Client.request` does, and TimeoutError where it is not there in `timeout`
        seconds (the request goes on then)."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the request failed with, if it did; waits as `result` does."""
        self._wait(timeout)
        return super().exception(0)

    def done(self) -> bool:
        """Whether it has ended, in whatever way. Takes no lock: an interrupt here could keep it for ever, and
        who drives needs it."""
        return self._over.is_set

    def cancel(self) -> bool:
        """Gives the request up, if there is no reply yet; whether it did."""
        cancelled = super().cancel()
        if cancelled:
            self._over.set()
            self._give_up()
        return cancelled

    def add_done_callback(self, fn: Callable[[Future[Msg]], object]) -> None:
        """Calls `fn` with this future, on the connection's callback thread, when it is done."""
        super().add_done_callback(lambda future: self._post(lambda: fn(self)))

    def settle(self, frame: Delivered) -> None:
        """Sets what the reply says. For who drives."""
        if not self._may_end():
            return
        try:
            self.set_result(self._read(frame))
        except Error as error:
            self.set_exception(error)
        self._has_ended()

    def fail(self, error: Error) -> None:
        """Sets why there will be no reply."""
        if self._may_end():
            self.set_exception(fresh(error))
            self._has_ended()

    def _may_end(self) -> bool:
        """Whether it has no end yet."""
        if self._over.is_set:
            return False
        if self._ending:  # an interrupt has hit who was about to: its lock may be taken for ever
            self._condition = threading.Condition()
            if super().done():
                self._has_ended()
                return False
            return True
        self._ending = True
        return self.set_running_or_notify_cancel()

    def _has_ended(self) -> None:
        self._over.set()
        self._ending = False

    def _wait(self, timeout: float | None) -> None:
        """Drives until it is done or the time is over."""
        until = monotonic() + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
        if not self.done():
            self._drive(self.done, until)
            if not self._over.wait(until - monotonic()):
                raise _LateError
