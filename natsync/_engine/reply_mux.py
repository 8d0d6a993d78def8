"""The reply mux: one wildcard inbox for all requests of a connection, and the threads that wait for
replies.

A reply subject is the prefix of the inbox followed by a token. Only the first reply to a request counts;
later ones, and replies to requests that were given up, are dropped, as in every NATS client.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count, groupby
from os import urandom
from typing import TYPE_CHECKING, Protocol
from weakref import ref

from .._checks import plain
from ..errors import (
    ConnectionReconnectingError,
    Error,
    ForkedError,
    PermissionsViolationError,
    RequestTimeoutError,
    fresh,
)
from ..headers import to_text, to_wire
from ..message import Delivered
from .deadlines import Deadlines
from .reply_stream import ReplyStream, StreamHost
from .seat import Waiter
from .waiter import Drive, StateLock

if TYPE_CHECKING:
    from .request_window import Late

__all__ = ["ReplyMux", "new_inbox"]

_NOTHING = (None,)
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ID_LENGTH = 22


def new_inbox(prefix: str) -> str:
    """Returns a unique subject: `prefix` and 22 base62 characters, as other clients make them (NUID).

    Every character is random (130 bits in all), whereas nats.go appends a counter to a random prefix, which
    would gain nothing here: few inboxes are made. So nobody can guess the next one.
    """
    # 45 bits more than 62 ** 22 has, so that the remainder is as good as uniform
    number = int.from_bytes(urandom(_ID_LENGTH), "big")
    digits = [_DIGITS[number // 62**place % 62] for place in range(_ID_LENGTH)]
    return f"{plain(prefix)}.{''.join(digits)}"


class Answer(Protocol):
    """Waits for one reply to a request on `subject`; one of its two methods is called, once."""

    subject: str

    def settle(self, value: Delivered, /) -> None: ...
    def fail(self, error: Error) -> None: ...


class Window(Protocol):
    """Requests whose deadlines the window itself keeps; see `RequestWindow`."""

    def first_due(self) -> float: ...
    def late(self, now: float) -> Late | None: ...
    def leave(self, token: bytes) -> None: ...


class ReplyMux:
    """The requests that wait for a reply. Any thread may call any method, unless its docstring says
    otherwise. Single dictionary operations, which are atomic, replace a lock."""

    has_handler = False
    max_msgs = None
    received = received_before = 0  # not counted, as there is no limit
    is_full = False

    def __init__(
        self,
        prefix: str,
        drive: Drive,
        waiter: Callable[[str], Waiter[Delivered]],
        wake: Callable[[], object],
    ) -> None:
        self.wake = wake
        self.drive = drive
        self._waiter = waiter
        self.subject = new_inbox(prefix) + ".*"
        self.queue = ""
        self.sid = b""
        self.wire_subject = to_wire(self.subject)
        self.wire_queue = b""
        self.numbers = count(1)
        """The numbers of which tokens are made."""
        self.wire_prefix = self.wire_subject[:-1]
        """The reply subject of a request is this prefix followed by its token."""
        self._start = len(self.wire_prefix)
        # Not tuples as values: the garbage collector would examine each of them again and again.
        self.waiting: dict[bytes, Answer] = {}
        """The requests by their tokens."""
        self._streams: dict[bytes, ReplyStream] = {}
        self._at_hand: Answer | None = None  # the request whose reply is being settled
        # The offset, in the stream of this connection, of the last reply whose request was looked up.
        self._offset = 0
        self._failing: Answer | None = None  # taken out to fail with `_reason`
        self._reason: Error
        self.is_repeatable = True
        """Whether messages whose delivery was interrupted may be delivered again."""

        self.deadlines = Deadlines()
        self._windows: dict[ref[Window], None] = {}
        """Windows that keep the deadlines of most of their requests themselves."""

        self.is_timed = False
        """Whether there may be a `deadline`."""

        self._end: Error | None = None
        self.refused: Error | None = None
        """The error that the server refused the inbox with."""

    def open(self, subject: str) -> tuple[bytes, Waiter[Delivered]]:
        """Returns the token of a request on `subject`, and the waiter for its reply.

        Raises the error with which the server refused the inbox, and ReentrantCallError. `close` must
        follow, unless there is a reply.
        """
        waiter = self._waiter(subject)
        token = b"%x" % next(self.numbers)
        if self.refused:
            raise fresh(self.refused)
        self.waiting[token] = waiter
        return token, waiter

    def add_window(self, window: Window) -> None:
        """Makes the requests of `window` fail at their deadlines, for as long as it exists."""
        self.is_timed = True
        self._windows[ref(window, self._forget_window)] = None

    def _forget_window(self, gone: ref[Window]) -> None:
        self._windows.pop(gone, None)

    def _open_windows(self) -> Iterator[Window]:
        for each in self._windows.copy():
            if window := each():
                yield window

    def open_stream(self, subject: str, host: StreamHost, limited: bool = True) -> ReplyStream:
        """Returns a stream for the replies to requests on `subject`; `host.forget` must be `close_stream`.

        Raises the error with which the server refused the inbox.
        """
        token = b"%x" % next(self.numbers)
        stream = ReplyStream(subject, to_text(self.wire_prefix + token), token, host, limited)
        if self.refused:
            raise fresh(self.refused)
        self.is_repeatable = False  # a stream would get a message twice
        self._streams[token] = stream
        return stream

    def close_stream(self, token: bytes) -> None:
        """Forgets the stream with this token: replies that still arrive for it are dropped."""
        self._streams.pop(token, None)

    def close(self, token: bytes) -> bool:
        """Gives up the request with this token; returns whether it was still waiting."""
        return self.waiting.pop(token, None) is not None

    @property
    def deadline(self) -> float:
        """The time at which `expire` has something to do."""
        if self._failing:
            return 0.0
        due = self.deadlines.next(self.waiting.__contains__)
        for window in self._open_windows():
            due = min(due, window.first_due())
        return due

    def expire(self, now: float, outage: str = "") -> None:
        """Fails the requests that are too late; `outage` says why there is no connection. For the
        driver."""
        self._fail_interrupted()
        while late := self.deadlines.late(now, self.waiting.__contains__):
            token, timeout = late
            found = self.waiting.get(token)
            if found:
                self._fail(token, RequestTimeoutError(found.subject, timeout, outage))
        for window in self._open_windows():
            while future := window.late(now):
                self._fail(
                    future.token, RequestTimeoutError(future.subject, future.seconds, outage)
                )
                window.leave(future.token)  # also one that is just being cancelled

    def is_taken_here(self) -> bool:
        """Returns False: replies are taken as they arrive."""
        return False

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Passes replies to their requests. For the driver. Returns 0, the number of dropped messages."""
        if 0 < frames[0].offset <= self._offset:
            frames = self._left_over(frames)
        if self._streams:
            frames = self._deliver_streams(frames)
        waiting, start = self.waiting, self._start
        for frame in frames:
            try:
                token = frame.subject[start:]
                # No call between these three steps, so that no interrupt comes in between.
                self._at_hand = waiting[token]
                self._offset = frame.offset
                del waiting[token]
            except KeyError:
                token = self._strange(frame.subject)
                # As above: `map` calls `pop` from C.
                for self._at_hand in map(waiting.pop, (token,), _NOTHING):
                    self._offset = frame.offset
            if self._at_hand:
                self._at_hand.settle(frame)
        self._at_hand = None
        return 0

    def _left_over(self, frames: Sequence[Delivered]) -> Sequence[Delivered]:
        """Continues an interrupted delivery: settles the reply that was being settled, perhaps once more, and
        returns the `frames` after it."""
        if self._at_hand:
            for frame in frames:
                if frame.offset == self._offset:
                    self._at_hand.settle(frame)
        return [frame for frame in frames if frame.offset > self._offset]

    def _deliver_streams(self, frames: Sequence[Delivered]) -> Sequence[Delivered]:
        """Hands replies to their streams; returns the others."""
        others: list[Delivered] = []
        start = self._start
        for token, run in groupby(frames, key=lambda frame: frame.subject[start:]):
            stream = self._streams.get(token)
            if stream is None:
                others += run
            elif stream.settle([*run]):
                self.close_stream(token)
        return others

    def deny(self, error: PermissionsViolationError) -> None:
        """Fails the requests on the subject that the server has refused."""
        for token, stream in [*self._streams.copy().items()]:
            if stream.subject == error.subject:
                self._end_stream(token, error)
        for token, answer in self.waiting.copy().items():
            if answer.subject == error.subject:
                self._fail(token, error)

    def refuse(self, error: Error) -> None:
        """Fails every request, now and later, since the server refused the inbox."""
        self.refused = error
        self._fail_all(error)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Fails every request that was sent on a lost connection, since its reply cannot arrive; also
        the one whose reply was being settled when an interrupt came."""
        at_hand, self._at_hand, self._offset = self._at_hand, None, 0
        if at_hand:
            at_hand.fail(error)
        self._fail_all(error)

    def resubscribed(self) -> None:
        """Forgets the refusal: another server may accept the inbox."""
        self.refused = None

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Fails every request; the connection accepts no more of them."""
        self._fail_all(error)

    def _strange(self, subject: bytes) -> bytes:
        """Returns the token of the request that a message on a foreign subject answers, if any."""
        # An account import may rewrite the subject; with one request there is no doubt (nats.go: respToken).
        if len(self.waiting) == 1 and not subject.startswith(self.wire_prefix):
            return next(iter(self.waiting.copy()), b"")
        return b""

    def _fail(self, token: bytes, error: Error) -> None:
        self._reason = error
        # `map` calls `pop` from C, so that no interrupt comes between these steps.
        for self._failing in map(self.waiting.pop, (token,), _NOTHING):
            pass
        self._fail_interrupted()

    def _fail_interrupted(self) -> None:
        """Fails the request that was taken out to fail, perhaps before an interrupt."""
        if self._failing:
            self._failing.fail(self._reason)
            self._failing = None

    def _fail_all(self, error: Error) -> None:
        self._fail_interrupted()
        for token in self.waiting.copy():
            self._fail(token, error)
        for token in self._streams.copy():
            self._end_stream(token, error)

    def _end_stream(self, token: bytes, error: Error) -> None:
        # Removed last: an interrupt in between must not leave its reader waiting for ever.
        stream = self._streams.get(token)
        if stream:
            stream.fail(error)
            self.close_stream(token)

    def abandon(self, lock: StateLock) -> None:
        """Ends the streams in a forked child, and refuses requests."""
        self.refused = ForkedError()
        for stream in self._streams.values():
            stream.abandon(lock)
