"""`OrderedMessages`: the messages of a stream in order, each exactly once.

It reads a consumer of its own without acknowledgements. Whenever a message may be missing (after a
gap in the consumer's sequence, a missed heartbeat, a lost connection, a change of leader, or when
the consumer was deleted) it creates a new consumer, which begins after the last message that was
taken (ADR-17; nats.go `jetstream/ordered.go`).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from .._engine.forks import notice_fork, same_process
from .._engine.waiter import Event
from .._finalizers import before_exit
from ..core import DrainStage
from ..errors import (
    ConnectionDrainingError,
    ConnectionReconnectingError,
    Error,
    NoRespondersError,
    RequestTimeoutError,
    fresh,
)
from ..message import Delivered
from ..options import DRAIN_TIMEOUT, wait_time
from .errors import InsufficientResourcesError, JetStreamNotEnabledError, JetStreamUnavailableError
from .inbox import ConsumerRef, Inbox
from .message import NO_ORIGIN, JetStreamMsg, origin_of, parse_sequences
from .pull_requests import Meaning, PullPlan, PullStatus, may_be_status
from .reader import OnError, Reader
from .reader_errors import (
    ConcurrentReadError,
    ConsumerDeletedError,
    MessagesClosedError,
    NoHeartbeatError,
    SequenceGapError,
    StreamReplacedError,
)
from .supply import ALARM, Effect, Supply, Then

__all__ = ["CreatedConsumer", "OrderedMessages", "OrderedSupply"]

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

    source: ConsumerRef
    before: int | None
    num_pending: int
    replaced: bool = False


Make = Callable[["int | None", float], CreatedConsumer]
"""Creates a consumer that begins at a stream sequence, or where its configuration says if that is
None; the second argument is the timeout in seconds."""


class OrderedSupply(Supply):
    """The supply of an ordered reader: whatever may have lost a message makes it read another consumer."""

    expected = 1
    """The consumer sequence of the next message."""

    def begin(self, consumer: str) -> None:
        """Begins with another consumer."""
        self.consumer = consumer
        self.expected = 1
        self.open.forget()

    def reset(self, error: Error | None, now: float) -> Effect:
        """Notes that the consumer is left: the next one delivers the messages again that were not taken."""
        self.backoff.failed(now, True)
        return Effect(Then.RESET, error)

    def gap(self, found: int, now: float) -> Effect:
        """Notes that the consumer is at the sequence `found`."""
        return self.reset(SequenceGapError(self.stream, self.consumer, self.expected, found), now)

    def status(self, status: PullStatus, now: float) -> Effect:
        """Counts a status or an outage."""
        last = status.last_consumer_seq
        match status.meaning:
            case Meaning.HEARTBEAT if last is not None and last != self.expected - 1:
                return self.gap(last, now)
            case Meaning.INTERRUPTED | Meaning.UNREACHABLE | Meaning.BUSY | Meaning.PIN_LOST:
                return self.reset(status.error, now)
            case Meaning.FATAL if isinstance(status.error, ConsumerDeletedError):
                return self.reset(status.error, now)
        effect = super().status(status, now)
        return Effect(Then.RESET) if status.meaning is Meaning.RECONNECTED else effect

    def alarm(self, now: float) -> Effect:
        """Returns the effect of missed heartbeats."""
        return self.reset(NoHeartbeatError(self.stream, self.consumer, ALARM * self.beat), now)


class OrderedMessages(Reader):
    """An iterator and a context manager, for one thread at a time; any thread may call `stop`.

    Made by `OrderedConsumer.messages`. A drain of the connection ends it in `stage`. After
    `max_reset_attempts` attempts in a row to create another consumer, it raises the error of the last one.
    """

    _supply: OrderedSupply

    def __init__(
        self,
        stream: str,
        make: Make,
        delete: Callable[[str], object],
        plan: PullPlan,
        on_error: OnError,
        last: int | None = None,
        patience: float = _CREATING,
        stage: DrainStage = DrainStage.CALL,
        max_reset_attempts: int | None = None,
    ) -> None:
        self._stream = stream
        self._make_consumer = make
        self._delete = delete
        self._stage = stage
        self._attempts_left = self._max_attempts = max_reset_attempts
        # The reading thread pops the item: atomic, and ten times as fast as a lock.
        self._turn = [None]
        self._origin = NO_ORIGIN  # of the last message
        self._stopping = Event()
        self._process = os.getpid()
        self._is_counted = bool(plan.max_bytes)
        self.replaced = 0
        """How often the stream turned out to be a new one, or shorter than the reader had seen
        it."""
        self.create_until = 0.0
        """The time until which a call may create another consumer, even if its timeout ends earlier:
        for a caller that waits longer, but polls."""

        made = make(None if last is None else last + 1, patience)
        self._last: int | bytes | None = made.before  # bytes as received; `last_seq` converts them
        self.num_pending = made.num_pending
        """The number of matching messages when the first consumer was created."""
        supply = OrderedSupply(plan, stream, made.source.consumer, made.source.pin, monotonic())
        self._open, self._backoff = supply.open, supply.backoff
        super().__init__(made.source, supply, Inbox(made.source, stage), on_error, shared=False)
        self._reading = True  # whether there is a consumer
        self._ask()
        self._note_replaced(made)

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
            raise ConcurrentReadError(self._stream, self.consumer) from None
        try:
            item = self._take()
            if isinstance(item, JetStreamMsg):
                if self._low:
                    self._ask()
                return item
            return self._wait_for_one(item, monotonic() + wait_time(timeout), timeout or 0.0)
        finally:
            self._turn.append(None)

    def _take(self) -> JetStreamMsg | Effect | None:
        # The hot path, for the next of the messages that have arrived together.
        if not same_process[0]:
            notice_fork()
        try:
            frame = self._frames.popleft()
        except IndexError:
            return super()._take()
        parts = frame.reply.rsplit(b".", 4)
        supply = self._supply
        if (
            parts[0] != self._origin
            or parts[2] != b"%d" % supply.expected
            or not parts[1].isdigit()
            or (not frame.payload and may_be_status(frame))
            or self._is_counted
        ):
            return self._read(frame)
        supply.expected += 1
        self._last = parts[1]
        self._backoff.failures = 0
        if self._open.message(0):
            self._low = True
        return self._make(frame, self._respond, self._core)

    def _read(self, frame: Delivered) -> JetStreamMsg | Effect:
        supply = self._supply
        item = self._inbox.read(frame)
        if isinstance(item, PullStatus):
            return supply.status(item, monotonic())
        stream_seq, consumer_seq = parse_sequences(item.reply)
        if consumer_seq != supply.expected:
            return supply.gap(consumer_seq, monotonic())
        supply.expected += 1
        self._origin = origin_of(item.reply)
        self._last = stream_seq
        self._backoff.failures = 0
        if self._open.message(item.wire_size if self._is_counted else 0):
            self._low = True
        return item

    def _take_more(self) -> Delivered | PullStatus | None:
        if self._reading:
            return super()._take_more()
        if self._error:
            raise fresh(self._error)
        if self._stopping.is_set or self._supply.closing:
            raise self._closed()
        return None

    def _pause(self, since: float, until: float) -> None:
        if self._reading:
            super()._pause(since, until)
            return
        pause = min(self._backoff.until, until) - monotonic()
        if pause > 0:
            self._stopping.wait(pause)
        if self._backoff.until <= monotonic() and not self._stopping.is_set:
            # Longer after failures: over a slow network, polls could leave it too little time.
            least = 0.1 * 2 ** min(self._backoff.failures, 5)
            left = max(until, self.create_until) - monotonic()
            self._begin(min(_CREATING, max(least, left)))

    def _begin(self, timeout: float) -> None:
        """Creates the next consumer within `timeout` seconds, and requests messages from it; starts
        a pause if it cannot be created now."""
        last = self.last_seq
        try:
            made = self._make_consumer(None if last is None else last + 1, timeout)
        except _RETRIED as error:
            if self._attempts_left is not None:
                self._attempts_left -= 1
                if self._attempts_left <= 0:
                    self._fail(error)
            self._backoff.failed(monotonic(), False)
            self._on_error(error)
            return
        self._attempts_left = self._max_attempts
        if made.replaced:
            self._last = made.before
        self._source = made.source
        self._supply.begin(made.source.consumer)
        try:
            self._use(Inbox(made.source, self._stage))
        except ConnectionDrainingError:
            self._remove()
            raise self._closed() from None
        self._reading = True
        if self._stopping.is_set or self._supply.closing:  # by another thread, meanwhile
            self._reset()
            return
        self._ask()
        self._note_replaced(made)

    def _note_replaced(self, made: CreatedConsumer) -> None:
        if made.replaced:
            self.replaced += 1
            self._on_error(StreamReplacedError(self._stream, self.consumer))

    def _reset(self) -> None:
        reading, self._reading = self._reading, False
        if reading:
            self._frames = deque()  # a subscription that was drained drops nothing
            self._inbox.abandon()
            self._remove()

    def _remove(self) -> None:
        if os.getpid() == self._process:  # a forked child leaves the consumer to its parent
            with suppress(Error):  # no connection: the server removes the consumer later
                self._delete(self.consumer)

    def _ask(self) -> None:
        if self._reading:
            super()._ask()

    def _look(self, since: float) -> Effect | None:
        return super()._look(since) if self._reading else None

    def _closed(self) -> MessagesClosedError:
        return MessagesClosedError(self._stream, "")

    @property
    def _received(self) -> int:
        return self._inbox.received if self._reading else 0

    @property
    def _subject(self) -> str:
        return self._stream

    def stop(self) -> int:
        """Ends the reader now. Returns the number of messages that had arrived and were not taken;
        the next reader of the same OrderedConsumer gets them."""
        self._stopping.set()
        reading, self._reading = self._reading, False
        if not reading:
            return 0
        left = self._inbox.end()
        self._remove()
        return left

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Stops requesting; messages that the server has sent can still be taken, then the
        iteration ends.

        Returns the number of messages left to take, including statuses. `timeout` limits the wait
        for the server's confirmation that no more will come.
        """
        self._supply.closing = True
        return self._inbox.drain(timeout) if self._reading else 0

    def restart(self) -> None:
        """Abandons the consumer: the next call creates another one, which begins after the last
        message that was taken. Only the thread that takes messages may call this."""
        self._supply.reset(None, monotonic())
        self._reset()

    @property
    def consumer(self) -> str:
        """The name of the consumer that is being read, or was read last."""
        return self._source.consumer

    @property
    def consumer_seq(self) -> int:
        """The number of messages that were taken from this consumer."""
        return self._supply.expected - 1

    @property
    def last_seq(self) -> int | None:
        """The stream sequence of the last message that was taken. Before the first message, the
        sequence before it, or None if the reader begins at several places."""
        return None if self._last is None else int(self._last)

    @before_exit
    def __del__(self) -> None:
        if getattr(self, "_reading", False):
            self._reset()
