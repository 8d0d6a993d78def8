"""Futures of requests: a `concurrent.futures.Future` for each request.

Done callbacks run on the callback thread; the thread that reads replies only sets results.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from time import monotonic
from typing import TYPE_CHECKING, Generic, TypeVar

from ..errors import Error, fresh
from ..message import Delivered, Msg, says_no_responders
from ..options import MAX_WAIT
from .waiter import Event

if TYPE_CHECKING:
    from .reply_mux import ReplyMux
    from .request_window import RequestWindow

__all__ = ["ReplyFuture", "RequestContext", "RequestFuture", "WindowContext", "WindowFuture"]

_PENDING = object()
_new = object.__new__
_T = TypeVar("_T")
_FINISHED = "FINISHED"  # the state of a Future while its callbacks run, before `_over` is set

if sys.version_info >= (3, 11):
    _LateError = TimeoutError
else:
    from concurrent.futures import TimeoutError as _FutureTimeoutError

    class _LateError(_FutureTimeoutError, TimeoutError):
        """Before Python 3.11 there are two classes TimeoutError, and callers may catch either."""


class FutureContext:
    """The attributes that futures of one kind share.

    `post` runs a call on the callback thread.
    """

    __slots__ = ("mux", "post")

    def __init__(self, mux: ReplyMux, post: Callable[[Callable[[], object]], bool]) -> None:
        self.mux = mux
        self.post = post


class ReplyFuture(Future[_T]):
    """The reply to one request. `result` reads from the connection itself if no other thread does;
    `cancel` gives the request up.

    The parts of a `Future`, its lock and lists, are made only when `wait`, `as_completed` or a callback
    needs them: making them takes longer than all the rest of a request. The thread that ends the request
    checks `_has_parts`. If the parts exist, it sets the outcome in them, otherwise it sets `_outcome`; there
    is no call between the check and the assignment, so that no other thread comes in between. A thread that
    makes the parts first sets `_has_parts`, then reads `_outcome`.
    """

    subject: str
    token: bytes
    """The last token of the reply subject."""
    _context: FutureContext
    _outcome: object
    _has_parts: bool
    _flag: Event | None
    _over: bool
    _ending = False

    def _make_parts(self) -> dict[str, object]:
        """Makes the parts of a Future; returns the attributes of this one. Several threads may do so at once:
        none changes a part before it has fetched it, and `setdefault` never replaces one."""
        whole: Future[object] = Future()
        self._has_parts = True
        outcome = self._outcome
        if isinstance(outcome, Exception):
            whole.set_exception(outcome)
        elif outcome is not _PENDING:
            whole.set_result(outcome)
        mine = vars(self)
        for part, value in mine.setdefault("_parts", vars(whole)).items():
            mine.setdefault(part, value)
        return mine

    def result(self, timeout: float | None = None) -> _T:
        """Returns the reply. Raises the errors of `Client.request`, and TimeoutError if there is no
        reply within `timeout` seconds; then the request goes on."""
        if not self._over:
            self._wait(timeout)
        outcome = self._outcome
        if outcome is _PENDING or isinstance(outcome, Exception):
            return super().result(0)
        return outcome  # type: ignore[return-value]  # put there by `finish`

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Returns the error of the request, or None; waits as `result` does."""
        if not self._over:
            self._wait(timeout)
        return super().exception(0)

    def done(self) -> bool:
        """Returns whether the request has ended. Takes no lock: an interrupt could leave it locked for
        ever, and the driver needs it."""
        return self._over or vars(self).get("_state") == _FINISHED

    def cancel(self) -> bool:
        """Gives up the request if there is no reply yet; returns whether it did."""
        cancelled = super().cancel()
        if cancelled:
            if self._context.mux.close(self.token):  # else the thread that is ending it does this
                self.set_running_or_notify_cancel()
            self._over = True
            if self._flag:
                self._flag.set()
            self._leave()
            self._context.mux.wake()  # last: the driver reads what is set above
        return cancelled

    def add_done_callback(self, fn: Callable[[Future[_T]], object]) -> None:
        """Calls `fn` with this future on the callback thread when it is done. After the client was closed
        that thread no longer runs: then the thread that would have used it calls `fn` at once."""

        def call(future: Future[_T]) -> None:
            if not self._context.post(lambda: fn(self)):
                fn(self)  # as any Future does: the callback thread has ended with the client

        super().add_done_callback(call)

    def fail(self, error: Error) -> None:
        """Sets the error."""
        self._end(fresh(error))

    def _end(self, error: Exception) -> None:
        self.finish(error)

    def _leave(self) -> None:
        """Called when the request is over."""

    def finish(self, outcome: _T | Exception) -> None:
        """Ends the future, unless it has ended. For the driver and, after a rescue, for one other thread."""
        if self._outcome is _PENDING:
            if self._has_parts:
                self._set(outcome)
            else:
                self._outcome = outcome
        self._over = True
        self._leave()
        if self._flag:  # read after `_over` is set; `_wait` does it in the reverse order
            self._flag.set()

    def _set(self, outcome: _T | Exception) -> None:
        """Ends a future whose parts exist."""
        if self._may_end():
            if isinstance(outcome, Exception):
                self.set_exception(outcome)
            else:
                self.set_result(outcome)

    def _may_end(self) -> bool:
        """Returns whether the parts have no outcome yet."""
        if self._ending:
            if self._over:
                return False
            # An interrupt has hit the thread that was ending it: its lock may stay locked for ever.
            self._condition = threading.Condition()
            return not super().done()
        self._ending = True
        return self.set_running_or_notify_cancel()

    def _wait(self, timeout: float | None) -> None:
        """Drives until the future is done or the time is over."""
        until = monotonic() + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
        self._context.mux.drive(self.done, until)
        if not self._over:
            flag: Event = vars(self).setdefault("_event", Event())  # the same for all threads
            self._flag = flag
            if not self._over:
                flag.wait(until - monotonic())
        if not self.done():
            raise _LateError


