"""A subscription as its user sees it: messages on a subject, for one who asks or for a handler."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from time import monotonic
from typing import NamedTuple

from .checks import check_count, check_seconds
from .errors import (
    BadSubscriptionError,
    Error,
    ForkedError,
    MaxMessagesError,
    NextMsgTimeoutError,
    NoRespondersError,
    OptionError,
    SyncSubRequiredError,
)
from .message import Delivered, Msg, Publish, is_no_responders, to_wire
from .options import MAX_WAIT, check_max_msgs
from .pending import Overflow, Pending
from .protocol import check_queue, check_subscribe
from .waiter import Drive

__all__ = ["Home", "State", "SubStats", "Subscription", "check_limits", "gather"]


class State(Enum):
    """Names as in nats.go. SLOW_CONSUMER: messages are being dropped; CLOSED: none will come."""

    ACTIVE = "active"
    SLOW_CONSUMER = "slow consumer"
    DRAINING = "draining"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class SubStats:
    """Counts of one subscription at one moment: received = delivered + dropped + pending."""

    received: int
    delivered: int
    dropped: int
    pending_msgs: int
    pending_bytes: int


class Home(NamedTuple):
    """What a subscription needs of its client. `resume`: there is room again."""

    publish: Publish
    drive: Drive
    unsubscribe: Callable[[Subscription, int | None], None]
    drain: Callable[[Subscription, float], None]
    resume: Callable[[], None]


def check_limits(msgs: int, size: int) -> None:
    """Raises OptionError for pending limits that make no sense."""
    check_count(pending_msgs_limit=msgs, pending_bytes_limit=size)
    if not msgs or not size:
        raise OptionError("pending limit", "must not be 0; below 0 is no limit")


class Subscription:
    """Messages on a subject, for one who asks (`next_msg`, iteration, `messages`) or for a handler.

    Any number of threads may take messages from it; each message goes to one of them. `on_close` is told
    once why nothing more will come; it must not block.
    """

    def __init__(
        self,
        subject: str,
        queue: str,
        home: Home,
        limits: tuple[int, int],
        overflow: Overflow = Overflow.DROP_NEW,
        max_msgs: int | None = None,
        handled: bool = False,
        on_close: Callable[[Error], object] | None = None,
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = b""
        self.asked = ""
        self.wire_subject = to_wire(subject)
        self.wire_queue = to_wire(queue)
        check_subscribe(self.wire_subject)
        if queue:
            check_queue(self.wire_queue)
        self._pending = Pending(*limits, overflow, home.drive)
        self._pending.max_msgs = max_msgs
        self._home = home
        self._handled = handled
        self._on_close = on_close
        self._quiet = False
        self._draining = False

    @property
    def pending_msgs(self) -> int:
        """Messages that wait to be taken."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payloads that wait to be taken."""
        return self._pending.size

    @property
    def delivered(self) -> int:
        """Messages taken by `next_msg`, iteration or the handler."""
        return self._pending.delivered

    @property
    def dropped(self) -> int:
        """Messages that came and were never taken: over a limit, or pending when it was ended."""
        return self._pending.dropped

    @property
    def received(self) -> int:
        """Messages that came from the server."""
        return self._pending.received

    @property
    def stats(self) -> SubStats:
        """All counts at one moment."""
        pending = self._pending
        return SubStats(
            pending.received, pending.delivered, pending.dropped, len(pending), pending.size
        )

    @property
    def max_msgs(self) -> int | None:
        """The number of messages it ends with, if there is one."""
        return self._pending.max_msgs

    @property
    def received_before(self) -> int:
        """What of `received` came on connections before this one."""
        return self._pending.received_before

    @property
    def pending_limits(self) -> tuple[int, int]:
        """The most messages and bytes that may be pending; below 0 is no limit. May be set."""
        return self._pending.most, self._pending.most_bytes

    @pending_limits.setter
    def pending_limits(self, limits: tuple[int, int]) -> None:
        check_limits(*limits)
        self._pending.most, self._pending.most_bytes = limits
        self._home.resume()

    @property
    def closed(self) -> bool:
        """Whether nothing more will come; messages may still be pending."""
        return self._pending.end is not None

    @property
    def state(self) -> State:
        """What it is doing."""
        if self.closed:
            return State.CLOSED
        if self._draining:
            return State.DRAINING
        return State.SLOW_CONSUMER if self._pending.slow else State.ACTIVE

    def next_msg(self, timeout: float | None = None) -> Msg:
        """The next message; waits for it up to `timeout` seconds, or as long as it takes.

        Raises NextMsgTimeoutError; PermissionsViolationError if the server refused the subscription;
        and once nothing is pending and nothing can come any more BadSubscriptionError (unsubscribed),
        MaxMessagesError or ConnectionClosedError.
        """
        self._check_sync()
        if timeout is not None and timeout.__class__ is not float:
            check_seconds(timeout=timeout)
        frame = self._take(timeout)
        if frame is None:
            raise NextMsgTimeoutError(self.subject, timeout or 0.0)
        return Msg(frame, self._home.publish)

    def __iter__(self) -> Iterator[Msg]:
        """The messages as they come, until it is unsubscribed, has its `max_msgs`, or the client closes.

        Raises ConnectionClosedError if the connection is lost for good, PermissionsViolationError if refused.
        """
        self._check_sync()
        return self._messages()

    def messages(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Msg]:
        """The messages as they come, until none came for `timeout` seconds or `limit` were given; else as
        iteration."""
        self._check_sync()
        check_seconds(timeout=0 if timeout is None else timeout)
        check_count(limit=0 if limit is None else limit)
        return self._messages(timeout=timeout, limit=limit)

    def unsubscribe(self, max_msgs: int | None = None) -> None:
        """Ends it now, dropping what is pending; or once `max_msgs` have come since it began.

        Does nothing where it has ended.
        """
        check_max_msgs(max_msgs)
        if not self.closed:
            self._home.unsubscribe(self, max_msgs)

    def drain(self, timeout: float = 30.0) -> None:
        """Ends it, and returns when everything that had come was taken, and handled.

        Raises DrainTimeoutError where that takes longer than `timeout` seconds; then what is left is dropped.
        Called by its own handler, it does not wait for that one.
        """
        check_seconds(timeout=timeout)
        self._draining = True
        self._home.drain(self, timeout)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def handle(self, call: Callable[[Msg, object], None]) -> None:
        """Calls `call` with each message and a token until the end; `handled` is due for each token. For
        the thread that runs the handler."""
        me = threading.get_ident()
        for frame in self._frames(False, thread=me):
            call(Msg(frame, self._home.publish), frame)

    def handled(self, token: object) -> None:
        """The handler has returned."""
        self._pending.finish(token)

    def wait_idle(self, until: float) -> int:
        """Waits for everything to be taken and handled; how many messages are not at the time `until`."""
        return self._pending.wait_idle(until)

    @property
    def is_full(self) -> bool:
        """Whether the connection has to wait for room here."""
        return self._pending.is_full

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Takes messages in. Returns how many were dropped so far if an episode of dropping begins."""
        return self._pending.put(frames)

    def limit(self, max_msgs: int) -> bool:
        """Says that it ends with so many messages in all; whether any of them are still to come."""
        return self._pending.limit(max_msgs)

    def renew(self) -> None:
        """Another connection is told of this subscription: what the server refused before may work now."""
        self._pending.renew()

    def refuse(self, error: Error) -> None:
        """Tells those who wait that the server refused the subscription."""
        self._pending.refuse(error)

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Nothing will come any more, for the reason `error`. The first call counts.

        With `discard` pending messages are dropped; unless `quiet`, iteration raises `error`.
        """
        if not self.closed:
            self._quiet = quiet
        if self._pending.close(error, discard) and self._on_close:
            self._on_close(error)

    def abandon(self) -> None:
        """Ends it in a forked child, whatever state a thread that is not there left it in."""
        self._pending = Pending(*self.pending_limits, self._pending.overflow, self._home.drive)
        self._pending.close(ForkedError(), discard=True)

    def _messages(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Msg]:
        for frame in self._frames(True, timeout, limit):
            yield Msg(frame, self._home.publish)

    def _frames(
        self,
        refusal: bool,
        timeout: float | None = None,
        limit: int | None = None,
        thread: int | None = None,
    ) -> Iterator[Delivered]:
        given = 0
        while limit is None or given < limit:
            try:
                frame = self._take(timeout, refusal, thread)
            except Error as error:
                if self._quiet or isinstance(error, BadSubscriptionError) or not refusal:
                    return
                raise
            if frame is None:
                return
            given += 1
            yield frame

    def _take(
        self, timeout: float | None, refusal: bool = True, thread: int | None = None
    ) -> Delivered | None:
        frame = self._pending.next(thread)  # before any look at the clock
        while frame is None:
            until = monotonic() + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
            frame = self._pending.take(until, refusal, thread)
            if timeout is not None:
                break
        if self._pending.overflow is Overflow.BLOCK:
            self._home.resume()
        return frame

    def _check_sync(self) -> None:
        if self._handled:
            raise SyncSubRequiredError(self.subject)

    def __repr__(self) -> str:
        queue = f", queue={self.queue!r}" if self.queue else ""
        return f"Subscription({self.subject!r}{queue}, {self.pending_msgs} pending)"


def gather(
    subject: str,
    sub: Subscription,
    until: float,
    stall: float | None,
    sentinel: Callable[[Msg], bool] | None,
) -> Iterator[Msg]:
    """The replies to a request on `subject` that come to `sub`, up to the time `until`: see request_many."""
    with sub:
        wait = until - monotonic()
        while True:
            try:
                msg = sub.next_msg(max(0.0, wait))
            except (NextMsgTimeoutError, MaxMessagesError):
                return
            if is_no_responders(msg):
                raise NoRespondersError(subject)
            if sentinel and sentinel(msg):
                return
            yield msg
            wait = until - monotonic()
            if stall is not None:
                wait = min(wait, stall)
