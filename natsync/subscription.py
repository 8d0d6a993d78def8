"""`Subscription` and `Replies`: messages as the program takes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from time import monotonic
from typing import NamedTuple, NoReturn

from ._checks import check_count, check_seconds
from ._engine.forks import notice_fork, same_process
from ._engine.reply_stream import ReplyStream
from ._engine.sink import SubscriptionSink
from ._finalizers import before_exit
from .errors import (
    BadSubscriptionError,
    ConnectionReconnectingError,
    Error,
    ForkedError,
    NextMsgTimeoutError,
    NoRespondersError,
    OptionError,
    SyncSubRequiredError,
)
from .message import Msg, ReceivedMsg, is_no_responders
from .options import DRAIN_TIMEOUT, check_max_msgs, wait_time

__all__ = ["Replies", "State", "SubStats", "Subscription", "check_limits", "drain_all"]


class State(Enum):
    """The state of a subscription; the names are those of nats.go. SLOW_CONSUMER: messages are being
    dropped. CLOSED: no more messages will arrive; some may still be pending."""

    ACTIVE = "active"
    SLOW_CONSUMER = "slow consumer"
    DRAINING = "draining"
    CLOSED = "closed"


class SubStats(NamedTuple):
    """Counts of one subscription at one moment: `received` is the sum of `delivered`, `dropped` and
    `pending_msgs`."""

    received: int
    delivered: int
    dropped: int
    pending_msgs: int
    pending_bytes: int


def drain_all(subs: Sequence[Subscription], timeout: float | None) -> None:
    """Drains subscriptions of one connection together: they share the `timeout` of `Subscription.drain`."""
    seconds = wait_time(timeout)
    sinks = [sub._sink for sub in subs]
    for sink in sinks:
        if isinstance(sink.pending.end, ForkedError):  # there is no connection to drain it
            raise ForkedError()
        sink.draining = True
    if sinks:
        sinks[0].host.drain(sinks, seconds)


def check_limits(msgs: int, size: int) -> None:
    """Raises OptionError for invalid pending limits."""
    check_count(pending_msgs_limit=msgs, pending_bytes_limit=size)
    if not msgs or not size:
        raise OptionError("pending limit", "must not be 0; below 0 is no limit")


class Subscription:
    """A subscription, whose messages go to a handler or are taken with `next_msg`, `messages` or iteration.

    Made by `Client.subscribe`. Any number of threads may take messages; each message goes to one of them.
    """

    def __init__(self, sink: SubscriptionSink) -> None:
        self._own_sink = sink
        # For packages that have their own message class: takes the next message as `next_msg` does, but
        # returns its frame, or None if there is none now; waits for one; moves all frames that have arrived
        # to `_at_hand`; returns the frames that wait, and the number of those received and not dropped.
        self._poll, self._wait = sink.poll, sink.wait
        self._gather, self._at_hand = sink.gather, sink.pending.at_hand
        self._waiting = sink.pending.waiting

    @property
    def _sink(self) -> SubscriptionSink:
        if not same_process[0]:
            notice_fork()
        return self._own_sink

    def __reduce__(self) -> NoReturn:
        raise TypeError("a subscription cannot be pickled or copied: subscribe in each process")

    @property
    def subject(self) -> str:
        """The subject, which may contain wildcards."""
        return self._sink.subject

    @property
    def queue(self) -> str:
        """The queue group, or an empty text."""
        return self._sink.queue

    @property
    def pending_msgs(self) -> int:
        """The number of messages that wait to be taken."""
        return len(self._sink.pending)

    @property
    def pending_bytes(self) -> int:
        """The bytes of headers and payloads that wait to be taken."""
        return self._sink.pending.size

    @property
    def delivered(self) -> int:
        """The number of messages that `next_msg`, iteration or the handler have taken."""
        return self._sink.pending.delivered

    @property
    def dropped(self) -> int:
        """The number of messages that arrived but were never taken: over a limit, or pending at the end."""
        return self._sink.pending.dropped

    @property
    def received(self) -> int:
        """The number of messages that have arrived from the server."""
        return self._sink.pending.received

    @property
    def stats(self) -> SubStats:
        """All counts at one moment."""
        return SubStats(*self._sink.pending.counts())

    @property
    def max_msgs(self) -> int | None:
        """The number of messages after which the subscription ends, or None."""
        return self._sink.max_msgs

    @property
    def pending_msgs_limit(self) -> int:
        """The number of messages that may be pending; below 0 means no limit. May be set."""
        return self._sink.pending.most

    @pending_msgs_limit.setter
    def pending_msgs_limit(self, limit: int) -> None:
        check_limits(limit, self.pending_bytes_limit)
        self._sink.pending.most = limit
        self._sink.host.resume()

    @property
    def pending_bytes_limit(self) -> int:
        """The number of bytes that may be pending; below 0 means no limit. May be set."""
        return self._sink.pending.most_bytes

    @pending_bytes_limit.setter
    def pending_bytes_limit(self, limit: int) -> None:
        check_limits(self.pending_msgs_limit, limit)
        self._sink.pending.most_bytes = limit
        self._sink.host.resume()

    @property
    def closed(self) -> bool:
        """Whether the subscription has ended; messages may still be pending."""
        return self._sink.closed

    @property
    def state(self) -> State:
        """The state of the subscription."""
        if self.closed:
            return State.CLOSED
        if self._sink.draining:
            return State.DRAINING
        return State.SLOW_CONSUMER if self._sink.pending.slow else State.ACTIVE

    def next_msg(self, timeout: float | None = None) -> Msg:
        """Returns the next message; waits for it up to `timeout` seconds, or for ever.

        Raises NextMsgTimeoutError, and PermissionsViolationError if the server refused the subscription.
        After the last message of a subscription that has ended it raises BadSubscriptionError
        (unsubscribed), MaxMessagesError or ConnectionClosedError; ReentrantCallError from a signal handler
        that has interrupted this client; SyncSubRequiredError if there is a handler.
        """
        sink = self._own_sink
        if sink.has_handler:
            raise SyncSubRequiredError(self.subject)
        if timeout is not None:
            timeout = wait_time(timeout)
        frame = sink.take(timeout)
        if frame is None:
            raise NextMsgTimeoutError(self.subject, timeout or 0.0)
        return ReceivedMsg(frame, sink.host.respond)

    def __iter__(self) -> Iterator[Msg]:
        """Yields messages until the subscription is unsubscribed or has had `max_msgs` messages, or the
        client is closed.

        Raises ConnectionClosedError if the connection is lost for good, PermissionsViolationError if the
        server refused the subscription.
        """
        self._check_sync()
        return self._messages()

    def messages(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Msg]:
        """Yields messages as iteration does, and ends when none arrives for `timeout` seconds, or after
        `limit` messages."""
        self._check_sync()
        check_seconds(timeout=0 if timeout is None else timeout)
        check_count(limit=0 if limit is None else limit)
        return self._messages(timeout, limit)

    def _when_arrived(self, call: Callable[[], None]) -> None:
        """Sets `call`, which is called when messages have arrived, on the thread that delivers them; it must
        not wait. For packages that note the time."""
        self._sink.arrived = call

    def _when_ended(self, call: Callable[[Error], object]) -> None:
        """Sets `call`, which is called once with the reason why no more messages will arrive; it must not
        wait."""
        self._sink.on_close = call

    @property
    def _accepted(self) -> int:
        """The number of messages that have arrived and were not dropped: `received` without `dropped`."""
        return self._sink.pending.received - self._sink.pending.dropped

    def _ask(self, subject: str, data: bytes) -> None:
        """Publishes a request on `subject` whose replies come to this subscription. Requests are not kept for
        the next connection: `on_outage` tells the caller to send them again. For packages whose requests are
        void after an outage."""
        self._sink.host.ask(self._sink, subject, data)

    def _expect(self, subject: str) -> None:
        """Notes that replies to messages on `subject` come to this subscription: `next_msg` raises
        PermissionsViolationError if the server refuses one. For packages that publish requests with a reply
        subject."""
        self._sink.begin_request(subject)

    def unsubscribe(self, max_msgs: int | None = None) -> None:
        """Ends the subscription at once and drops pending messages; or, with `max_msgs`, when it has
        received that many messages since it began.

        Does nothing if the subscription has ended.
        """
        check_max_msgs(max_msgs)
        if not self.closed:
            self._sink.host.unsubscribe(self._sink, max_msgs)

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> None:
        """Ends the subscription without losing messages that the server has already sent.

        With a handler, it returns when all messages are handled; if that takes longer than `timeout`
        seconds, it drops the rest and raises DrainTimeoutError. It does not wait for a handler that calls
        it. Without a handler, pending messages can still be taken, and iteration ends after them.
        Raises ForkedError for a subscription of the parent process.
        """
        drain_all([self], timeout)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def _messages(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Msg]:
        for frame in self._sink.frames(timeout, limit):
            yield ReceivedMsg(frame, self._sink.host.respond)

    def _check_sync(self) -> None:
        if self._own_sink.has_handler:
            raise SyncSubRequiredError(self.subject)

    def __repr__(self) -> str:
        queue = f", queue={self.queue!r}" if self.queue else ""
        return f"Subscription({self.subject!r}{queue}, {self.pending_msgs} pending)"


class Replies:
    """An iterator over the replies of any number of responders to one request: see `Client.request_many`.

    Replies are dropped if they arrive after `close`, after the end of the iteration or of a `with`
    block, or after the garbage collector has freed the iterator.
    """

    def __init__(
        self,
        stream: ReplyStream,
        until: float,
        max_msgs: int | None,
        stall: float | None,
        sentinel: Callable[[Msg], bool] | None,
        outage: Callable[[], str],
    ) -> None:
        self._stream = stream
        self._outage = outage
        self._until = until
        self._left = max_msgs
        self._stall = stall
        self._sentinel = sentinel
        self._stalled_at = until
        self._over = False
        self._ended: Callable[[Exception | None], object] | None = None

    def when_ended(self, call: Callable[[Exception | None], object]) -> None:
        """Sets `call`, which is called once when the iteration ends: with the error it raised, or None."""
        self._ended = call

    def __iter__(self) -> Replies:
        return self

    def __next__(self) -> Msg:
        if self._over:
            raise StopIteration
        try:
            return self._next()
        except StopIteration:
            self.close()
            raise
        except BaseException as error:
            if self._over and isinstance(error, BadSubscriptionError):
                raise StopIteration from None  # another thread has closed it
            self._end(error if isinstance(error, Exception) else None)
            raise

    def _next(self) -> Msg:
        msg = None
        if self._left != 0:
            msg = self._stream.next(max(0.0, self._stalled_at - monotonic()))
        if msg is None:
            if self._left != 0 and (reason := self._outage()):  # nobody was asked
                raise ConnectionReconnectingError(reason)
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
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        self._over = True
        self._stream.close()
        ended, self._ended = self._ended, None
        if ended:
            ended(error)

    def __enter__(self) -> Replies:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @before_exit
    def __del__(self) -> None:
        if "_ended" in vars(self):  # otherwise, a signal handler has interrupted __init__
            self.close()
