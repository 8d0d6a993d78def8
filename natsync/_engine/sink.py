"""Sinks: the engine's side of subscriptions, to which the router delivers messages.

A user holds a `natsync.Subscription`, which reads from a `SubscriptionSink`; the reply mux is a sink, too.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

from ..errors import BadSubscriptionError, ConnectionReconnectingError, Error, ForkedError
from ..headers import to_wire
from ..message import Delivered, Msg, Publish, ReceivedMsg
from ..options import MAX_WAIT
from ..protocol import check_queue, check_subscribe
from .pending_queue import Overflow, PendingQueue
from .waiter import Drive, deadline_after

__all__ = ["Sink", "SubscriptionHost", "SubscriptionSink"]


class Sink(Protocol):
    """A subscription, as the connection sees it. It ends after `max_msgs` messages, unless that is None.

    `received` counts its messages, `received_before` those of them that came on earlier connections.
    `has_handler`: nobody asks it for messages, so that an error of the server ends it.
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
    def deliver(self, frames: Sequence[Delivered]) -> int: ...
    def refuse(self, error: Error) -> None: ...
    def disconnected(self, error: ConnectionReconnectingError) -> None: ...
    def resubscribed(self) -> None: ...
    def end(self, error: Error, *, discard: bool = ..., quiet: bool = ...) -> None: ...


class SubscriptionHost(NamedTuple):
    """The calls that a subscription makes on its connection. `resume` says that a full queue has room."""

    publish: Publish
    drive: Drive
    lock: threading.RLock
    unsubscribe: Callable[[SubscriptionSink, int | None], None]
    drain: Callable[[SubscriptionSink, float], None]
    resume: Callable[[], None]


class SubscriptionSink:
    """The messages of one subscription, from the router to whoever takes them: any number of threads, or a
    handler. `on_close` is called once with the reason why no more messages will come; it must not block.
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
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.sid = b""
        self.has_handler = False
        self.arrived: Callable[[], None] | None = None
        """Called when messages have come, by the thread that brings them; it must not wait."""

        self._reader: int | None = None  # the thread that waited for a message last
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
        self._on_close = on_close

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
        """Whether the connection has to stop reading until messages are taken from here."""
        return self.pending.is_full

    @property
    def closed(self) -> bool:
        """Whether no more messages will come; some may still be pending."""
        return self.pending.end is not None

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Takes messages in. Returns the number dropped so far if an episode of dropping begins."""
        dropped = self.pending.put(frames)
        if self.arrived:
            self.arrived()
        return dropped

    def limit(self, max_msgs: int) -> bool:
        """Sets the number of messages to end after; returns whether any of them are still to come."""
        return self.pending.limit(max_msgs)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Tells the thread that takes the messages, after those that have come, of a lost connection."""
        self._mark(error)

    def resubscribed(self) -> None:
        """Prepares for a SUB on another connection, which may grant what the last server refused."""
        self.pending.resubscribed()
        self._mark(None)

    def _mark(self, outage: Error | None) -> None:
        self.pending.mark(outage)
        if self.arrived:
            self.arrived()

    def refuse(self, error: Error) -> None:
        """Raises `error` in waiting callers: the server refused the subscription."""
        self.pending.refuse(error)

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Ends it for the reason `error`. Only the first call counts.

        With `discard` pending messages are dropped; unless `quiet`, iteration raises `error`.
        """
        if not self.closed:
            self._quiet = quiet
        if self.pending.close(error, discard) and self._on_close:
            self._on_close(error)

    def abandon(self) -> None:
        """Ends it in a forked child, without the locks, which a thread of the parent may have held."""
        limits = self.pending.most, self.pending.most_bytes
        self.pending = PendingQueue(
            *limits, self.pending.overflow, self.host.drive, threading.RLock()
        )
        self.pending.close(ForkedError(), discard=True)

    def wait_idle(self, until: float) -> int:
        """Waits until all messages are taken and handled; returns how many are not at the time `until`."""
        return self.pending.wait_idle(until)

    def is_taken_elsewhere(self) -> bool:
        """Whether a handler, or another thread than this one, takes its messages."""
        return self.has_handler or self._reader not in (None, threading.get_ident())

    def handle(self, call: Callable[[Msg, object], None]) -> None:
        """Calls `call` with each message and a token until the end; each token must be given to `handled`.
        For the thread that runs the handler."""
        me = threading.get_ident()
        for frame in self.frames(refusal=False, thread=me):
            call(ReceivedMsg(frame, self.host.publish), frame)

    def handled(self, token: object) -> None:
        """The handler has returned."""
        self.pending.finish(token)

    def frames(
        self,
        timeout: float | None = None,
        limit: int | None = None,
        *,
        refusal: bool = True,
        thread: int | None = None,
    ) -> Iterator[Delivered]:
        """The messages as they come, until none came for `timeout` seconds, after `limit` of them, or at
        the end. With `refusal` it raises why there will be no more, unless that was asked for."""
        given = 0
        while limit is None or given < limit:
            try:
                frame = self.take(timeout, refusal=refusal, thread=thread)
            except Error as error:
                if self._quiet or isinstance(error, BadSubscriptionError) or not refusal:
                    return
                raise
            if frame is None:
                return
            given += 1
            yield frame

    def next(self, thread: int) -> Delivered | None:
        """The next message for a handler on `thread`, if there is one now."""
        frame = self.pending.next(thread)
        if frame is not None and self.pending.overflow is Overflow.BLOCK:
            self.host.resume()
        return frame

    def take(
        self, timeout: float | None, *, refusal: bool = True, thread: int | None = None
    ) -> Delivered | None:
        """The next message, or None after `timeout` seconds; see `PendingQueue.take`."""
        frame = self.pending.next(thread)  # before any look at the clock
        while frame is None:
            self._reader = threading.get_ident()
            until = deadline_after(MAX_WAIT if timeout is None else timeout)
            frame = self.pending.take(until, refusal, thread)
            if timeout is not None:
                break
        if self.pending.overflow is Overflow.BLOCK:
            self.host.resume()
        return frame
