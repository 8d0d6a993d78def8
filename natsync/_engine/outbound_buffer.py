"""The outbound buffer: bytes of messages and subscriptions, and flushes, in the order in which they are
sent.

Any thread puts items in; the driver, the thread that moves the connection's bytes, takes them out. The
buffer has three states: `open`, in which a full buffer makes publishers wait (back-pressure); `away`,
without a connection, in which it keeps published messages up to a separate limit and refuses the rest at
once; and closed. At the end of a program it writes through: `put` returns when the network has the item.
This module knows neither NATS nor the network.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from time import monotonic
from typing import Protocol

from ..errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
    OutboundBufferLimitError,
    ReentrantCallError,
)
from ..options import MAX_WAIT
from .waiter import release

__all__ = [
    "RequestBytes",
    "RequestChunks",
    "Wakeup",
    "Flush",
    "SubscriptionOps",
    "Item",
    "MUCH",
    "OutboundBuffer",
    "Chunks",
    "joined",
    "length",
]

_CLOSED = -1  # no size is below it
_LOOK = 0.001  # seconds between looks at what another thread is writing
_is_finalizing = sys.is_finalizing  # modules are cleared in the end
MUCH = 256 << 10
"""This many bytes are worth a separate system call. With 64 KiB or 1 MiB the CPU time is the same."""


RequestBytes = bytearray
"""The bytes of a request. They are dropped when the connection is lost, since the request has failed then. A
subclass of bytes would copy them, which takes 0.3 us (CPython 3.11); nobody changes the bytearray."""


class SubscriptionOps(bytes):
    """The bytes of a SUB or UNSUB, or of a PING or PONG. They are dropped when the connection is lost: all
    subscriptions are sent to the next server anyway, and a PING is for one server."""

    __slots__ = ()


class Flush:
    """A request for a PONG; `token` identifies the caller that waits for it."""

    __slots__ = ("token",)

    def __init__(self, token: object) -> None:
        self.token = token


class Chunks(tuple[bytes, ...]):
    """The bytes of a message in several pieces, so that a large payload is copied only once, when it is
    sent."""

    __slots__ = ()


class RequestChunks(Chunks):
    """The bytes of a large request, which are dropped like `RequestBytes`."""

    __slots__ = ()


Item = bytes | RequestBytes | Chunks | Flush
Drive = Callable[[Callable[[], object] | None, float], None]
"""Moves the connection's bytes until the call returns something true or the time has come; without a call,
only sends. Returns early if another thread has to continue."""


class Wakeup(Protocol):
    """Wakes the driver. `awake` and `standby` mean that a thread will look at the buffer soon anyway;
    `wake_if_due` sends at once or wakes the driver, whichever costs less."""

    awake: bool
    standby: bool

    def wake(self) -> None: ...
    def wake_if_due(self) -> None: ...


def length(item: Item) -> int:
    """Returns the number of bytes of a message or of subscription operations; 0 for a flush."""
    if isinstance(item, Chunks):
        return sum(len(piece) for piece in item)
    return 0 if isinstance(item, Flush) else len(item)


def joined(items: Sequence[Item], in_pieces: bool) -> bytes:
    """Returns the bytes of `items`, none of which is a flush, in one object for a single system call: a call
    for each piece takes longer than the copy. `in_pieces` says that some items are `Chunks`."""
    if in_pieces:
        whole = [part if isinstance(part, Chunks) else (part,) for part in items]
        return b"".join(chain.from_iterable(whole))  # type: ignore[arg-type]  # no Flush is among them
    return b"".join(items)  # type: ignore[arg-type]  # neither Flush nor Chunks


class OutboundBuffer:
    """`put` takes no lock, which would cost as much as the rest of a publish: `append` is atomic, and the
    list object stays the same for ever. Methods that take items or change the state hold a lock. While it
    is held, no code of the program is called and no error leaves the block: in Python 3.10 an interrupt
    may come between an error and the release.

    A thread may therefore put an item after a change of state that it has not seen; it checks again
    afterwards. The size is approximate: for each thread it may miss one message, or count one that was
    taken already, until the next `take_all`.
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
        # One lock per waiting thread. Not a Condition: an interrupt during its `wait` may lose its lock.
        self._waiting: list[threading.Lock] = []
        self.items: list[Item] = []
        """The items that wait to be sent; always the same list object."""

        self._size = 0
        self._away = True  # until there is a connection
        self._full_at = away_limit  # from this size on, `put` waits
        self._look_at = (
            _CLOSED  # from this size on, `put` calls `_look_again`; never above `_full_at`
        )
        self._much = min(MUCH, limit)
        self._refusal: Callable[[], Error] | None = None
        self._is_written: Callable[[], bool] | None = None  # set if it writes through
        self._patience = 0.0  # seconds to wait until it is written
        self._is_stuck = False  # whether the last item was not written in time
        self.outage = ""
        """Why there is no connection; empty if there is one."""

    def put(
        self,
        item: bytes | RequestBytes | Chunks,
        size: int,
        wake: bool = True,
        timeout: float = MAX_WAIT,
    ) -> float:
        """Appends `item`, of `size` bytes; waits while the buffer is full, at most `timeout` seconds. Returns
        how long it has waited. Without `wake` the caller drives, or wakes the driver.

        Raises OutboundBufferLimitError if it waits too long, or at once if the buffer is full while there
        is no connection; ConnectionReconnectingError if the buffer keeps nothing without a connection;
        after `close`, the error of its `refusal`; while it writes through, OutboundBufferLimitError if the
        network does not take the item in time.
        """
        self.items.append(item)
        self._size = total = self._size + size
        if total >= self._look_at:
            return self._look_again(item, size, wake, timeout)
        # After each item: an interrupt may have kept the previous call from waking the driver.
        if wake and not ((wakeup := self._wakeup).awake or wakeup.standby):
            wakeup.wake_if_due()
        return 0.0

    def put_control(self, data: SubscriptionOps | RequestBytes) -> bool:
        """Appends `data` however full the buffer is, if there is a connection; returns whether there is one.
        Raises after `close`."""
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                self.items.append(data)
                self._size += len(data)
        if refusal:
            raise refusal()
        if not away:
            self._wakeup.wake()
        return not away

    def flush(
        self, token: object, message: RequestBytes | None = None, timeout: float = MAX_WAIT
    ) -> float:
        """Appends `message`, if any, and a request for a PONG; waits for room for the message as `put`
        does, and raises if there is no connection. Returns how long it has waited. The caller drives, or
        wakes the driver."""
        waited = 0.0
        if message and self._size >= self._full_at and not self._away:
            waited = self._wait_for_room(timeout)
        with self._lock:
            refusal, away = self._refusal, self._away
            if not (refusal or away):
                # In one step: if the connection were lost in between, the next server would answer the flush
                # without having the message.
                self.items += (message, Flush(token)) if message else (Flush(token),)
                self._size += len(message or b"")
        if refusal:
            raise refusal()
        if away:
            raise ConnectionReconnectingError(self.outage)
        return waited

    def take_all(self, into: list[Item] | None = None) -> list[Item]:
        """Takes all items. If an interrupt comes, each item is either in the list `into` or still here."""
        items = [] if into is None else into
        with self._lock:
            taken = self.items[:]
            full, self._size = self._size >= self._full_at, 0
            count = len(taken)
            items += taken  # no call, so that no interrupt can come in between
            del self.items[:count]
            if self._look_at != _CLOSED:
                self._look_at = self._much
            if full:
                self._wake_all()
        return items

    def detach(self, unsent: Iterable[Item]) -> list[Flush]:
        """Notes that the connection is lost: from now on items are kept for the next one. `unsent`
        items were taken and not sent. Returns the flushes, which will get no answer."""
        with self._lock:
            self._away = True
            self._set_limits()
            count = len(self.items)
            items = [*unsent, *self.items[:count]]
            dropped = (RequestBytes, RequestChunks, SubscriptionOps, Flush)
            self.items[:count] = [item for item in items if not isinstance(item, dropped)]
            self._size = sum(map(length, self.items[:]))
            self._wake_all()
        return [item for item in items if isinstance(item, Flush)]

    def attach(self) -> None:
        """Notes that there is a connection."""
        with self._lock:
            self._away = False
            self._set_limits()
            self._wake_all()

    def write_through(self, is_written: Callable[[], bool], patience: float) -> None:
        """From now on `put` returns only when `is_written()`: nothing is left here or on the way to the
        network. It waits at most `patience` seconds; not at all after an item that was not written in time,
        until one is."""
        with self._lock:
            self._is_written, self._patience = is_written, patience
            self._set_limits()

    def remove(self, items: Sequence[Item]) -> None:
        """Removes `items`, which have to be kept ones: there is no connection."""
        unwanted = set(map(id, items))
        with self._lock:
            count = len(self.items)
            self.items[:count] = [item for item in self.items[:count] if id(item) not in unwanted]
            self._size = sum(map(length, self.items[:]))

    def close(self, refusal: Callable[[], Error], last: Flush | None = None) -> None:
        """Accepts no more items, except `last`; later and waiting calls raise `refusal()`. Only the
        first call counts."""
        with self._lock:
            if not self._refusal:
                # No call, so that no interrupt can come in between.
                self._refusal = refusal
                if last:
                    self.items.append(last)
            self._set_limits()  # also in a second call, after an interrupt of the first
            self._wake_all()
        self._wakeup.wake()

    @property
    def is_full(self) -> bool:
        """Whether a caller of `put` has to wait."""
        # The size may be above 0 without items: they were taken before their size was added.
        return self._size >= self._full_at and bool(self.items)

    def _set_limits(self) -> None:
        if self._refusal:
            self._full_at = self._look_at = _CLOSED
        else:
            looks = self._away or self._is_written
            self._full_at = self._away_limit if self._away else self._limit
            self._look_at = _CLOSED if looks else self._much

    def _look_again(self, item: Item, size: int, wake: bool, timeout: float) -> float:
        """Called by `put` if there are many bytes or no connection, or while it writes through, after it has
        appended `item`. If there was no room for it, takes it back, waits for room and appends it again.
        Returns how long it waited for room.
        """
        waited = 0.0
        if self._is_written and _is_finalizing():  # a thread that is frozen now may hold the lock
            raise ConnectionClosedError("the interpreter is shutting down")
        with self._lock:
            withdrawn = self._size - size >= self._full_at and self._withdraw(item, size)
        if withdrawn:
            waited = self._wait_for_room(timeout)
            self.items.append(item)
            self._size += size
        error: Error | None = None
        with self._lock:
            gathered = self._look_at != _CLOSED
            if gathered:  # not at each `put` if the network is stuck
                self._look_at = min(self._size + MUCH, self._full_at)
            elif self._refusal and self._withdraw(item, size):
                error = self._refusal()
        if error:
            raise error
        if self._is_written:
            self._write(item, size, self._is_written)
        elif gathered and wake:
            self._drive(None, 0.0)
        return waited

    def _write(self, item: Item, size: int, is_written: Callable[[], bool]) -> None:
        """Waits until the network has `item`."""
        patience = 0.0 if self._is_stuck else self._patience
        until = monotonic() + patience
        try:
            while not is_written():
                self._drive(is_written, until)
                if is_written():
                    break
                if monotonic() >= until:
                    self._is_stuck = True
                    with self._lock:
                        withdrawn = self._withdraw(item, size)
                    if withdrawn and self._away:
                        raise ConnectionReconnectingError(self.outage)
                    if withdrawn:
                        raise OutboundBufferLimitError(self._limit, self._patience)
                    return
                turn = threading.Lock()  # another thread drives, or there is no connection
                turn.acquire()
                turn.acquire(timeout=_LOOK)
            self._is_stuck = False
        except ReentrantCallError:
            pass  # the thread that this one interrupted goes on

    def _withdraw(self, item: Item, size: int) -> bool:
        """Removes `item` again; returns False if it was taken already: then it is sent, or counted as not
        sent."""
        for at in range(len(self.items) - 1, -1, -1):
            if self.items[at] is item:
                del self.items[at]
                self._size -= size
                return True
        return False

    def _wait_for_room(self, timeout: float) -> float:
        """Waits at most `timeout` or `self._timeout` seconds. Returns how long it has waited."""
        began, most = monotonic(), min(timeout, self._timeout)
        until = began + most
        while True:
            with self._lock:
                turn = self._queue_up(until, most)
            if turn is None:
                break
            if isinstance(turn, Error):
                raise turn
            try:
                self._drive(lambda: not self.is_full, until)
            except ReentrantCallError:
                break  # messages from signal handlers and finalizers may exceed the limit
            if self.is_full:
                turn.acquire(timeout=max(0.0, until - monotonic()))
        return monotonic() - began

    def _queue_up(self, until: float, most: float) -> threading.Lock | Error | None:
        """Returns a lock to wait for if there is no room; an error if no room will come or the time `until`
        has passed, `most` seconds after the call; None if there is room."""
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)  # first: a signal handler may interrupt this and make room
        if self._refusal:
            return self._refusal()
        if not self.items:
            self._size = 0  # as above; the driver would have nothing to take
        if self._size < self._full_at:
            return None
        if self._away:
            if not self._away_limit:
                return ConnectionReconnectingError(self.outage)
            return OutboundBufferLimitError(self._away_limit, outage=self.outage)
        if monotonic() >= until:
            return OutboundBufferLimitError(self._limit, most)
        return turn

    def _wake_all(self) -> None:
        """Wakes all threads that wait for room; those that have given up are not disturbed."""
        for turn in self._waiting[:]:
            release(turn)
        self._waiting.clear()