class RequestFuture(ReplyFuture[Msg]):
    """The reply to one request."""

    _context: RequestContext

    def settle(self, frame: Delivered) -> None:
        """Sets the result from the reply. For the driver."""
        read = self._context.read
        try:
            outcome = read(self.subject, frame)
        except Exception as error:
            # Whatever a reply contains may end its request, but not the connection.
            self.finish(error)
            return
        # The hot path: as `finish`, without the call.
        if self._outcome is _PENDING:
            if self._has_parts:
                self._set(outcome)
            else:
                self._outcome = outcome
        self._over = True
        if self._flag:
            self._flag.set()


class WindowFuture(ReplyFuture[_T]):
    """The reply to one request of a window. The thread that ends it also frees its place."""

    _context: WindowContext[_T]
    seconds: float
    due: float
    kept: object = None
    """Data for `rescue`, kept by the code that made the request."""

    def settle(self, frame: Delivered) -> None:
        """Sets the result from the reply. For the driver."""
        context = self._context
        payload: bytes | None = frame.payload
        try:
            if not payload and says_no_responders(frame):
                payload = None
            outcome = context.read(self.subject, payload)
        except Exception as error:  # as in `RequestFuture.settle`
            self._end(error)
            return
        # The hot path, as above.
        if self._outcome is _PENDING:
            if self._has_parts:
                self._set(outcome)
            else:
                self._outcome = outcome
        self._over = True
        # As `RequestWindow.leave`, without the call.
        window = context.window
        futures = window.futures
        futures.pop(self.token, None)
        if window.room.waiting and len(futures) <= window.half:
            window.room.wake()
        if not futures and window.empty.waiting:
            window.empty.wake()
        if self._flag:
            self._flag.set()

    def _end(self, error: Exception) -> None:
        rescue = self._context.rescue
        if rescue and rescue(self, error):
            self._leave()
        else:
            self.finish(error)

    def _leave(self) -> None:
        self._context.window.leave(self.token)


class _Part:
    """A class attribute in place of a part of a Future: reading it makes the parts unless they exist. A
    `__getattr__` would make every attribute lookup slower."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, future: ReplyFuture[object], owner: type) -> object:
        return future._make_parts()[self._name]


for _name in vars(Future()):
    setattr(ReplyFuture, _name, _Part(_name))


# These two classes come last: a signal handler may interrupt the import of this module, and import it again.
# If it finds a context, it finds everything that the context needs.
class RequestContext(FutureContext):
    """The attributes that the futures of `Client.request_async` share. `read` turns a reply into a message,
    or raises the error that the future ends with."""

    __slots__ = ("read",)

    def __init__(
        self,
        mux: ReplyMux,
        post: Callable[[Callable[[], object]], bool],
        read: Callable[[str, Delivered], Msg],
    ) -> None:
        super().__init__(mux, post)
        self.read = read

    def open(self, subject: str, seconds: float) -> RequestFuture:
        """Returns the future of a request on `subject`, which fails if there is no reply within `seconds`.
        Raises the error with which the server refused the inbox.

        Calling the class would take 1.4 times as long (CPython 3.11).
        """
        mux = self.mux
        future: RequestFuture = _new(RequestFuture)
        future.subject = subject
        future.token = token = b"%x" % next(mux.numbers)
        future._context = self
        future._outcome = _PENDING
        future._has_parts = future._over = False
        future._flag = None
        if mux.refused:
            raise fresh(mux.refused)
        mux.is_timed = True
        mux.waiting[token] = future
        mux.deadlines.add(token, seconds, monotonic())
        return future


class WindowContext(FutureContext, Generic[_T]):
    """The attributes that the futures of one `RequestWindow` share.

    `read` turns a payload into the result, or raises the error that the future ends with; the payload is None
    if the server says that nobody listens. `rescue` is called before a future fails with an error; if it
    returns true, the future stays open, and `RequestWindow.finish` ends it later.
    """

    __slots__ = ("read", "window", "rescue")

    def __init__(
        self,
        mux: ReplyMux,
        post: Callable[[Callable[[], object]], bool],
        window: RequestWindow[_T],
        read: Callable[[str, bytes | None], _T],
        rescue: Callable[[WindowFuture[_T], Exception], bool] | None,
    ) -> None:
        super().__init__(mux, post)
        self.read = read
        self.window = window
        self.rescue = rescue

    def open(self, subject: str, seconds: float) -> WindowFuture[_T]:
        """Returns the future of a request on `subject`, which has a place in the window from now on; it fails
        if there is no reply within `seconds`. Raises the error with which the server refused the inbox.
        """
        mux, window = self.mux, self.window
        future: WindowFuture[_T] = _new(WindowFuture)
        future.subject = subject
        future.token = token = b"%x" % next(mux.numbers)
        future.seconds = seconds
        future._context = self
        future._outcome = _PENDING
        future._has_parts = future._over = False
        future._flag = None
        if mux.refused:
            raise fresh(mux.refused)
        if seconds != window.timeout:
            window.note_timeout(seconds)
        now = monotonic()
        future.due = now + seconds
        window.futures[token] = future
        mux.waiting[token] = future
        # Only now: if no other timeout is noted yet, all earlier requests in the window have this timeout.
        if window.is_mixed:
            mux.deadlines.add(token, seconds, now)
        return future
