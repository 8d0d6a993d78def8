"""Request windows: many requests in flight from callers that do not wait for each, up to a limit.

A future of a window costs no hand-over to the callback thread: its result is set, and its place in the
window is freed, by the thread that reads the reply.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from ..headers import HeadersLike
from ..message import Data
from ..options import DEFAULT, MAX_WAIT, Default, wait_time
from .waiter import Drive, Turns, deadline_after

if TYPE_CHECKING:
    from concurrent.futures import Future

    from .futures import ReplyFuture

__all__ = ["Ask", "RequestWindow"]

_T = TypeVar("_T")


class Ask(Protocol[_T]):
    """Sends a request of a window."""

    def __call__(
        self,
        subject: str,
        data: Data,
        *,
        headers: HeadersLike | None,
        timeout: float | None | Default,
    ) -> Future[_T]: ...


class RequestWindow(Generic[_T]):
    """Requests in flight, at most `most` of them. Any thread may call anything.

    Made by `Client.open_window`.
    """

    def __init__(self, most: int, drive: Drive, wake: Callable[[], object]) -> None:
        self.most = most
        self._drive = drive
        self._wake = wake
        self.tokens: dict[bytes, None] = {}
        """Those of requests in flight, in single operations, which are atomic."""
        self._turns = Turns()

    def begin(self, ask: Ask[_T]) -> None:
        """Sets the function that sends a request."""
        self.ask = ask
        """Sends a request at once, for callers that have seen to it themselves that there is room."""

    @property
    def in_flight(self) -> int:
        """The number of requests that have neither a reply nor an error."""
        return len(self.tokens)

    def request(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> Future[_T]:
        """Sends a request and returns its future, as `Client.request_async` does.

        While the window is full it waits, until half of the requests in it have ended; each of them ends at
        its own `timeout` at the latest.
        """
        if len(self.tokens) >= self.most:
            self.wait_for_room(MAX_WAIT)
        return self.ask(subject, data, headers=headers, timeout=timeout)

    def wait_for_room(self, timeout: float) -> bool:
        """Waits while the window is full, until half of the requests in it have ended; returns whether it has
        room within `timeout` seconds."""
        return len(self.tokens) < self.most or self._wait(self._has_room, timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until no request is in flight; returns whether that is so within `timeout` seconds."""
        return self._wait(self._is_empty, wait_time(timeout))

    def finish(self, future: ReplyFuture[_T], outcome: _T | Exception) -> None:
        """Ends a future that was rescued, on any thread; wakes the one that may drive, waiting for it."""
        future.finish(outcome)
        self._wake()

    def left(self, token: bytes) -> None:
        """A request has ended. For the thread that ends it."""
        self.tokens.pop(token, None)
        if self._turns.waiting and self._has_room():  # after the change; who waits does it before
            self._turns.wake()

    def _has_room(self) -> bool:
        # Half: one caller that is woken for each reply would be woken as often as there are replies.
        return len(self.tokens) <= self.most // 2

    def _is_empty(self) -> bool:
        return not self.tokens

    def _wait(self, done: Callable[[], bool], timeout: float) -> bool:
        until = deadline_after(timeout)
        self._drive(done, until)
        return self._turns.wait(done, until)
