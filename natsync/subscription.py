"""`Subscription`: messages on a subject, for callers who ask for them or for a handler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from time import monotonic

from ._checks import check_count, check_seconds
from ._engine.reply_stream import ReplyStream
from ._engine.sink import SubscriptionSink
from .errors import (
    NextMsgTimeoutError,
    NoRespondersError,
    OptionError,
    SyncSubRequiredError,
)
from .message import Msg, ReceivedMsg, is_no_responders
from .options import check_max_msgs

__all__ = ["Replies", "State", "SubStats", "Subscription", "check_limits"]


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


def check_limits(msgs: int, size: int) -> None:
    """Raises OptionError for pending limits that make no sense."""
    check_count(pending_msgs_limit=msgs, pending_bytes_limit=size)
    if not msgs or not size:
        raise OptionError("pending limit", "must not be 0; below 0 is no limit")


class Subscription:
    """Messages on a subject, for callers who ask (`next_msg`, iteration, `messages`) or for a handler.

    Made by `Client.subscribe`. Any number of threads may take messages from it; each message goes to one
    of them.
    """

    def __init__(self, sink: SubscriptionSink, handled: bool = False) -> None:
        self._sink = sink
        self._handled = handled

    @property
    def subject(self) -> str:
        """The subject subscribed to, wildcards included."""
        return self._sink.subject

    @property
    def queue(self) -> str:
        """The queue group; empty where it is in none."""
        return self._sink.queue

    @property
    def pending_msgs(self) -> int:
        """Messages that wait to be taken."""
        return len(self._sink.pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payloads that wait to be taken."""
        return self._sink.pending.size

    @property
    def delivered(self) -> int:
        """Messages taken by `next_msg`, iteration or the handler."""
        return self._sink.pending.delivered

    @property
    def dropped(self) -> int:
        """Messages that came and were never taken: over a limit, or pending when it was ended."""
        return self._sink.pending.dropped

    @property
    def received(self) -> int:
        """Messages that came from the server."""
        return self._sink.pending.received

    @property
    def stats(self) -> SubStats:
        """All counts at one moment."""
        pending = self._sink.pending
        return SubStats(
            pending.received, pending.delivered, pending.dropped, len(pending), pending.size
        )

    @property
    def max_msgs(self) -> int | None:
        """The number of messages it ends with, if there is one."""
        return self._sink.max_msgs

    @property
    def pending_limits(self) -> tuple[int, int]:
        """The most messages and bytes that may be pending; below 0 is no limit. May be set."""
        return self._sink.pending.most, self._sink.pending.most_bytes

    @pending_limits.setter
    def pending_limits(self, limits: tuple[int, int]) -> None:
        check_limits(*limits)
        self._sink.pending.most, self._sink.pending.most_bytes = limits
        self._sink.host.resume()

    @property
    def closed(self) -> bool:
        """Whether nothing more will come; messages may still be pending."""
        return self._sink.closed

    @property
    def state(self) -> State:
        """What it is doing."""
        if self.closed:
            return State.CLOSED
        if self._sink.draining:
            return State.DRAINING
        return State.SLOW_CONSUMER if self._sink.pending.slow else State.ACTIVE

    def next_msg(self, timeout: float | None = None) -> Msg:
        """The next message; waits for it up to `timeout` seconds, or as long as it takes.

        Raises NextMsgTimeoutError; PermissionsViolationError if the server refused the subscription;
        and once nothing is pending and nothing can come any more BadSubscriptionError (unsubscribed),
        MaxMessagesError or ConnectionClosedError.
        """
        self._check_sync()
        if timeout is not None and (timeout.__class__ is not float or timeout != timeout):
            check_seconds(timeout=timeout)
        frame = self._sink.take(timeout)
        if frame is None:
            raise NextMsgTimeoutError(self.subject, timeout or 0.0)
        return ReceivedMsg(frame, self._sink.host.publish)

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
        return self._messages(timeout, limit)

    def unsubscribe(self, max_msgs: int | None = None) -> None:
        """Ends it now, dropping what is pending; or once `max_msgs` have come since it began.

        Does nothing where it has ended.
        """
        check_max_msgs(max_msgs)
        if not self.closed:
            self._sink.host.unsubscribe(self._sink, max_msgs)

    def drain(self, timeout: float = 30.0) -> None:
        """Ends it, so that nothing is lost of what the server has sent before; then `on_close` is called.

        Without a handler, pending messages stay to be taken, and iteration ends after them. With one, it
        returns when all are handled; raises DrainTimeoutError where that takes longer than `timeout`
        seconds, and drops what is left then. Called by its own handler, it does not wait for that one.
        """
        check_seconds(timeout=timeout)
        self._sink.draining = True
        self._sink.host.drain(self._sink, timeout)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def _messages(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Msg]:
        for frame in self._sink.frames(timeout, limit):
            yield ReceivedMsg(frame, self._sink.host.publish)

    def _check_sync(self) -> None:
        if self._handled:
            raise SyncSubRequiredError(self.subject)

    def __repr__(self) -> str:
        queue = f", queue={self.queue!r}" if self.queue else ""
        return f"Subscription({self.subject!r}{queue}, {self.pending_msgs} pending)"


class Replies:
    """The replies to one request, from any number of responders, as they come: see `Client.request_many`.

    An iterator. Later replies are dropped after `close`, the end of the iteration or of a `with` block, and
    when the iterator itself is dropped.
    """

    def __init__(
        self,
        stream: ReplyStream,
        until: float,
        max_msgs: int | None,
        stall: float | None,
        sentinel: Callable[[Msg], bool] | None,
    ) -> None:
        self._stream = stream
        self._until = until
        self._left = max_msgs
        self._stall = stall
        self._sentinel = sentinel
        self._stalled_at = until
        self._over = False

    def __iter__(self) -> Replies:
        return self

    def __next__(self) -> Msg:
        if self._over:
            raise StopIteration
        try:
            return self._next()
        except BaseException:
            self.close()
            raise

    def _next(self) -> Msg:
        msg = None
        if self._left != 0:
            msg = self._stream.next(max(0.0, self._stalled_at - monotonic()))
        if msg is None:
            raise StopIteration
        if is_no_responders(msg):
            raise NoRespondersError(self._stream.subject)
        if self._sentinel and self._sentinel(msg):
            raise StopIteration
        if self._stall is not None:
            self._stalled_at = min(self._until, monotonic() + self._stall)
        if self._left is not None:
            self._left -= 1
        return msg

    def close(self) -> None:
        """Ends the iteration; later replies are dropped."""
        self._over = True
        self._stream.close()

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()
