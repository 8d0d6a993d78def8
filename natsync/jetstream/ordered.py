"""`OrderedMessages`: the messages of a stream in order, each exactly once.

It reads a consumer of its own without acknowledgements. Whenever a message may be missing (after a
gap in the consumer's sequence, a missed heartbeat, a lost connection, a change of leader, or when
the consumer was deleted) it creates a new consumer, which begins after the last message that was
taken (ADR-17; nats.go `jetstream/ordered.go`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from .._engine.waiter import Event
from .._finalizers import before_exit
from ..core import DrainStage
from ..errors import (
    BadSubscriptionError,
    ConnectionDrainingError,
    ConnectionReconnectingError,
    Error,
    NextMsgTimeoutError,
    NoRespondersError,
    RequestTimeoutError,
    fresh,
)
from ..options import DRAIN_TIMEOUT, wait_time
from .blocking_iterator import BlockingIterator
from .consume_errors import (
    ConcurrentReadError,
    ConsumerDeletedError,
    MessagesClosedError,
    NoHeartbeatError,
    SequenceGapError,
    StreamReplacedError,
)
from .errors import InsufficientResourcesError, JetStreamNotEnabledError, JetStreamUnavailableError
from .message import NO_ORIGIN, JetStreamMsg, origin_of, parse_sequences
from .messages import ALARM, LOOK, Backoff, OnError, report
from .pull import Meaning, OpenPulls, PullPlan, PullStatus, may_be_status
from .pull_inbox import PullInbox, PullSource
from .silence import Silence

__all__ = ["CreatedConsumer", "OrderedMessages"]

_CREATING = 5.0  # seconds to wait for the server to create a consumer again
_RETRIED = (
    RequestTimeoutError,
    NoRespondersError,
    ConnectionReconnectingError,
    JetStreamUnavailableError,
    InsufficientResourcesError,
    JetStreamNotEnabledError,
)
"""Errors after which the reader tries again later to create the consumer (nats.go)."""


class CreatedConsumer(NamedTuple):
    """A consumer that was created. It begins after the stream sequence `before`, or None if it
    begins at several places; `num_pending` messages matched when it was created. `replaced`: it
    could not begin where requested, because the stream was created again or is shorter."""

    source: PullSource
    before: int | None
    num_pending: int
    replaced: bool = False


Make = Callable[["int | None", float], CreatedConsumer]
"""Creates a consumer that begins at a stream sequence, or where its configuration says if that is
None; the second argument is the timeout in seconds."""


class OrderedMessages(BlockingIterator[JetStreamMsg]):
    """An iterator and a context manager, for one thread at a time; any thread may call `stop`.

    Made by `OrderedConsumer.messages`. A drain of the connection ends it in `stage`.
    """

    def __init__(
        self,
        stream: str,
        make: Make,
        delete: Callable[[str], object],
        plan: PullPlan,
        on_error: OnError | None = None,
        last: int | None = None,
        patience: float = _CREATING,
        stage: DrainStage = DrainStage.CALL,
    ) -> None:
        self._stage = stage
        self._stream = stream
        self._make = make
        self._delete = delete
        self._plan = plan
        self._on_error = on_error
        # The reading thread pops the item: atomic, and ten times as fast as a lock.
        self._turn = [None]
        self._last: int | bytes | None = last  # bytes as received; only `last_seq` converts them
        self._first = True
        self._expected = 1
        self._origin = NO_ORIGIN  # of the last message
        self._open = OpenPulls(plan)
        self._backoff = Backoff()
        self._received_at = 0.0
        self._silence = Silence()
        self._source: PullSource | None = None
        self._inbox: PullInbox | None = None
        self._stopping = Event()
        self._draining = False
        self._process = os.getpid()
        self.num_pending = 0
        """The number of matching messages when the first consumer was created."""
        self.replaced = 0
        """How often the stream turned out to be a new one, or shorter than the reader had seen
        it."""
        self.create_until = 0.0
        """The time until which a call may create another consumer, even if its timeout ends earlier:
        for a caller that waits longer, but polls."""

        self._begin(patience)

    def next(self, timeout: float | None = None) -> JetStreamMsg:
        """Returns the next message; waits up to `timeout` seconds for it, or for ever; up to three
        seconds longer where another consumer could not be created in that time.

        Raises NextMsgTimeoutError; StreamNotFoundError, and other errors of a consumer that cannot
        be created; MessagesClosedError after `stop`; ConcurrentReadError while another thread
        waits; ConnectionClosedError.
        """
        try:
            self._turn.pop()
        except IndexError:
            raise ConcurrentReadError(self._stream, self._name) from None
        try:
            msg = self._take_at_hand() or self._take(0.0)  # first without reading the clock
            if msg is not None:
                return msg
            until = monotonic() + wait_time(timeout)
            started = self._silence.begin(self._received)
            while True:
                msg = self._step(started, until)
                if msg is not None:
                    return msg
                if monotonic() >= until:
                    self._silence.pause(started, self._received)
                    raise NextMsgTimeoutError(self._stream, timeout or 0.0)
        finally:
            self._turn.append(None)

    @property
    def _received(self) -> int:
        return self._inbox.received if self._inbox else 0

    def _step(self, started: float, until: float) -> JetStreamMsg | None:
        """Returns the next message in order; None if something else arrived, or nothing until the
        next check."""
        inbox = self._inbox
        if self._stopping.is_set or (self._draining and inbox is None):
            raise MessagesClosedError(self._stream, "")
        if inbox is None:
            if self._wait_for_turn(until):
                # Longer after failures: over a slow network, polls could leave it too little time.
                least = 0.1 * 2 ** min(self._backoff.failures, 5)
                left = max(until, self.create_until) - monotonic()
                self._begin(min(_CREATING, max(least, left)))
            return None
        silence = ALARM * self._plan.beat
        now = monotonic()
        wake = max(self._received_at, started) + silence if inbox.connected else now + LOOK
        msg = self._take(min(until, wake) - now)
        if msg is None and inbox is self._inbox and not self._draining and inbox.connected:
            if not self._open.msgs:  # there was no connection for a request
                self._ask()
            elif monotonic() >= max(self._received_at, started) + silence:
                self._reset(NoHeartbeatError(self._stream, self._name, silence))
        return msg

    def _take_at_hand(self) -> JetStreamMsg | None:
        """The hot path: returns the next message if it arrived together with the last one, and from
        the same consumer; None if the caller must look further."""
        inbox = self._inbox
        if inbox is None or not inbox.frames:
            return None
        frame = inbox.pop()
        if frame is None:
            return None
        parts = frame.reply.rsplit(b".", 4)
        if (
            parts[0] != self._origin
            or parts[2] != b"%d" % self._expected
            or not parts[1].isdigit()
            or (not frame.payload and may_be_status(frame))
            or self._plan.max_bytes
        ):
            return self._act(inbox.read(frame, 0))
        self._expected += 1
        self._last = parts[1]
        self._backoff.failures = 0
        if self._open.message(0):
            self._ask()
        return inbox.message(frame)

    def _take(self, wait: float) -> JetStreamMsg | None:
        """Returns the next message in order if it arrives within `wait` seconds; acts on
        statuses."""
        inbox = self._inbox
        if inbox is None:
            return None
        try:
            item = inbox.receive(wait)
        except BadSubscriptionError:
            raise MessagesClosedError(self._stream, "") from None
        return self._act(item)

    def _act(self, item: JetStreamMsg | PullStatus | None) -> JetStreamMsg | None:
        """Returns `item` if it is the next message in order; acts on a status."""
        if isinstance(item, PullStatus):
            self._react(item)
        elif item is not None:
            return self._admit(item)
        return None

    def _admit(self, msg: JetStreamMsg) -> JetStreamMsg | None:
        """Returns the message if it is the next one in order; else replaces the consumer."""
        reply = msg.reply
        stream_seq, consumer_seq = parse_sequences(reply)
        if consumer_seq != self._expected:
            self._reset(SequenceGapError(self._stream, self._name, self._expected, consumer_seq))
            return None
        self._origin = origin_of(reply)
        self._expected = consumer_seq + 1
        self._last = stream_seq
        self._backoff.failures = 0
        if self._open.message(msg.wire_size if self._plan.max_bytes else 0):
            self._ask()
        return msg

    def _react(self, status: PullStatus) -> None:
        """Acts on a status."""
        self._received_at = monotonic()
        self._open.status(status)
        match status.meaning:
            case Meaning.HEARTBEAT:
                last = status.last_consumer_seq
                if last is not None and last != self._expected - 1:
                    self._reset(SequenceGapError(self._stream, self._name, self._expected, last))
                else:
                    self._backoff.worked()
            case Meaning.END:
                self._ask()
            case Meaning.AWAY:
                assert status.error
                report(status.error, self._on_error)
            case Meaning.RECONNECTED:
                self._close()
                self._backoff.worked()
            case Meaning.FATAL if not isinstance(status.error, ConsumerDeletedError):
                self._stopping.set()
                self._close()
                assert status.error
                raise fresh(status.error)
            case Meaning.TOO_LARGE if status.pending_bytes != self._plan.max_bytes:
                self._ask()
            case Meaning.TOO_LARGE:
                self._stopping.set()
                self._close()
                assert status.error
                raise fresh(status.error)
            case _:
                self._reset(status.error)

    def _reset(self, error: Error | None) -> None:
        """Abandons the consumer. The next one delivers the messages again that were not taken."""
        self._close()
        self._backoff.failed(monotonic(), True)
        if error:  # last, since `on_error` may raise
            report(error, self._on_error)

    def _close(self) -> None:
        inbox, self._inbox = self._inbox, None
        if inbox:
            inbox.abandon()
            self._remove()

    def _remove(self) -> None:
        if os.getpid() == self._process:  # a forked child leaves the consumer to its parent
            with suppress(Error):  # no connection: the server removes the consumer later
                self._delete(self._name)

    @property
    def _name(self) -> str:
        return self._source.consumer if self._source else ""

    def _wait_for_turn(self, until: float) -> bool:
        """Waits until the pause between attempts is over; returns whether it is over by the time
        `until`."""
        pause = min(self._backoff.until, until) - monotonic()
        if pause > 0:
            self._stopping.wait(pause)
        return self._backoff.until <= monotonic()

    def _begin(self, timeout: float) -> None:
        """Creates the next consumer within `timeout` seconds, and requests messages from it; starts
        a pause if it cannot be created now."""
        first, last = self._first, self.last_seq
        start = None if last is None else last + 1
        try:
            made = self._make(start, timeout)
        except _RETRIED as error:
            if self._first:
                raise
            self._backoff.failed(monotonic(), False)
            report(error, self._on_error)
            return
        if self._first:
            self.num_pending = made.num_pending
        if self._first or made.replaced:
            self._last = made.before
        self._first = False
        self._source = made.source
        self._expected = 1
        self._open.forget()
        try:
            self._inbox = PullInbox(made.source, False, self._stage)
        except ConnectionDrainingError:
            if first:
                raise
            self._remove()
            raise MessagesClosedError(self._stream, "") from None
        if self._stopping.is_set or self._draining:  # by another thread, meanwhile
            self._close()
            return
        self._ask()
        if made.replaced:
            self.replaced += 1
            report(StreamReplacedError(self._stream, self._name), self._on_error)

    def _ask(self) -> None:
        if self._open.is_low and self._inbox and self._inbox.connected and not self._draining:
            self._received_at = monotonic()
            self._inbox.pull(self._open.ask())

    def stop(self) -> int:
        """Ends the reader now. Returns the number of messages that had arrived and were not taken;
        the next reader of the same OrderedConsumer gets them."""
        self._stopping.set()
        inbox, self._inbox = self._inbox, None
        if inbox is None:
            return 0
        left = inbox.end()
        self._remove()
        return left

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Stops requesting; messages that the server has sent can still be taken, then the
        iteration ends.

        Returns the number of messages left to take, including statuses. `timeout` limits the wait
        for the server's confirmation that no more will come.
        """
        self._draining = True
        inbox = self._inbox
        return inbox.drain(timeout) if inbox else 0

    def restart(self) -> None:
        """Abandons the consumer: the next call creates another one, which begins after the last
        message that was taken. Only the thread that takes messages may call this."""
        self._reset(None)

    @property
    def expired(self) -> int:
        """0: its messages need no acknowledgement."""
        return 0

    @property
    def consumer(self) -> str:
        """The name of the consumer that is being read, or was read last."""
        return self._name

    @property
    def consumer_seq(self) -> int:
        """The number of messages that were taken from this consumer."""
        return self._expected - 1

    @property
    def last_seq(self) -> int | None:
        """The stream sequence of the last message that was taken. Before the first message, the
        sequence before it, or None if the reader begins at several places."""
        return None if self._last is None else int(self._last)

    @before_exit
    def __del__(self) -> None:
        if getattr(self, "_inbox", None):
            self._close()
