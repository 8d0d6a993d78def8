"""What is to be sent, in order: bytes of messages and of interest, and flushes.

Any thread puts something in; who drives the connection takes it out. There are three states: `open`,
where a full buffer makes publishers wait (back-pressure); `away`, where it keeps what is published until
there is a connection again, up to a limit of its own, and is refused at once beyond it; and closed. Knows
no NATS and no network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Protocol

from ..errors import (
    ConnectionReconnectingError,
    Error,
    OutboundBufferLimitError,
    ReentrantCallError,
)
from .waiter import release

__all__ = [
    "RequestBytes",
    "Wakeup",
    "Flush",
    "SubscriptionOps",
    "Item",
    "LARGE",
    "MUCH",
    "OutboundBuffer",
    "Chunks",
    "length",
]

_CLOSED = -1  # no size is below it
LARGE = 512
"""Bytes of a payload that had better go in `Chunks`: Python asks the system for memory beyond that."""

MUCH = 256 << 10
"""Bytes that are worth a call of the system of their own."""


class RequestBytes(bytes):
    """The bytes of a request. They are worth nothing once the connection is lost: nobody waits for the
    reply any more."""

    __slots__ = ()


class SubscriptionOps(bytes):
    """The bytes of a SUB or UNSUB. Not for another connection, which is told of all interest anew."""

    __slots__ = ()


class Flush:
    """Asks for a PONG; `token` will be told of it."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        self.token = token


class Chunks(tuple[bytes, ...]):
    """The bytes of a message in several pieces: a large payload is copied once, when it is sent."""

    __slots__ = ()


Item = bytes | Chunks | Flush
Drive = Callable[[Callable[[], object] | None, float], None]
"""Moves the connection's bytes until the call returns something true, or a time, or without a call: now.
Returns early where somebody else has to."""


class Wakeup(Protocol):
    """Tells who drives. `awake` and `aloof`: somebody looks soon anyway. `wake_if_due` tells as soon as is
    worth it."""

    awake: bool
    aloof: bool

    def wake(self) -> None: ...
    def wake_if_due(self) -> None: ...


def length(item: Item) -> int:
    """How many bytes of a message or of interest it is."""
    if isinstance(item, Chunks):
        return sum(len(piece) for piece in item)
    return len(item) if isinstance(item, bytes) else 0


