"""A subscription: the bounded queue between the I/O thread, which delivers, and those who take.

Counts close: received = delivered + dropped + pending. When a limit is reached the *new* message is
dropped (as nats.go does), and the first drop of an episode is told once; the next message that fits
ends the episode.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from time import monotonic

from .errors import (
    BadSubscriptionError,
    Error,
    NextMsgTimeoutError,
    SyncSubRequiredError,
    fresh,
)
from .message import Delivered, Msg, Publish, to_wire
from .options import MAX_WAIT, check_max_msgs
from .protocol import check_queue, check_subscribe
from .waiter import Drive

__all__ = ["Subscription"]


class Subscription:
    """Messages on a subject, for one who asks (`next_msg`, iteration) or for a handler.

    Any number of threads may take messages from it; each message goes to one of them. One lock, a leaf:
    nothing is called while it is held.
    """

    def __init__(
        self,
        subject: str,
        queue: str,
        limits: tuple[int, int],
        publish: Publish,
        unsubscribe: Callable[[int | None], None],
        drive: Drive,
        max_msgs: int | None = None,
        handled: bool = False,
    ) -> None:
        self.subject = subject
        self.queue = queue
        self.wire_subject = to_wire(subject)
        self.wire_queue = to_wire(queue)
        check_subscribe(self.wire_subject)
        if queue:
            check_queue(self.wire_queue)
        self.max_msgs = max_msgs
        self.received_before = 0
        self._most, self._most_bytes = (limit if limit >= 0 else float("inf") for limit in limits)
        self._publish = publish
        self._unsubscribe = unsubscribe
        self._drive = drive
        self._handled = handled
        self._lock = threading.Lock()
        # One for each thread that waits. No Condition: an interrupt inside its wait loses its lock.
        self._waiting: deque[threading.Lock] = deque()
        self._pending: deque[Delivered] = deque()
        self._pending_bytes = 0
        self._received = 0
        self._dropped = 0
        self._slow = False
        self._refused: Error | None = None
        self._end: Error | None = None
        self._quiet = False

    @property
    def pending_msgs(self) -> int:
        """Messages that wait to be taken."""
        return len(self._pending)

    @property
    def pending_bytes(self) -> int:
        """Bytes of headers and payloads that wait to be taken."""
        return self._pending_bytes

    @property
    def delivered(self) -> int:
        """Messages taken by `next_msg`, iteration or the handler."""
        with self._lock:
            return self._received - self._dropped - len(self._pending)

    @property
    def dropped(self) -> int:
        """Messages that came and were never taken: over a limit, or pending when it was ended."""
        return self._dropped

    @property
    def received(self) -> int:
        """Messages that came from the server."""
        return self._received

    @property
    def closed(self) -> bool:
        """Whether nothing more will come; messages may still be pending."""
        return self._end is not None

    def next_msg(self, timeout: float | None = None) -> Msg:
        """The next message; waits for it up to `timeout` seconds, or as long as it takes.

        Raises NextMsgTimeoutError; PermissionsViolationError if the server refused the subscription;
        and once nothing is pending and nothing can come any more BadSubscriptionError (unsubscribed),
        MaxMessagesError or ConnectionClosedError.
        """
        self._check_sync()
        return Msg(self._take(timeout), self._publish)

    def __iter__(self) -> Iterator[Msg]:
        """The messages as they come, until it is unsubscribed, has its `max_msgs`, or the client closes.

        Raises ConnectionClosedError if the connection is lost, PermissionsViolationError if refused.
        """
        self._check_sync()
        return self._messages()

    def unsubscribe(self, max_msgs: int | None = None) -> None:
        """Ends it now, dropping what is pending; or once `max_msgs` have come since it began.

        Does nothing where it has ended.
        """
        check_max_msgs(max_msgs)
        if not self.closed:
            self._unsubscribe(max_msgs)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.unsubscribe()

    def handle(self, call: Callable[[Msg], None]) -> None:
        """Calls `call` with each message until the end. For the thread that runs the handler."""
        for msg in self._messages(refusal=False):
            call(msg)

    def deliver(self, frames: Sequence[Delivered]) -> int:
        """Takes messages in. Returns how many were dropped so far if an episode of dropping begins."""
        began = False
        with self._lock:
            if self._end:
                return 0
            if self.max_msgs is not None:
                frames = frames[: self.max_msgs - self._received]
            self._received += len(frames)
            for frame in frames:
                size = self._pending_bytes + frame.header_bytes + frame.payload_bytes
                if len(self._pending) < self._most and size <= self._most_bytes:
                    self._pending.append(frame)
                    self._pending_bytes = size
                    self._slow = False
                else:
                    self._dropped += 1
                    began = began or not self._slow
                    self._slow = True
            if self._waiting:
                self._wake(len(frames))
        return self._dropped if began else 0

    def limit(self, max_msgs: int) -> bool:
        """Says that it ends with so many messages in all; whether any of them are still to come."""
        with self._lock:
            self.max_msgs = max_msgs
            return self._received < max_msgs

    def renew(self) -> None:
        """Another connection is told of this subscription: what the server refused before may work now."""
        with self._lock:
            self.received_before = self._received
            self._refused = None

    def refuse(self, error: Error) -> None:
        """Tells those who wait that the server refused the subscription."""
        with self._lock:
            self._refused = error
            self._wake(len(self._waiting))

    def end(self, error: Error, *, discard: bool = False, quiet: bool = True) -> None:
        """Nothing will come any more, for the reason `error`. The first call counts.

        With `discard` pending messages are dropped; unless `quiet`, iteration raises `error`.
        """
        with self._lock:
            if discard:
                self._dropped += len(self._pending)
                self._pending.clear()
                self._pending_bytes = 0
            if not self._end:
                self._end = error
                self._quiet = quiet
            self._wake(len(self._waiting))

    def _wake(self, most: int) -> None:
        """Lets up to `most` threads go on; with the lock held."""
        for _ in range(min(most, len(self._waiting))):
            self._waiting.popleft().release()

    def _messages(self, refusal: bool = True) -> Iterator[Msg]:
        while True:
            try:
                frame = self._take(None, refusal)
            except Error as error:
                if self._quiet or isinstance(error, BadSubscriptionError) or not refusal:
                    return
                raise
            yield Msg(frame, self._publish)

    def _take(self, timeout: float | None, refusal: bool = True) -> Delivered:
        until = None
        while True:
            with self._lock:
                if self._pending:
                    frame = self._pending.popleft()
                    self._pending_bytes -= frame.header_bytes + frame.payload_bytes
                    return frame
                if self._end:
                    raise fresh(self._end)
                if self._refused and refusal:
                    raise fresh(self._refused)
            now = monotonic()
            if until is None:
                until = now + (MAX_WAIT if timeout is None else min(timeout, MAX_WAIT))
            elif now >= until and timeout is not None:
                raise NextMsgTimeoutError(self.subject, timeout)
            self._await(self._is_told if refusal else self._has_more, until)

    def _await(self, changed: Callable[[], bool], until: float) -> None:
        """Waits for a change, up to the time `until`."""
        self._drive(changed, until)
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            if changed():
                return
            self._waiting.append(turn)
        try:
            turn.acquire(timeout=max(0.0, until - monotonic()))
        except BaseException:
            if not self._leave(turn):  # let go, but this thread takes nothing: another one may
                with self._lock:
                    self._wake(1)
            raise
        self._leave(turn)

    def _leave(self, turn: threading.Lock) -> bool:
        """Waits no longer; whether it still did."""
        with self._lock:
            waited = turn in self._waiting
            if waited:
                self._waiting.remove(turn)
        return waited

    def _has_more(self) -> bool:
        return bool(self._pending or self._end)

    def _is_told(self) -> bool:
        return bool(self._pending or self._end or self._refused)

    def _check_sync(self) -> None:
        if self._handled:
            raise SyncSubRequiredError(self.subject)

    def __repr__(self) -> str:
        queue = f", queue={self.queue!r}" if self.queue else ""
        return f"Subscription({self.subject!r}{queue}, {self.pending_msgs} pending)"
