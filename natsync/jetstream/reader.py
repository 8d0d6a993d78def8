"""`Reader`: takes the messages of a consumer from its inbox, and does what its supply says.

All of this happens in the calls that take messages: nothing is requested while no thread takes messages. No
lock is held while one waits, sends, or calls `on_error`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .._engine.forks import notice_fork, same_process
from ..errors import BadSubscriptionError, Error, NextMsgTimeoutError, fresh
from ..message import Delivered
from ..options import DRAIN_TIMEOUT, wait_time
from .inbox import ConsumerRef, Inbox
from .message import JetStreamMsg
from .pull_requests import PullPlan, PullRequest, PullStatus
from .reader_errors import ConcurrentReadError, ConsumerDeletedError, MessagesClosedError
from .supply import LOOK, Effect, Supply, Then

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["BlockingIterator", "Messages", "OnError", "Reader", "Silence"]

OnError = Callable[[Error], object]
"""Called with each error from which a reader recovers, by the thread that takes messages."""

_LONG = 3600.0  # the longest single wait, in seconds
_CLOSELY = 0.25
"""Calls at most this many seconds apart count as one wait. After a longer pause, what has arrived
meanwhile may not have been read yet: a process that was suspended would raise a false alarm."""

_T = TypeVar("_T")


class BlockingIterator(ABC, Generic[_T]):
    """Iterates over the results of `next`, which may block, until MessagesClosedError; a `with`
    block stops the iterator at its end."""

    @abstractmethod
    def next(self, timeout: float | None = None) -> _T:
        """Returns the next item; waits up to `timeout` seconds for it, or for ever."""

    @abstractmethod
    def stop(self) -> object:
        """Ends the iteration, for every thread."""

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        try:
            return self.next()
        except MessagesClosedError:
            raise StopIteration from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


class Silence:
    """How long a reader has waited, across calls in close succession: a program that polls, such as with
    `next(timeout=1.0)`, must also learn of missing heartbeats. `received` is the number of messages,
    including statuses, that have arrived so far. Any thread may call any method; a wait that another
    thread interrupts counts from its own beginning."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = 0.0, -_CLOSELY, -1  # when the wait began and ended, and `received` at its end

    def begin(self, received: int) -> float:
        """Returns the time when the wait that this call continues began, or now if it continues
        none."""
        now = monotonic()
        began, ended, before = self._last
        return began if received == before and now <= ended + _CLOSELY else now

    def pause(self, began: float, received: int) -> None:
        """Records the end of a call whose wait began at the time `began`."""
        self._last = began, monotonic(), received


class Policy(Protocol):
    """The calls that a `Reader` makes on its supply; `Supply` says what they do."""

    beat: float
    closing: bool

    def status(self, status: PullStatus, now: float) -> Effect: ...
    def wake(self, now: float, since: float, connected: bool) -> float: ...
    def look(self, now: float, since: float, connected: bool) -> Effect | None: ...
    def request(self, now: float, connected: bool) -> PullRequest | None: ...


