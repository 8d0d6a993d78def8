"""Messages that wait to be taken: a bounded queue between who drives the connection and any threads.

Counts close: received = delivered + dropped + pending. What happens to a message that is over a limit is
the `Overflow`; the first drop of an episode is told once, and the next message that fits ends it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from enum import Enum
from time import monotonic

from ..errors import Error, OptionError, fresh
from ..message import Delivered
from ..protocol import Msg as MsgFrame
from .waiter import Drive, release

__all__ = ["Overflow", "PendingQueue", "read_overflow"]


class Overflow(Enum):
    """What becomes of messages over a pending limit.

    BLOCK drops nothing: nothing more is read from the connection until there is room, so that all its
    subscriptions wait, and the server may close it as a slow consumer or as stale.
    """

    DROP_NEW = "drop_new"
    DROP_OLD = "drop_old"
    BLOCK = "block"


def read_overflow(given: Overflow | str) -> Overflow:
    """The policy, or the one of that name. Raises OptionError."""
    try:
        return Overflow(given)
    except ValueError:
        names = ", ".join(item.value for item in Overflow)
        raise OptionError("overflow", f"is one of {names}") from None


class PendingQueue:
    """One lock, a leaf: nothing is called while it is held. `most` and `most_bytes` below 0 are no
    limit."""

    def __init__(
        self, most: int, most_bytes: int, overflow: Overflow, drive: Drive, lock: threading.RLock
    ) -> None:
        self.most = most
        self.most_bytes = most_bytes
        self.overflow = overflow
        self.max_msgs: int | None = None
        self.received = 0
        self.received_before = 0
        self.dropped = 0
        self.slow = False
        self.size = 0
        self.end: Error | None = None
        self.refused: Error | None = None
        self._discarded = False
        self._drive = drive
        self._lock = lock
        # One for each thread that waits. No Condition: an interrupt inside its wait loses its lock.
        self._waiting: list[threading.Lock] = []
        self._idle: list[threading.Lock] = []
        self._frames: deque[Delivered] = deque()
        self.on_outage: Callable[[Error | None], object] | None = None
        """Called in `next`, between messages; see `mark`."""

        # Outages and ends of them, each with how many messages were received before.
        self._marks: deque[tuple[int, Error | None]] = deque()
        # What is being handled, by its id, and the thread that began it. Atomic: single operations.
        self._active: dict[int, int] = {}

    def __len__(self) -> int:
        return len(self._frames)

    @property
    def delivered(self) -> int:
        """Messages that were taken."""
        with self._lock:
            return self.received - self.dropped - len(self._frames)

    @property
    def is_full(self) -> bool:
        """Whether the connection has to wait for room."""
        return self.overflow is Overflow.BLOCK and self._is_over(1, 0) and not self.end

    def put(self, frames: Sequence[Delivered]) -> int:
        """Takes messages in. Returns how many were dropped so far if an episode of dropping begins."""
        with self._lock:
            if self.end:
                return 0
            if self.max_msgs is not None:
                frames = frames[: self.max_msgs - self.received]
            self.received += len(frames)
            size = sum(map(_size, frames))
            began = False
            if self.overflow is Overflow.BLOCK or not self._is_over(len(frames), size):
                self._frames.extend(frames)
                self.size += size
                self.slow = self.slow and not frames
            else:
                for frame in frames:
                    began = self._admit(frame) or began
            if self._discarded:  # by a finalizer that has interrupted this
                self._discard()
            if self._waiting:
                self._wake(len(frames))
            return self.dropped if began else 0

    def next(self, thread: int | None = None) -> Delivered | None:
        """The next message, if there is one now. With `thread` it is being handled, by a handler that this
        thread runs, until `finish` is told."""
        while True:
            with self._lock:
                if self._marks and self._is_mark_due():
                    _, outage = self._marks.popleft()
                elif not self._frames:
                    return None
                else:
                    frame = self._frames.popleft()
                    size = _size(frame)  # a call, in which a signal handler may change the total
                    self.size -= size
                    if thread is not None:
                        self._active[id(frame)] = thread
                    return frame
            if self.on_outage:
                self.on_outage(outage)

    def take(self, until: float, refusal: bool, thread: int | None = None) -> Delivered | None:
        """As `next`, but waits for it; None at the time `until`. Raises why there will be none; also that
        the server refused the subscription, with `refusal`."""
        changed = self._is_told if refusal else self._has_more
        while True:
            frame = self.next(thread)
            if frame is not None:
                return frame
            with self._lock:
                why = None if self._frames else self.end or (self.refused if refusal else None)
            if why:
                raise fresh(why)
            if monotonic() >= until:
                return None
            if thread is None:  # a handler leaves it to the I/O thread, and runs beside that
                self._drive(changed, until)
            self._await(changed, until)

    def mark(self, outage: Error | None) -> None:
        """Makes `next` call `on_outage(outage)` after the messages received so far, and before later
        ones."""
        if not self.on_outage:
            return
        with self._lock:
            if not self.end:
                self._marks.append((self.received, outage))
                self._wake(1)

    def _is_mark_due(self) -> bool:
        return bool(self._marks) and self._marks[0][0] <= self.received - len(self._frames)

    @property
    def turns(self) -> int:
        """The number of messages and marks to take."""
        return len(self._frames) + len(self._marks)

    def limit(self, max_msgs: int) -> bool:
        """Says that it ends with so many messages in all; whether any of them are still to come."""
        with self._lock:
            self.max_msgs = max_msgs
            return self.received < max_msgs

    def resubscribed(self) -> None:
        """Another connection is told of it: what the server refused before may work now."""
        with self._lock:
            self.received_before = self.received
            self.refused = None
            self._wake(len(self._waiting))  # an interrupt of who drove may have kept `put` from it

    def refuse(self, error: Error) -> None:
        """Tells those who wait that the server refused the subscription."""
        with self._lock:
            self.refused = error
            self._wake(len(self._waiting))

    def close(self, error: Error, discard: bool) -> bool:
        """Nothing will come any more, for the reason `error`; the first call counts, and is told so. With
        `discard` what is pending is dropped."""
        first = False
        try:
            with self._lock:
                first = self.end is None
                if first:
                    self.end = error
                if discard:
                    self._discarded = True
                    self._discard()
        finally:  # also after an interrupt: those who wait would do so for ever
            with self._lock:
                self._wake(len(self._waiting))
                self._tell_idle()
        return first

    def drop(self) -> None:
        """Drops what is pending: nobody will take it."""
        with self._lock:
            self._discard()
            self._tell_idle()

    def finish(self, frame: object) -> None:
        """The handler has returned."""
        self._active.pop(id(frame), None)
        if self._idle:  # looked at behind that; `wait_idle` does it the other way round
            with self._lock:
                self._tell_idle()

    def wait_idle(self, until: float) -> int:
        """Waits until everything was taken and handled; how much was not at the time `until`. What the
        calling thread itself handles does not count: it could not end."""
        me = threading.get_ident()
        while True:
            turn = threading.Lock()
            turn.acquire()
            with self._lock:
                self._idle.append(turn)
                active = self._active.copy().values()
                left = len(self._frames) + sum(thread != me for thread in active)
                if not left:
                    return 0
            if not turn.acquire(timeout=max(0.0, until - monotonic())):
                return left

    def _discard(self) -> None:
        """Drops what is pending."""
        dropped = len(self._frames)
        self.dropped += dropped
        self._frames.clear()
        self.size = 0

    def _is_over(self, msgs: int, size: int) -> bool:
        return (self.most >= 0 and len(self._frames) + msgs > self.most) or (
            self.most_bytes >= 0 and self.size + size > self.most_bytes
        )

    def _admit(self, frame: Delivered) -> bool:
        """Takes a message in, or drops what is over a limit; whether an episode of dropping begins."""
        size = _size(frame)
        began = False
        if self._is_over(1, size):
            began, self.slow = not self.slow, True
            if not self._make_room(size):
                self.dropped += 1
                return began
        else:
            self.slow = False
        self._frames.append(frame)
        self.size += size
        return began

    def _make_room(self, size: int) -> bool:
        """Drops old messages for a new one, if that is the way; whether it fits then."""
        if self.overflow is not Overflow.DROP_OLD:
            return False
        while self._is_over(1, size):
            if not self._frames:
                break
            old = self._frames.popleft()
            old_size = _size(old)
            self.size -= old_size
            self.dropped += 1
        return not self._is_over(1, size)

    def _await(self, changed: Callable[[], bool], until: float) -> None:
        """Waits for a change, up to the time `until`."""
        turn = threading.Lock()
        turn.acquire()
        with self._lock:
            self._waiting.append(turn)
            if (
                changed()
            ):  # only now: a signal handler may interrupt this, and end what is waited for
                self._waiting.remove(turn)
                return
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
            self._waiting.remove(turn)
            return turn.locked()

    def _wake(self, most: int) -> None:
        """Lets up to `most` threads go on; with the lock held. They leave the list themselves: an interrupt
        between taking a lock out and letting it go would make its thread wait for ever."""
        for turn in self._waiting[:]:
            if not most:
                break
            if release(turn):
                most -= 1

    def _tell_idle(self) -> None:
        for turn in self._idle[:]:
            release(turn)
        self._idle.clear()

    def _has_more(self) -> bool:
        return bool(self._frames or self.end or self._marks)

    def _is_told(self) -> bool:
        return bool(self._frames or self.end or self.refused or self._marks)


def _size(frame: Delivered) -> int:
    if frame.__class__ is MsgFrame:  # has no headers; the hot path
        return frame.payload_bytes
    return frame.header_bytes + frame.payload_bytes
