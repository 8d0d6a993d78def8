"""The I/O thread's tools: a wait for the socket, a wake-up or a deadline, and what is to be sent.

Knows no NATS. `Loop` is the thread and its selector; `Outbox` is where all other threads leave what
they want sent, in order, with back-pressure. Times are readings of the monotonic clock.
"""

from __future__ import annotations

import selectors
import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

from .errors import OutboundBufferLimitError
from .transport import Address, Transport, WakePair, is_numeric, resolve

__all__ = ["Item", "Loop", "Order", "Outbox"]

_T = TypeVar("_T")

_LONGEST = 3600.0  # epoll refuses waits that do not fit 31 bits of milliseconds

Order = Callable[[], None]
"""A call for the I/O thread, made when everything before it in the outbox is on its way."""

Item = bytes | Order


class Loop:
    """One thread and what it waits with. Calls are for that thread, unless they say otherwise."""

    def __init__(self, name: str, body: Callable[[], None]) -> None:
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._selector = selectors.DefaultSelector()
        self._pair = WakePair()
        self._selector.register(self._pair, selectors.EVENT_READ)
        # A leaf; held over the write of one byte, which never blocks.
        self._pair_lock = threading.Lock()
        self._open = True
        self._awake = False
        self._transport: Transport | None = None
        self._mask = 0

    def start(self) -> None:
        """Starts the thread; any thread may call this, once."""
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no more threads
            self._close()
            raise

    def join(self, until: float) -> bool:
        """Waits for the thread's end; whether it has ended. For any thread but itself."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - monotonic()))
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Ends the wait that is on, or else the next one. Any thread may call this, at any time."""
        if self._awake:
            return
        with self._pair_lock:
            if self._open:
                try:
                    self._awake = True
                    self._pair.wake()
                except BaseException:
                    # An interrupt of the main thread, before the byte was written.
                    self._awake = False
                    raise

    def look_up(
        self, host: str, port: int, until: float, check: Callable[[], None]
    ) -> list[Address]:
        """The addresses of `host`. Raises as `dial` does."""
        if is_numeric(host):
            return resolve(host, port, numeric=True)
        return self._aside(lambda: resolve(host, port), until, check)

    def dial(self, addresses: list[Address], until: float, check: Callable[[], None]) -> None:
        """Connects to the first address that answers; each gets an equal share of the time left.

        Raises OSError, TimeoutError at the time `until`, and what `check` raises, which is called at
        each wake-up.
        """
        for left in range(len(addresses), 0, -1):
            try:
                self._dial(addresses[-left], monotonic() + (until - monotonic()) / left, check)
                return
            except OSError:
                self.drop()
                check()
                if left == 1:
                    raise

    def _dial(self, address: Address, until: float, check: Callable[[], None]) -> None:
        self._transport = Transport(address)
        self._mask = selectors.EVENT_READ
        self._selector.register(self._transport, self._mask)
        while not self.wait(until, writing=True):
            check()
            if monotonic() >= until:
                raise TimeoutError
        self._transport.finish()

    def read(self) -> bytes | None:
        """As `Transport.read`."""
        return self._transport.read() if self._transport else None

    def write(self, data: memoryview) -> int:
        """As `Transport.write`."""
        return self._transport.write(data) if self._transport else 0

    def drop(self) -> None:
        """Closes the transport, if there is one."""
        if self._transport:
            self._selector.unregister(self._transport)
            self._transport.close()
            self._transport = None

    def wait(self, until: float, writing: bool = False) -> bool:
        """Waits for a readable transport (writable too, if `writing`), a wake-up, or the time `until`.

        Returns whether the transport has something to read or, if `writing`, may be able to write. May
        return early.
        """
        mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if writing else 0)
        if self._transport and mask != self._mask:
            self._selector.modify(self._transport, mask)
            self._mask = mask
        ready = False
        for key, _ in self._selector.select(min(max(0.0, until - monotonic()), _LONGEST)):
            if key.fileobj is self._pair:
                self._pair.clear()
            else:
                ready = True
        # Before the caller looks for work: who leaves some after that look writes a byte again.
        self._awake = False
        return ready

    def _aside(self, call: Callable[[], _T], until: float, check: Callable[[], None]) -> _T:
        """What `call` returns, which may block and so is made on a thread of its own.

        If it still blocks when this raises, it keeps that thread, a daemon: nothing can interrupt the
        system's resolver.
        """
        values: list[_T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                values.append(call())
            except Exception as error:  # handed to the thread that waits
                errors.append(error)
            self.wake()

        thread = threading.Thread(target=run, name=f"{self._thread.name}-aside", daemon=True)
        thread.start()
        while not (values or errors):
            if monotonic() >= until:
                raise TimeoutError
            self.wait(until)
            check()
        thread.join()
        for error in errors:
            raise error
        return values[0]

    def _run(self, body: Callable[[], None]) -> None:
        try:
            body()
        finally:
            self.drop()
            self._close()

    def _close(self) -> None:
        with self._pair_lock:
            self._open = False
            self._selector.close()
            self._pair.close()


class Outbox:
    """What is to be sent, in order: bytes, and orders that the I/O thread carries out in their place.

    One lock, a leaf: nothing is called while it is held. `put` and `order` are for any thread but the
    I/O thread, which takes.
    """

    def __init__(self, wake: Callable[[], None], limit: int, timeout: float) -> None:
        self._wake = wake
        self._limit = limit
        self._timeout = timeout
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._items: list[Item] = []
        self._size = 0
        self._refusal: Callable[[], Exception] | None = None

    def put(self, data: bytes) -> None:
        """Leaves `data` to be sent; waits while `limit` bytes are there already.

        Raises OutboundBufferLimitError if that takes too long, and once closed what `close` was told.
        """
        with self._lock:
            if self._size >= self._limit or self._refusal:
                self._wait_for_room()
            self._items.append(data)
            self._size += len(data)
        self._wake()  # always: an interrupt may have kept the one before this from it

    def order(self, order: Order) -> None:
        """Leaves a call to be made by the I/O thread in its turn. Never waits; raises once closed."""
        with self._lock:
            if self._refusal:
                raise self._refusal()
            self._items.append(order)
        self._wake()

    def take(self) -> list[Item]:
        """Everything that is there."""
        with self._lock:
            items, self._items = self._items, []
            if self._size >= self._limit:
                self._room.notify_all()
            self._size = 0
        return items

    def close(self, refusal: Callable[[], Exception], last: Order | None = None) -> None:
        """Accepts nothing any more but `last`; every later call, and all that wait, get `refusal()`.

        The first call counts.
        """
        with self._lock:
            if self._refusal:
                return
            self._refusal = refusal
            if last:
                self._items.append(last)
            self._room.notify_all()
        self._wake()

    def _wait_for_room(self) -> None:
        until = monotonic() + self._timeout
        while self._size >= self._limit and not self._refusal:
            if not self._room.wait(until - monotonic()) and monotonic() >= until:
                raise OutboundBufferLimitError(self._limit, self._timeout)
        if self._refusal:
            raise self._refusal()