class Reader(BlockingIterator[JetStreamMsg]):
    """The messages of a consumer as they arrive: an iterator and a context manager.

    If it is `shared`, any number of threads may take messages; each message goes to one of them. Otherwise it
    belongs to one thread, such as that of a `consume` with one worker, and needs no lock per message.
    """

    def __init__(
        self, source: ConsumerRef, supply: Policy, inbox: Inbox, on_error: OnError, shared: bool
    ) -> None:
        self._source = source
        self._supply = supply
        self._on_error = on_error
        self._shared = shared
        # Guards the supply, and, in a shared reader, the order in which messages are taken.
        self._lock = threading.RLock()
        self._inside = False  # whether a thread is taking a message of a shared reader
        self._low = False  # whether a request may be due
        self._silence = Silence()
        self._error: Error | None = None
        self._use(inbox)

    def _use(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._watch = inbox.watch
        self._frames: deque[Delivered] = inbox.frames
        self._make, self._respond, self._core = inbox.make, inbox.respond, inbox.core

    def next(self, timeout: float | None = None) -> JetStreamMsg:
        """Returns the next message; waits up to `timeout` seconds for it, or for ever.

        Raises NextMsgTimeoutError; ConsumerDeletedError; PullRefusedError if the consumer does not
        accept the requests; MessagesClosedError after `stop`, and after `drain` when no message is
        left; ConcurrentReadError in a signal handler that has interrupted this reader while it took a
        message; ConnectionClosedError.
        """
        item = self._take_in_turn() if self._shared else self._take()
        if isinstance(item, JetStreamMsg):
            if self._low:
                self._ask()
            return item
        return self._wait_for_one(item, monotonic() + wait_time(timeout), timeout or 0.0)

    def _wait_for_one(
        self, item: JetStreamMsg | Effect | None, until: float, timeout: float
    ) -> JetStreamMsg:
        since = self._silence.begin(self._received)
        while True:
            if isinstance(item, Effect):
                self._perform(item, until)
            elif item is not None:
                if self._low:
                    self._ask()
                return item
            taken = self._watch.taken  # a sign of life that needs no clock reading
            item = self._take_in_turn() if self._shared else self._take()
            if item is None:
                self._pause(since, until)
                item = self._take_in_turn() if self._shared else self._take()
            if item is None:
                if taken != self._watch.taken:  # another thread has heard of the consumer
                    since = monotonic()
                item = self._look(since)
                self._ask()
                if monotonic() >= until:
                    if item:
                        self._perform(item, until)
                    self._silence.pause(since, self._received)
                    raise NextMsgTimeoutError(self._subject, timeout)

    def _take_in_turn(self) -> JetStreamMsg | Effect | None:
        with self._lock:
            if (
                self._inside
            ):  # a signal handler has interrupted this thread: it would disturb the order
                raise ConcurrentReadError(self._source.stream, self._source.consumer)
            try:
                self._inside = True
                return self._take()
            finally:
                self._inside = False

    def _take(self) -> JetStreamMsg | Effect | None:
        """Returns the next message, or the effect of something else; None if nothing is there now."""
        if not same_process[0]:
            notice_fork()
        try:
            frame = self._frames.popleft()
        except IndexError:
            found = self._take_more()
            if found is None:
                return None
            if isinstance(found, PullStatus):
                return self._supply.status(found, monotonic())
            frame = found
        return self._read(frame)

    def _take_more(self) -> Delivered | PullStatus | None:
        """Returns what has arrived since the last look, or None."""
        try:
            return self._inbox.take()
        except BadSubscriptionError:
            if self._error:  # set by another thread
                raise fresh(self._error) from None
            raise self._closed() from None

    @abstractmethod
    def _read(self, frame: Delivered) -> JetStreamMsg | Effect:
        """Returns the message in `frame`, or the effect of what it is instead."""

    def _pause(self, since: float, until: float) -> None:
        """Waits until something arrives, or until the time to look again, at the latest at `until`."""
        with self._lock:
            now = monotonic()
            wake = self._supply.wake(now, since, self._inbox.connected)
        self._inbox.wait(max(0.0, min(wake - now, until - now, _LONG)))

    def _look(self, since: float) -> Effect | None:
        with self._lock:
            return self._supply.look(monotonic(), since, self._inbox.connected)

    def _perform(self, effect: Effect, until: float) -> None:
        """Does what follows from an event. Returns hardly later than `until`."""
        if effect.then is Then.FAIL:
            assert effect.error
            self._fail(effect.error)
            return
        if effect.then is Then.RESET:
            self._reset()
        if effect.error:  # may raise
            self._on_error(effect.error)
        if effect.then is Then.CHECK:
            self._check(max(LOOK, until - monotonic()))
        self._ask()

    def _ask(self) -> None:
        """Sends the next request if it is due."""
        with self._lock:
            self._low = False
            request = self._supply.request(monotonic(), self._inbox.connected)
        if request:
            self._inbox.pull(request)

    def _check(self, patience: float) -> None:
        """Ends the reader if the server says, within `patience` seconds, that the consumer does not
        exist."""
        try:
            self._source.check(min(patience, self._supply.beat))
        except ConsumerDeletedError as error:
            self._fail(error)

    def _fail(self, error: Error) -> None:
        """Ends the reader for all threads."""
        self._error = error
        self._supply.closing = True
        self._inbox.end()
        raise fresh(error)

    def _reset(self) -> None:
        raise NotImplementedError  # only a supply of an ordered reader asks for it

    def _closed(self) -> MessagesClosedError:
        return MessagesClosedError(self._source.stream, self._source.consumer)

    @property
    def _received(self) -> int:
        return self._inbox.received

    @property
    def _subject(self) -> str:
        """What an error of waiting names."""
        return self._source.next_subject

    @property
    def error(self) -> Error | None:
        """The error that ended the reader, or None."""
        return self._error

    @property
    def expired(self) -> int:
        """The number of messages that were not handed out, because their `ack_wait` had passed while
        they waited here."""
        return self._watch.expired

    def stop(self) -> int:
        """Ends the reader now. Returns the number of messages that had arrived and were not taken;
        they are delivered again after the consumer's `ack_wait`. Waiting threads get
        MessagesClosedError."""
        self._supply.closing = True
        return self._inbox.end()

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> int:
        """Stops requesting; messages that the server has sent can still be taken, then the
        iteration ends.

        Returns the number of messages left to take, including statuses. `timeout` limits the wait
        for the server's confirmation that no more will come.
        """
        self._supply.closing = True
        return self._inbox.drain(timeout)


class Messages(Reader):
    """The endless reader of a pull consumer, for any number of threads: it requests more messages before it
    runs dry, and notices when the consumer falls silent. Made by `Consumer.messages`."""

    _supply: Supply

    def __init__(
        self, source: ConsumerRef, plan: PullPlan, on_error: OnError, shared: bool = True
    ) -> None:
        inbox = Inbox(source, source.core.drain_stage(), plan.keep_alive)
        supply = Supply(plan, source.stream, source.consumer, source.pin, monotonic())
        super().__init__(source, supply, inbox, on_error, shared)
        self._open = supply.open
        self._backoff = supply.backoff
        # Whether each message's size or headers must be read.
        self._is_counted = bool(plan.max_bytes or plan.group or plan.stop_after)
        self._ask()

    def _take(self) -> JetStreamMsg | Effect | None:
        watch = self._watch
        # The hot path, for the next of the messages that have arrived together.
        if self._is_counted or monotonic() >= watch.late_at:
            return super()._take()
        if not same_process[0]:
            notice_fork()
        try:
            frame = self._frames.popleft()
        except IndexError:
            return super()._take()
        if not frame.payload:
            return self._read(frame)
        watch.taken += 1
        self._backoff.failures = 0
        if self._open.message(0):
            self._low = True
        return self._make(frame, self._respond, self._core)

    def _read(self, frame: Delivered) -> JetStreamMsg | Effect:
        item = self._inbox.read(frame)
        if isinstance(item, PullStatus):
            return self._supply.status(item, monotonic())
        plan = self._supply.plan
        if plan.group:
            self._supply.pin.learn(item)
        self._backoff.failures = 0
        if self._open.message(item.wire_size if plan.max_bytes else 0):
            self._low = True
        if plan.stop_after and self._open.left <= 0:
            self.stop()
        return item

    @property
    def pending_msgs(self) -> int:
        """The number of messages that are requested and not yet taken."""
        return self._open.msgs
