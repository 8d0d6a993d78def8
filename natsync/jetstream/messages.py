"""`Messages`: an endless reader of a pull consumer, for any number of threads.

It requests more messages before it runs dry, and notices when the consumer falls silent. A lost
connection, a change of leader and a server shutdown void all requests; the reader then sends a new
one (ADR-37, nats.go `jetstream/pull.go`). It repeats requests that fail at once, with growing
pauses.

All of this happens in the calls that take messages: nothing is requested while no thread takes
messages.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from time import monotonic

from .._finalizers import before_exit
from ..errors import BadSubscriptionError, Error, NextMsgTimeoutError, fresh
from ..options import DRAIN_TIMEOUT, wait_time
from .blocking_iterator import BlockingIterator
from .consume_errors import ConsumerDeletedError, MessagesClosedError, NoHeartbeatError
from .message import JetStreamMsg
from .pull import Meaning, OpenPulls, PullPlan, PullStatus
from .pull_inbox import PullInbox, PullSource
from .silence import Silence

__all__ = ["ALARM", "LOOK", "Backoff", "Messages", "OnError", "is_soon", "report"]

OnError = Callable[[Error], object]
"""Called with each error from which a reader recovers, by the thread that takes messages."""

_LONG = 3600.0  # the longest single wait, in seconds
LOOK = 0.25  # seconds between checks for a connection
ALARM = 2  # intervals without a heartbeat that raise the alarm (nats.go)
_SOON = frozenset({Meaning.END, Meaning.INTERRUPTED, Meaning.PIN_LOST, Meaning.TOO_LARGE})


def is_soon(status: PullStatus) -> bool:
    """Returns whether another request may succeed at once."""
    return status.meaning in _SOON


def report(error: Error, on_error: OnError | None) -> None:
    """Passes `error`, from which a reader recovers, to the callback, or logs it if there is
    none."""
    if on_error:
        on_error(error)
    else:
        logging.getLogger("natsync").warning("%s", error)


class Backoff:
    """Pauses between requests that fail: none at first, then 0.25 s doubling up to 10 s."""

    __slots__ = ("failures", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.until = 0.0

    def failed(self, now: float, soon: bool) -> None:
        """Notes a request that failed; with `soon`, the next one may succeed at once."""
        self.failures += 1
        step = self.failures - (2 if soon else 1)
        self.until = now + min(0.25 * 2 ** min(step, 10), 10.0) if step >= 0 else 0.0

    def worked(self) -> None:
        """Notes a sign of life: the next failure is the first one."""
        self.failures = 0
        self.until = 0.0


class Messages(BlockingIterator[JetStreamMsg]):
    """The messages of a pull consumer as they arrive: an iterator and a context manager.

    Any number of threads may take messages; each message goes to one of them. Made by
    `Consumer.messages`. A reader that is not `shared`, such as that of a `consume` with one worker,
    takes everything that has arrived at once, and needs no lock per message.
    """

    def __init__(
        self,
        source: PullSource,
        plan: PullPlan,
        on_error: OnError | None = None,
        shared: bool = True,
    ) -> None:
        self._source = source
        self._plan = plan
        self._on_error = on_error
        # Guards the mutable fields below; not held while waiting, sending or calling `on_error`.
        self._lock = threading.RLock()
        self._open = OpenPulls(plan)
        # Whether each message's size or headers must be read.
        self._is_counted = bool(plan.max_bytes or plan.group)
        self._backoff = Backoff()
        self._received_at = monotonic()
        self._silence = Silence()
        self._taken = 0  # messages: a sign of life that needs no clock reading
        self._error: Error | None = None
        self._stopping = False
        self._inbox = PullInbox(source, shared, source.core.drain_stage(), plan.keep_alive)
        self._watch = self._inbox.watch
        self._ask()

    def next(self, timeout: float | None = None) -> JetStreamMsg:
        """Returns the next message; waits up to `timeout` seconds for it, or for ever.

        Raises NextMsgTimeoutError; ConsumerDeletedError; PullRefusedError if the consumer does not
        accept the requests; MessagesClosedError after `stop`, and after `drain` when no message is
        left; ConnectionClosedError.
        """
        msg = self._take_at_hand()
        if msg is not None:
            return msg
        item = None if self._error else self._take(0.0)  # without reading the clock
        if isinstance(item, JetStreamMsg):
            self._count(item)
            return item
        until = monotonic() + wait_time(timeout)
        started = self._silence.begin(self._inbox.received)
        while True:
            if isinstance(item, PullStatus):
                self._react(item)
            elif item is not None:
                self._count(item)
                return item
            if self._error:
                raise fresh(self._error)
            taken = self._taken
            item = self._receive(started, until)
            if item is None:
                if taken != self._taken:  # another thread has heard of the consumer
                    started = monotonic()
                self._look(started, until)
                if monotonic() >= until:
                    self._silence.pause(started, self._inbox.received)
                    raise NextMsgTimeoutError(self._source.next_subject, timeout or 0.0)

    def _take_at_hand(self) -> JetStreamMsg | None:
        """The hot path of a reader that is not shared: returns the next of the messages that
        arrived together, or None if the caller must look further."""
        inbox = self._inbox
        if not inbox.frames or self._is_counted:
            return None
        frame = inbox.pop()
        if frame is None:
            return None
        watch = self._watch
        number = watch.number()
        if not frame.payload or number > watch.last or monotonic() >= watch.late_at:
            item = inbox.read(frame, number)
            if isinstance(item, PullStatus):
                self._react(item)
                return None
        self._taken += 1
        self._backoff.failures = 0
        if self._open.message(0):
            self._ask()
        return inbox.message(frame)

    def _receive(self, started: float, until: float) -> JetStreamMsg | PullStatus | None:
        """Returns the next message or status, or None at the time of the next check, at the latest
        at `until`."""
        now = monotonic()
        with self._lock:
            wake = min(until, now + _LONG)
            if self._stopping:
                pass
            elif not self._inbox.connected:
                wake = min(wake, now + LOOK)
            elif self._open.is_low:
                wake = min(wake, self._backoff.until)
            else:
                wake = min(wake, max(self._received_at, started) + ALARM * self._plan.beat)
        return self._take(wake - now)

    def _take(self, timeout: float) -> JetStreamMsg | PullStatus | None:
        try:
            return self._inbox.receive(timeout)
        except BadSubscriptionError:
            if self._error:  # set by another thread
                raise fresh(self._error) from None
            raise MessagesClosedError(self._source.stream, self._source.consumer) from None

    def _count(self, msg: JetStreamMsg) -> None:
        plan = self._plan
        if plan.group:
            self._source.pin.learn(msg)
        with self._lock:
            self._taken += 1
            self._backoff.failures = 0
            low = self._open.message(msg.wire_size if plan.max_bytes else 0)
        if low:
            self._ask()

    def _ask(self) -> None:
        """Sends a request if few messages are still requested, there is a connection, and no pause
        is in progress."""
        with self._lock:
            if self._stopping or not self._open.is_low or self._backoff.until > monotonic():
                return
            if not self._inbox.connected:
                return  # the status at the end of the outage leads here again
            self._backoff.until = 0.0
            if not self._open.msgs:
                self._received_at = monotonic()
            request = self._open.ask(self._source.pin.id if self._plan.group else "")
        self._inbox.pull(request)

    def _react(self, status: PullStatus) -> None:
        """Acts on a status."""
        error = status.error
        with self._lock:
            self._received_at = now = monotonic()
            whole = self._plan.max_bytes
            if status.meaning is Meaning.HEARTBEAT:
                self._backoff.worked()
                return
            self._open.status(status)
            if status.meaning is Meaning.PIN_LOST:
                self._source.pin.id = ""
            if status.meaning is Meaning.RECONNECTED:
                self._backoff.worked()
            elif status.meaning not in (Meaning.AWAY, Meaning.EXPIRED):
                self._backoff.failed(now, is_soon(status))
        if status.meaning is Meaning.FATAL or (
            # Even a request for the full `max_bytes` is too small for the next message.
            status.meaning is Meaning.TOO_LARGE
            and status.pending_bytes == whole
        ):
            assert error
            self._fail(error)
        if error and status.meaning is not Meaning.TOO_LARGE:
            self._trouble(error)
        if status.meaning is Meaning.UNREACHABLE:
            self._check()
        self._ask()

    def _look(self, started: float, until: float) -> None:
        """Reports an error if the consumer has been silent for too long; sends a request whose
        pause is over. Returns hardly later than `until`."""
        silence = ALARM * self._plan.beat
        with self._lock:
            now = monotonic()
            silent = (
                self._open.msgs > 0
                and not self._stopping
                and now >= max(self._received_at, started) + silence
                and self._inbox.connected  # without a connection, nothing can arrive
            )
            if silent:
                self._received_at = now
                self._open.forget()
                self._backoff.until = 0.0
        if silent:
            self._trouble(NoHeartbeatError(self._source.stream, self._source.consumer, silence))
            self._check(max(LOOK, until - monotonic()))
        self._ask()

    def _trouble(self, error: Error) -> None:
        """Reports an error that this reader recovers from."""
        report(error, self._on_error)

    def _check(self, patience: float = _LONG) -> None:
        """Ends the reader if the server says, within `patience` seconds, that the consumer does not
        exist."""
        try:
            self._source.check(min(patience, self._plan.beat))
        except ConsumerDeletedError as error:
            self._fail(error)

    def _fail(self, error: Error) -> None:
        """Ends the reader for all threads."""
        self._error = error
        self._stopping = True
        self._inbox.end()
        raise fresh(error)

    @property
    def error(self) -> Error | None:
        """The error that ended the reader, or None."""
        return self._error

    @property
    def expired(self) -> int:
        """The number of messages that were not handed out, because their `ack_wait` had passed while they
        waited here."""
        return self._watch.expired

    @property
    def pending_msgs(self) -> int:
        """The number of messages that are requested and not yet taken."""
        return self._open.msgs

    def stop(self) -> int:
        """Ends the reader now. Returns the number of messages that had arrived and were not taken;
        they are delivered again after the consumer's `ack_wait`. Waiting threads get
        MessagesClosedError."""
        self._stopping = True
        return self._inbox.end()

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Stops requesting; messages that the server has sent can still be taken, then the
        iteration ends.

        Returns the number of messages left to take, including statuses. `timeout` limits the wait
        for the server's confirmation that no more will come.
        """
        self._stopping = True
        return self._inbox.drain(timeout)

    @before_exit
    def __del__(self) -> None:
        if hasattr(self, "_inbox"):
            self._inbox.abandon()
