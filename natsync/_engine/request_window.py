"""Request windows: many requests in flight from callers that do not wait for each, up to a limit.

The thread that reads a reply sets the result of the future and frees its place in the window: there is no
hand-over to the callback thread.
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

__all__ = ["Ask", "InFlight", "Late", "RequestWindow"]

_T = TypeVar("_T")
_Result = TypeVar("_Result", contravariant=True)
_NEVER = float("inf")


class Late(Protocol):
    """A request that is too late: its subject and timeout, and the last token of its reply subject."""

    subject: str
    seconds: float
    token: bytes


class InFlight(Late, Protocol[_Result]):
    """A request that is too late after `due`."""

    due: float

    def finish(self, outcome: _Result | Exception, /) -> None: ...


class Ask(Protocol[_T]):
    """Sends a request of a window."""

    def __call__(
        self,
        subject: str,
        data: Data,
        headers: HeadersLike | None,
        timeout: float | None | Default,
        /,
    ) -> Future[_T]: ...


class RequestWindow(Generic[_T]):
    """Requests in flight, at most `most` of them. Any thread may call any method.

    Made by `Client.open_window`.
    """

    def __init__(self, most: int, drive: Drive, wake: Callable[[], object]) -> None:
        self.most = most
        self._drive = drive
        self._wake = wake
        self.futures: dict[bytes, InFlight[_T]] = {}
        """The requests in flight by token, changed by single operations, which are atomic. Requests with
        the same timeout are in the order of `InFlight.due`, except those that two threads add at the same
        moment; so no lock is needed."""
        self.timeout: float | None = None
        """The timeout of the first request."""
        self.is_mixed = False
        """Whether there has been another timeout. From then on the deadline of each request is also in
        `ReplyMux.deadlines`, since it may be earlier than that of the first in the window."""
        self._first_timeout: dict[str, float] = {}  # one key: `setdefault` is atomic
        # Callers are woken when the window is half empty: otherwise each reply would wake one.
        self.half = most // 2
        self.room = Turns()
        """Threads that wait until no more than `half` of the requests are in flight."""
        self.empty = Turns()
        """Threads that wait until no request is in flight."""

    def begin(self, ask: Ask[_T]) -> None:
        """Sets the function that sends a request."""
        self.ask = ask
        """Sends a request at once. For callers that have waited for room themselves."""

    @property
    def in_flight(self) -> int:
        """The number of requests that have neither a reply nor an error."""
        return len(self.futures)

    def request(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> Future[_T]:
        """Sends a request and returns its future, as `Client.request_async` does.

        If the window is full, it waits until half of the requests in it have ended; each of them ends at
        its own `timeout` at the latest.
        """
        if len(self.futures) >= self.most:
            self.wait_for_room(MAX_WAIT)
        return self.ask(subject, data, headers, timeout)

    def wait_for_room(self, timeout: float) -> bool:
        """If the window is full, waits until half of the requests in it have ended; returns whether it has
        room within `timeout` seconds."""
        if len(self.futures) < self.most:
            return True
        return self._wait(self.room, lambda: len(self.futures) <= self.half, timeout)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until no request is in flight; returns whether that is so within `timeout` seconds."""
        return self._wait(self.empty, lambda: not self.futures, wait_time(timeout))

    def finish(self, future: InFlight[_T], outcome: _T | Exception) -> None:
        """Ends a future that was rescued, on any thread; wakes the driver, which may be waiting for it."""
        future.finish(outcome)
        self._wake()

    def note_timeout(self, seconds: float) -> None:
        """Notes the timeout of a request, which may differ from earlier ones. Called before it is added."""
        self.timeout = self._first_timeout.setdefault("", seconds)
        if seconds != self.timeout:
            self.is_mixed = True

    # For the thread that ends a request.

    def leave(self, token: bytes) -> None:
        """Frees the place of a request that has ended."""
        self.futures.pop(token, None)
        # Read after the removal; a thread that waits registers before it checks the number in flight.
        if self.room.waiting and len(self.futures) <= self.half:
            self.room.wake()
        if self.empty.waiting and not self.futures:
            self.empty.wake()

    def first_due(self) -> float:
        """Returns the time at which `late` returns a request; where timeouts differ, another one may be due
        earlier."""
        first = self._first()
        return first.due if first else _NEVER

    def late(self, now: float) -> InFlight[_T] | None:
        """Returns the first request that is too late."""
        first = self._first()
        return first if first and first.due <= now else None

    def _first(self) -> InFlight[_T] | None:
        while True:
            try:
                for future in self.futures.values():
                    return future
                return None
            except RuntimeError:  # without a GIL: another thread has added one meanwhile
                pass

    def _wait(self, turns: Turns, done: Callable[[], bool], timeout: float) -> bool:
        until = deadline_after(timeout)
        self._drive(done, until)
        return turns.wait(done, until)
