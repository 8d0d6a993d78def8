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
    """One lock, a leaf: nothing is called while it is held."""

    def __init__(
        self, wake: Callable[[], None], limit: int, timeout: float, away_limit: int
    ) -> None:
        self._wake = wake
        self._limit = limit
        self._timeout = timeout
        self._away_limit = away_limit
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._items: list[Item] = []
        self._size = 0
        self._away = True  # until there is a connection
        self._brim = away_limit  # how many bytes may be here before one more is put
        self._refusal: Callable[[], Error] | None = None

    def put(self, data: bytes, wake: bool = True) -> None:
        """Leaves `data` to be sent; waits while it is full. Without `wake` the caller drives, or wakes.

        Raises OutboundBufferLimitError if that takes too long, or at once while there is no connection;
        ConnectionReconnectingError if nothing is kept then; and once closed what `close` was told.
        """
        with self._lock:
            if self._size >= self._brim:
                self._wait_for_room()
            self._items.append(data)
            self._size += len(data)
        if wake:
            self._wake()  # always: an interrupt may have kept the one before this from it

    def tell(self, data: Interest) -> None:
        """Leaves `data` to be sent, however full it is, where there is a connection; raises once closed."""
        with self._lock:
            if self._refusal:
                raise self._refusal()
            if self._away:
                return
            self._items.append(data)
            self._size += len(data)
        self._wake()

    def flush(self, token: object) -> None:
        """Asks for a PONG behind all that is here; raises where there is no connection. The caller drives,
        or wakes."""
        with self._lock:
            if self._refusal:
                raise self._refusal()
            if self._away:
                raise ConnectionReconnectingError
            self._items.append(Flush(token))

    def take(self) -> list[Item]:
        """Everything that is there."""
        with self._lock:
            items, self._items = self._items, []
            if self._size >= self._brim:
                self._room.notify_all()
            self._size = 0
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
        self._room.notify_all()

    def _wait_for_room(self) -> None:
        until = monotonic() + self._timeout
        while self._size >= self._brim:
            if self._refusal:
                raise self._refusal()
            if self._away:
                if not self._away_limit:
                    raise ConnectionReconnectingError
                raise OutboundBufferLimitError(self._away_limit)
            left = until - monotonic()
            if left <= 0:
                raise OutboundBufferLimitError(self._limit, self._timeout)
            self._room.wait(left)
