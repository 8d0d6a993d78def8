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

from .errors import Error, fresh
from .message import Delivered
from .waiter import Drive

__all__ = ["Overflow", "Pending"]


class Overflow(Enum):
    """What becomes of messages over a pending limit.

    BLOCK drops nothing: nothing more is read from the connection until there is room, so that all its
    subscriptions wait, and the server may close it as a slow consumer or as stale.
    """

    DROP_NEW = "drop_new"
    DROP_OLD = "drop_old"
    BLOCK = "block"


class Pending:
    """One lock, a leaf: nothing is called while it is held. `most` and `most_bytes` below 0 are no limit."""

    def __init__(self, most: int, most_bytes: int, overflow: Overflow, drive: Drive) -> None:
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
        self._drive = drive
        self._lock = threading.Lock()
        # One for each thread that waits. No Condition: an interrupt inside its wait loses its lock.
        self._waiting: deque[threading.Lock] = deque()
        self._idle: list[threading.Lock] = []
        self._frames: deque[Delivered] = deque()
        self._active: dict[object, int] = {}  # the thread that started what is being handled

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
            began = False
            for frame in frames:
                size = frame.header_bytes + frame.payload_bytes
                if self._is_over(1, size) and self.overflow is not Overflow.BLOCK:
                    began = began or not self.slow
                    self.slow = True
                    if not self._make_room(size):
                        self.dropped += 1
                        continue
                else:
                    self.slow = False
                self._frames.append(frame)
                self.size += size
            if self._waiting:
                self._wake(len(frames))
            return self.dropped if began else 0

    def take(self, until: float, refusal: bool) -> Delivered | None:
        """The next message; None at the time `until`. Raises why there will be none; also that the server
        refused the subscription, with `refusal`."""
        changed = self._is_told if refusal else self._has_more
        while True:
            with self._lock:
                if self._frames:
                    frame = self._frames.popleft()
                    self.size -= frame.header_bytes + frame.payload_bytes
                    return frame
                if self.end:
                    raise fresh(self.end)
                if self.refused and refusal:
                    raise fresh(self.refused)
            if monotonic() >= until:
                return None
            self._await(changed, until)

    def limit(self, max_msgs: int) -> bool:
        """Says that it ends with so many messages in all; whether any of them are still to come."""
        with self._lock:
            self.max_msgs = max_msgs
            return self.received < max_msgs

    def renew(self) -> None:
        """Another connection is told of it: what the server refused before may work now."""
        with self._lock:
            self.received_before = self.received
            self.refused = None

    def refuse(self, error: Error) -> None:
        """Tells those who wait that the server refused the subscription."""
        with self._lock:
            self.refused = error
            self._wake(len(self._waiting))

    def close(self, error: Error, discard: bool) -> bool:
        """Nothing will come any more, for the reason `error`; the first call counts, and is told so. With
        `discard` what is pending is dropped."""
        with self._lock:
            first = self.end is None
            if discard:
                self.dropped += len(self._frames)
                self._frames.clear()
                self.size = 0
            if first:
                self.end = error
            self._wake(len(self._waiting))
            self._tell_idle()
            return first

    def begin(self, token: object, thread: int) -> None:
        """Something that was taken is being handled, by a handler that `thread` runs."""
        with self._lock:
            self._active[token] = thread

    def finish(self, token: object) -> None:
        """The handler has returned."""
        with self._lock:
            self._active.pop(token, None)
            self._tell_idle()

    def wait_idle(self, until: float) -> int:
        """Waits until everything was taken and handled; how much was not at the time `until`. What the
        calling thread itself handles does not count: it could not end."""
        me = threading.get_ident()
        while True:
            turn = threading.Lock()
            turn.acquire()
            with self._lock:
                left = len(self._frames) + sum(thread != me for thread in self._active.values())
                if not left:
                    return 0
                self._idle.append(turn)
            if not turn.acquire(timeout=max(0.0, until - monotonic())):
                return left

    def _is_over(self, msgs: int, size: int) -> bool:
        return (self.most >= 0 and len(self._frames) + msgs > self.most) or (
            self.most_bytes >= 0 and self.size + size > self.most_bytes
        )

    def _make_room(self, size: int) -> bool:
        """Drops old messages for a new one, if that is the way; whether it fits then."""
        if self.overflow is not Overflow.DROP_OLD:
            return False
        while self._frames and self._is_over(1, size):
            old = self._frames.popleft()
            self.size -= old.header_bytes + old.payload_bytes
            self.dropped += 1
        return not self._is_over(1, size)

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

    def _wake(self, most: int) -> None:
        """Lets up to `most` threads go on; with the lock held."""
        for _ in range(min(most, len(self._waiting))):
            self._waiting.popleft().release()

    def _tell_idle(self) -> None:
        while self._idle:
            self._idle.pop().release()

    def _has_more(self) -> bool:
        return bool(self._frames or self.end)

    def _is_told(self) -> bool:
        return bool(self._frames or self.end or self.refused)
