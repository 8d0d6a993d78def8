"""Sinks: the engine's side of subscriptions, to which the router delivers messages.

A user holds a `natsync.Subscription`, which reads from a `SubscriptionSink`; the reply mux is a sink, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple, Protocol

from ..errors import (
    BadSubscriptionError,
    ConnectionReconnectingError,
    Error,
    ForkedError,
    PermissionsViolationError,
)
from ..headers import to_wire
from ..message import Delivered, Msg, ReceivedMsg, Respond
from ..options import MAX_WAIT
from ..protocol import check_queue, check_subscribe
from .forks import notice_fork, same_process
from .pending_queue import Overflow, PendingQueue
from .waiter import Drive, deadline_after

__all__ = ["DrainStage", "Sink", "SubscriptionHost", "SubscriptionSink"]


class DrainStage(IntEnum):
    """The stages of a drain of the connection. Each ends the subscriptions of that stage and waits for their
    handlers; so what handlers need ends later than what calls them.

    PROGRAM: the subscriptions that the program has made, and its readers. HANDLER: those that its handlers
    have made. CALL: those that natsync makes for one of its own calls, such as `fetch` or `keys`.
    """

    NONE = 0
    PROGRAM = 1
    HANDLER = 2
    CALL = 3


class Sink(Protocol):
    """A subscription as the connection sees it. It ends after `max_msgs` messages, unless that is None.

    `received` counts its messages, `received_before` those of earlier connections. If `has_handler`
    is set, a handler takes the messages, and an error of the server ends the subscription.
    """

    sid: bytes
    has_handler: bool

    @property
    def subject(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def wire_subject(self) -> bytes: ...
    @property
    def wire_queue(self) -> bytes: ...
    @property
    def max_msgs(self) -> int | None: ...
    @property
    def received_before(self) -> int: ...
    @property
    def received(self) -> int: ...
    @property
    def is_full(self) -> bool: ...
    def is_taken_here(self) -> bool: ...
    def deliver(self, frames: Sequence[Delivered]) -> int: ...
    def refuse(self, error: Error) -> None: ...
    def disconnected(self, error: ConnectionReconnectingError) -> None: ...
    def resubscribed(self) -> None: ...
    def end(self, error: Error, *, discard: bool = ..., quiet: bool = ...) -> None: ...


class SubscriptionHost(NamedTuple):
    """The calls that a subscription makes on its connection. `resume` is called when a full queue has
    room again."""

    respond: Respond
    drive: Drive
    lock: threading.RLock
    ask: Callable[[SubscriptionSink, str, bytes], None]
    unsubscribe: Callable[[SubscriptionSink, int | None], None]
    drain: Callable[[list[SubscriptionSink], float], None]
    resume: Callable[[], None]


class SubscriptionSink:
    """The messages of one subscription, from the router to the threads or the handler that take them.
    `on_close` is called once with the reason why no more messages will arrive; it must not block.
    """

    def __init__(
        self,
        subject: str,
        queue: str,
        host: SubscriptionHost,
        limits: tuple[int, int],
        overflow: Overflow = Overflow.DROP_NEW,
        max_msgs: int | None = None,
        on_close: Callable[[Error], object] | None = None,
        on_outage: Callable[[Error | None], object] | None = None,
        stage: DrainStage = DrainStage.PROGRAM,
    ) -> None:
        self.stage = stage
        self.subject = subject
        self.queue = queue
        self.sid = b""
        self.has_handler = False
        self.arrived: Callable[[], None] | None = None
        """Called when messages have arrived, on the thread that delivers them; it must not wait."""

        self.asks = ""
        """The subject of its requests, if it sends any."""
        self._reader: int | None = None  # the last thread that waited for a message
        # The threads that have taken messages; kept only if a full queue makes the connection wait.
        self._takers: set[int] = set()
        self.workers = 1  # threads of the handler
        self.wire_subject = to_wire(subject)
        self.wire_queue = to_wire(queue)
        check_subscribe(self.wire_subject)
        if queue:
            check_queue(self.wire_queue)
        self.pending = PendingQueue(*limits, overflow, host.drive, host.lock)
        self.pending.max_msgs = max_msgs
        self.pending.on_outage = on_outage
        self.host = host
        self.draining = False
        self._quiet = False
        self.on_close = on_close

    @property
    def received(self) -> int:
        return self.pending.received

    @property
    def received_before(self) -> int:
        return self.pending.received_before

    @property
    def max_msgs(self) -> int | None:
        return self.pending.max_msgs

    @property
    def is_full(self) -> bool:
        """Whether the connection has to stop reading until messages are taken."""
        return self.pending.is_full

    @property
    def closed(self) -> bool:
        """Whether no more messages will arrive; some may still be pending."""
        return self.pending.end is not None

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Adds messages. Returns the number dropped so far if an episode of dropping begins, else 0."""
        dropped = self.pending.put(frames)
        if self.arrived:
            self.arrived()
        return dropped

    def limit(self, max_msgs: int) -> bool:
        """Ends the subscription after `max_msgs` messages; returns whether any of them are still to
        come."""
        return self.pending.limit(max_msgs)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Marks the loss of the connection, after the messages that have arrived."""
        self._mark(error)

    def resubscribed(self) -> None:
        """Prepares for a SUB to another server, which may accept what the last one refused."""
        self.pending.resubscribed()
        self._mark(None)

    def _mark(self, outage: Error | None) -> None:
        self.pending.mark(outage)
        if self.arrived:
            self.arrived()

    def refuse(self, error: Error) -> None:
        """Raises `error` in waiting callers: the server refused the subscription, or a request."""
        self.pending.refuse(error)

    def begin_request(self, subject: str) -> None:
        """Notes a request on `subject`. The server may have refused an earlier one, and take this one."""
        self.asks = subject
        refused = self.pending.refused
        if isinstance(refused, PermissionsViolationError) and refused.operation == "publish":
            self.pending.refused = None

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Ends the subscription for the reason `error`. Only the first call counts.

        With `discard` pending messages are dropped; unless `quiet`, iteration raises `error`.
        """
        if not self.closed:
            self._quiet = quiet
        if self.pending.close(error, discard) and self.on_close:
            self.on_close(error)

    def abandon(self) -> None:
        """Ends the subscription in a forked child, without the locks, which a thread of the parent may
        have held."""
        before = self.pending
        limits = before.most, before.most_bytes
        self.pending = PendingQueue(*limits, before.overflow, self.host.drive, threading.RLock())
        self.pending.at_hand = before.at_hand  # a thread that takes messages from it keeps it
        self.pending.close(ForkedError(), discard=True)

    def wait_idle(self, until: float) -> int:
        """Waits until all messages are taken and handled; returns how many are not at the time `until`."""
        return self.pending.wait_idle(until)

    def is_taken_here(self) -> bool:
        """Returns whether this thread, and no other one, takes the messages."""
        return self._takers == {threading.get_ident()} and self.workers == 1

    def is_taken_elsewhere(self) -> bool:
        """Returns whether a handler, or another thread than this one, takes the messages."""
        return self.has_handler or self._reader not in (None, threading.get_ident())

    def handle(self, call: Callable[[Msg], None]) -> None:
        """Calls `call` with each message until the end. For the thread of the handler."""
        me = threading.get_ident()
        pending, respond = self.pending, self.host.respond
        while True:
            try:
                first = self.take(None, refusal=False, thread=me)
            except Error:  # there will be no more messages
                return
            assert first
            try:
                if self.workers == 1:  # other workers could take them, too
                    pending.begin_run()
                call(ReceivedMsg(first, respond))
                for frame in pending.run():
                    call(ReceivedMsg(frame, respond))
            finally:
                pending.finish(first)

    def handled(self, token: object) -> None:
        """Notes that the message that `next` has returned is handled."""
        self.pending.finish(token)

    def frames(self, timeout: float | None = None, limit: int | None = None) -> Iterator[Delivered]:
        """Yields messages until none arrives for `timeout` seconds, after `limit` messages, or until
        the end. Raises the reason of the end, unless the program has asked for the end."""
        delivered = 0
        while limit is None or delivered < limit:
            try:
                frame = self.take(timeout)
            except Error as error:
                if self._quiet or isinstance(error, BadSubscriptionError):
                    return
                raise
            if frame is None:
                return
            delivered += 1
            yield frame

    def next(self, thread: int) -> Delivered | None:
        """Returns the next message for a handler on `thread`, or None."""
        frame = self.pending.next(thread)
        if frame is not None and self.pending.blocks:
            self._takers.add(thread)
            self.host.resume()
        return frame

    def gather(self) -> None:
        """Moves all messages that have arrived to `pending.at_hand`. For the one thread that takes messages
        of a queue that never blocks."""
        if not same_process[0]:
            notice_fork()
        self.pending.gather()

    def poll(self) -> Delivered | None:
        """Returns the next message, or None if there is none now; see `PendingQueue.take`. For the readers of
        a queue that never blocks."""
        if not same_process[0]:
            notice_fork()
        return self.pending.poll(refusal=True)

    def wait(self, timeout: float) -> None:
        """Waits up to `timeout` seconds for something that `poll` returns or raises, or that is at hand."""
        if not same_process[0]:
            notice_fork()
        self._reader = threading.get_ident()
        self.pending.wait(deadline_after(timeout))

    def take(
        self, timeout: float | None, *, refusal: bool = True, thread: int | None = None
    ) -> Delivered | None:
        """Returns the next message, or None after `timeout` seconds; see `PendingQueue.take`."""
        if not same_process[0]:
            notice_fork()
        frame = self.pending.next(thread)  # first, without reading the clock
        while frame is None:
            self._reader = threading.get_ident()
            until = deadline_after(MAX_WAIT if timeout is None else timeout)
            frame = self.pending.take(until, refusal, thread)
            if timeout is not None:
                break
        if self.pending.blocks:
            self._takers.add(threading.get_ident())
            self.host.resume()
        return frame
