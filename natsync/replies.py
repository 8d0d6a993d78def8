"""Replies that come later: a `concurrent.futures.Future` for each request.

What is called when a future is done runs on the callback thread; the thread that reads only sets results.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic

from .errors import Error, fresh
from .message import Delivered, Msg
from .options import MAX_WAIT
from .waiter import Drive

__all__ = ["ReplyFuture"]


class ReplyFuture(Future[Msg]):
    """The reply to one request. `result` reads the connection itself where nobody else does; `cancel`
    gives the request up."""

    def __init__(
        self,
        read: Callable[[Delivered], Msg],
        drive: Drive,
        post: Callable[[Callable[[], object]], None],
        give_up: Callable[[], None],
    ) -> None:
        super().__init__()
        self._read = read
        self._drive = drive
        self._post = post
        self._give_up = give_up

    def result(self, timeout: float | None = None) -> Msg:
        """The reply; raises what `Client.request` does, and TimeoutError where it is not there in `timeout`
        seconds (the request goes on then)."""
        return super().result(self._wait(timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the request failed with, if it did; waits as `result` does."""
        return super().exception(self._wait(timeout))

    def cancel(self) -> bool:
        """Gives the request up, if there is no reply yet; whether it did."""
        cancelled = super().cancel()
        if cancelled:
            self._give_up()
        return cancelled

    def add_done_callback(self, fn: Callable[[Future[Msg]], object]) -> None:
        """Calls `fn` with this future, on the connection's callback thread, when it is done."""
        super().add_done_callback(lambda future: self._post(lambda: fn(self)))

    def settle(self, frame: Delivered) -> None:
        """Sets what the reply says. For who drives."""
        if not self.set_running_or_notify_cancel():
            return
        try:
            self.set_result(self._read(frame))
        except Error as error:
            self.set_exception(error)

    def fail(self, error: Error) -> None:
        """Sets why there will be no reply."""
        if self.set_running_or_notify_cancel():
            self.set_exception(fresh(error))

    def _wait(self, timeout: float | None) -> float:
        """Drives until it is done or the time is over; what is left of the time."""
        until = monotonic() + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
        if not self.done():
            self._drive(self.done, until)
        return max(0.0, until - monotonic())
