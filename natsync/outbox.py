"""What is to be sent, in order: bytes of messages and of interest, and flushes.

Any thread puts something in; who drives the connection takes it out. There are three states: `open`,
where a full outbox makes publishers wait (back-pressure); `away`, where it keeps what is published until
there is a connection again, up to a limit of its own, and is refused at once beyond it; and closed. Knows
no NATS and no network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from time import monotonic

from .errors import ConnectionReconnectingError, Error, OutboundBufferLimitError

__all__ = ["Ask", "Flush", "Interest", "Item", "Outbox"]

_CLOSED = -1  # no size is below it


class Ask(bytes):
    """The bytes of a request. They are worth nothing once the connection is lost: nobody waits for the
    reply any more."""

    __slots__ = ()


class Interest(bytes):
    """The bytes of a SUB or UNSUB. Not for another connection, which is told of all interest anew."""

    __slots__ = ()


class Flush:
    """Asks for a PONG; `token` will be told of it."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        self.token = token


Item = bytes | Flush


class Outbox:
    """One lock, a leaf: nothing is called while it is held, and nothing raised: Python 3.10 may let an
    interrupt in between an error and the release. `push` is `wake`, or sends what is here itself.
    """

    def __init__(
        self,
        wake: Callable[[], None],
        limit: int,
        timeout: float,
        away_limit: int,
        push: Callable[[], None] | None = None,
    ) -> None:
        self._wake = wake
        self._push = push or wake
        self._limit = limit
        self._timeout = timeout
        self._away_limit = away_limit
        self._lock = threading.Lock()
        # One for each thread that waits. No Condition: an interrupt inside its wait loses its lock.
        self._waiting: list[threading.Lock] = []
        self._items: list[Item] = []
        self._size = 0
        self._away = True  # until there is a connection
        self._brim = away_limit  # how many bytes may be here before one more is put
        self._refusal: Callable[[], Error] | None = None

    def put(self, data: bytes, wake: bool = True, now: bool = False) -> None:
        """Leaves `data` to be sent; waits while it is full. Without `wake` the caller drives, or wakes; with
        `now` it is not kept for later where there is no connection.

        Raises OutboundBufferLimitError if that takes too long, or at once while there is no connection;
        ConnectionReconnectingError if nothing is kept then; and once closed what `close` was told.
        """
        until = 0.0
        while True:
            turn: threading.Lock | Error
            with self._lock:
                if now and self._away:
                    turn = ConnectionReconnectingError()
                elif self._size < self._brim:
                    self._items.append(data)
                    self._size += len(data)
                    break
                else:
                    until = until or monotonic() + self._timeout
                    turn = self._queue_up(until)
            if isinstance(turn, Error):
                raise turn
            turn.acquire(timeout=max(0.0, until - monotonic()))
        if wake:
            self._push()  # always: an interrupt may have kept the one before this from it

    def tell(self, data: Interest) -> None:
        """Leaves `data` to be sent, however full it is, where there is a connection; raises once closed."""
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                self._items.append(data)
                self._size += len(data)
        if refusal:
            raise refusal()
        if not away:
            self._wake()

    def flush(self, token: object) -> None:
        """Asks for a PONG behind all that is here; raises where there is no connection. The caller drives,
        or wakes."""
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                self._items.append(Flush(token))
        if refusal:
            raise refusal()
        if away:
            raise ConnectionReconnectingError

    def take(self, into: list[Item] | None = None) -> list[Item]:
        """Everything that is there; in the list `into`, or still here, also where this is interrupted."""
        items = [] if into is None else into
        with self._lock:
            items += self._items  # no call: an interrupt cannot come between these two
            self._items = []
            full, self._size = self._size >= self._brim, 0
            if full:
                self._let_go()
        return items

    def leave(self, unsent: Iterable[Item]) -> list[Flush]:
        """There is no connection any more: from now on things are kept for the next one. `unsent` was
        taken and not sent. Returns the flushes, which nobody will answer."""
        with self._lock:
            items = [*unsent, *self._items]
            self._items = [item for item in items if not isinstance(item, (Ask, Interest, Flush))]
            self._size = sum(len(item) for item in self._items if isinstance(item, bytes))
            self._away = True
            self._set_brim(self._away_limit)
        return [item for item in items if isinstance(item, Flush)]

    def arrive(self) -> None:
        """There is a connection."""
        with self._lock:
            self._away = False
            self._set_brim(self._limit)

    def close(self, refusal: Callable[[], Error], last: Flush | None = None) -> None:
        """Accepts nothing any more but `last`; every later call, and all that wait, get `refusal()`.

        The first call counts.
        """
        with self._lock:
            if self._refusal:
                return
            self._refusal = refusal
            if last:
                self._items.append(last)
            self._set_brim(_CLOSED)
        self._wake()

    @property
    def waiting(self) -> bool:
        """Whether there is anything to take."""
        return bool(self._items)

    def _set_brim(self, brim: int) -> None:
        self._brim = _CLOSED if self._refusal else brim
        self._let_go()

    def _queue_up(self, until: float) -> threading.Lock | Error:
        """What to wait with for room; an error where it is in vain, or the time `until` is over."""
        if self._refusal:
            return self._refusal()
        if self._away:
            if not self._away_limit:
                return ConnectionReconnectingError()
            return OutboundBufferLimitError(self._away_limit)
        if monotonic() >= until:
            return OutboundBufferLimitError(self._limit, self._timeout)
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)
        return turn

    def _let_go(self) -> None:
        """Lets all go on that wait for room; those who gave up waiting do not mind."""
        for turn in self._waiting:
            if turn.locked():  # an interrupt may have come between here and `clear`
                turn.release()
        self._waiting.clear()