class OutboundBuffer:
    """Putting takes no lock, which costs as much as all the rest of a publish: `append` is atomic, and the
    list stays the same for ever. Who takes or changes the state holds one, a leaf: nothing is called while
    it is held, and nothing raised: Python 3.10 may let an interrupt in between an error and the release.

    So a thread may have put something behind a change of state that it did not see: it looks again
    afterwards. The size is nearly right: for each thread one message may be missing in it, or be there that
    is not, until all is taken the next time.
    """

    def __init__(
        self,
        wakeup: Wakeup,
        drive: Drive,
        lock: threading.RLock,
        limit: int,
        timeout: float,
        away_limit: int,
    ) -> None:
        self._wakeup = wakeup
        self._drive = drive
        self._limit = limit
        self._timeout = timeout
        self._away_limit = away_limit
        self._lock = lock
        # One for each thread that waits. No Condition: an interrupt inside its wait loses its lock.
        self._waiting: list[threading.Lock] = []
        self._items: list[Item] = []
        self._append = self._items.append
        self._size = 0
        self._away = True  # until there is a connection
        self._brim = away_limit  # how many bytes may be here before one more is put
        self._mark = _CLOSED  # and how many, before who has put one has more to do
        self._refusal: Callable[[], Error] | None = None
        self.outage = ""
        """Why there is no connection, if there is none."""

    def put(self, item: bytes | Chunks, size: int, wake: bool = True) -> None:
        """Leaves `item`, of `size` bytes, to be sent; waits while it is full. Without `wake` the caller
        drives, or wakes.

        Raises OutboundBufferLimitError if that takes too long, or at once while there is no connection;
        ConnectionReconnectingError if nothing is kept then; and once closed what `close` was told.
        """
        if self._size >= self._brim:
            self._wait_for_room()
        self._append(item)
        self._size += size
        if self._size >= self._mark:
            self._look_again(item, size, wake)
            return
        # Always: an interrupt may have kept the one before this from it.
        if wake and not ((wakeup := self._wakeup).awake or wakeup.aloof):
            wakeup.wake_if_due()

    def put_control(self, data: SubscriptionOps) -> None:
        """Leaves `data` to be sent, however full it is, where there is a connection; raises once closed."""
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                self._append(data)
                self._size += len(data)
        if refusal:
            raise refusal()
        if not away:
            self._wakeup.wake()

    def flush(self, token: object, message: RequestBytes | None = None) -> None:
        """Asks for a PONG behind all that is here, and behind `message`, which waits for room as in `put`;
        raises where there is no connection. The caller drives, or wakes."""
        if message and self._size >= self._brim and not self._away:
            self._wait_for_room()
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                # At once: a loss in between would forget the message, and another server would say PONG.
                self._items += (message, Flush(token)) if message else (Flush(token),)
                self._size += len(message or b"")
        if refusal:
            raise refusal()
        if away:
            raise ConnectionReconnectingError(self.outage)

    def take_all(self, into: list[Item] | None = None) -> list[Item]:
        """Everything that is there; in the list `into`, or still here, also where this is interrupted."""
        items = [] if into is None else into
        with self._lock:
            taken = self._items[:]
            full, self._size = self._size >= self._brim, 0
            count = len(taken)
            items += taken  # no call: an interrupt cannot come between these two
            del self._items[:count]
            if self._mark != _CLOSED:
                self._mark = MUCH
            if full:
                self._wake_all()
        return items

    def detach(self, unsent: Iterable[Item]) -> list[Flush]:
        """There is no connection any more: from now on things are kept for the next one. `unsent` was
        taken and not sent. Returns the flushes, which nobody will answer."""
        with self._lock:
            self._away = True
            self._set_limits()
            count = len(self._items)
            items = [*unsent, *self._items[:count]]
            dropped = (RequestBytes, SubscriptionOps, Flush)
            self._items[:count] = [item for item in items if not isinstance(item, dropped)]
            self._size = sum(map(length, self._items[:]))
            self._wake_all()
        return [item for item in items if isinstance(item, Flush)]

    def attach(self) -> None:
        """There is a connection."""
        with self._lock:
            self._away = False
            self._set_limits()
            self._wake_all()

    def close(self, refusal: Callable[[], Error], last: Flush | None = None) -> None:
        """Accepts nothing any more but `last`; every later call, and all that wait, get `refusal()`.

        The first call counts.
        """
        with self._lock:
            if not self._refusal:
                # No call: an interrupt cannot come between this and the last.
                self._refusal = refusal
                if last:
                    self._append(last)
            self._set_limits()  # again, where an interrupt has kept the first call from it
            self._wake_all()
        self._wakeup.wake()

    @property
    def waiting(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._items)

    @property
    def count(self) -> int:
        """How many things there are to take."""
        return len(self._items)

    @property
    def is_full(self) -> bool:
        """Whether who puts something has to wait until more is taken."""
        # Nothing may be here and yet have a size: of what was taken before its size was added.
        return self._size >= self._brim and bool(self._items)

    def _set_limits(self) -> None:
        if self._refusal:
            self._brim = self._mark = _CLOSED
        elif self._away:
            self._brim, self._mark = self._away_limit, _CLOSED
        else:
            self._brim, self._mark = self._limit, MUCH

    def _look_again(self, item: Item, size: int, wake: bool) -> None:
        """Behind a `put` that found much here, or no connection."""
        error: Error | None = None
        with self._lock:
            gathered = self._mark != _CLOSED
            if gathered:
                self._mark = self._size + MUCH  # where the network takes nothing, not at each `put`
            elif self._refusal:
                error = self._withdraw(item, size, self._refusal())
        if error:
            raise error
        if gathered and wake:
            self._drive(None, 0.0)

    def _withdraw(self, item: Item, size: int, error: Error) -> Error | None:
        """Takes `item` out again, for `error`; where it was taken already, it is sent, or counted as
        not."""
        for at in range(len(self._items) - 1, -1, -1):
            if self._items[at] is item:
                del self._items[at]
                self._size -= size
                return error
        return None

    def _wait_for_room(self) -> None:
        until = 0.0
        while True:
            until = until or monotonic() + self._timeout
            with self._lock:
                turn = self._queue_up(until)
            if turn is None:
                return
            if isinstance(turn, Error):
                raise turn
            try:
                self._drive(lambda: not self.is_full, until)
            except ReentrantCallError:
                return  # what a signal handler or finalizer publishes is taken, over the limit
            if self.is_full:
                turn.acquire(timeout=max(0.0, until - monotonic()))

    def _queue_up(self, until: float) -> threading.Lock | Error | None:
        """What to wait with for room, if there is none; an error where it is in vain, or the time `until`
        is over."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)  # first: a signal handler may interrupt the rest, and make room
        if self._refusal:
            return self._refusal()
        if not self._items:
            self._size = 0  # as above; nobody would take it
        if self._size < self._brim:
            return None
        if self._away:
            if not self._away_limit:
                return ConnectionReconnectingError(self.outage)
            return OutboundBufferLimitError(self._away_limit, outage=self.outage)
        if monotonic() >= until:
            return OutboundBufferLimitError(self._limit, self._timeout)
        return turn

    def _wake_all(self) -> None:
        """Lets all go on that wait for room; those who gave up waiting do not mind."""
        for turn in self._waiting[:]:
            release(turn)
        self._waiting.clear()
