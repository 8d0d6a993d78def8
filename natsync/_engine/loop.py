"""Waiting for the socket, a wake-up or a deadline; and who does it.

One thread at a time drives: it alone touches the transport. That is the loop's own thread, unless a
thread that waits for something anyway claims the part as a guest: it then reads what it waits for itself,
which saves two changes of threads. The own thread sleeps meanwhile: what the driver waits with hangs in an
epoll of its own, where a guest switches it off with one system call and no wake-up. While guests come and
go so fast that the own thread would be in their way, and that call too, it keeps out, `aloof`: guests then
read and write for everybody, and it looks every millisecond whether they still come. Where there is no
epoll, there are no guests.

Knows no NATS. Times are readings of the monotonic clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TypeVar

from ..tls import TLS
from .poller import READABLE, WRITABLE, Poller, epoll, new_poller
from .transport import Address, Transport, WakePair, is_numeric, resolve

__all__ = ["Loop"]

_T = TypeVar("_T")

_LONGEST = 3600.0  # epoll refuses waits that do not fit 31 bits of milliseconds
_SPIN, _LONGEST_SPIN = 0.05, 1.0  # until a guest has noticed the same deadline
_BURST = 0.0005
_CROWD, _WHILE = 8, 0.004  # so many guests in so many seconds see to everything
_LOOK = 0.001  # how often the own thread looks meanwhile whether they still come
_UNKNOWN = -1
_OWN = object()


class Loop:
    """One thread and what it waits with. Calls are for who drives, unless they say otherwise. `send` sends
    what there is, as a guest, or wakes."""

    def __init__(
        self, name: str, body: Callable[[], None], send: Callable[[], None] | None = None
    ) -> None:
        self.send = send or self.wake
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._poller = new_poller()
        self._pair = WakePair()
        self._pair_fd = self._pair.fileno()
        self._poller.register(self._pair_fd, READABLE)
        self._gate, self._gated = _gate(self._poller)
        self._is_muted = False
        # Who drives, under one key: single dictionary operations are atomic, also for an interrupt.
        self._seat: dict[str, object] = {"holder": _OWN}
        # A leaf; held over the write of one byte and the like, which never block.
        self._pair_lock = threading.Lock()
        self._open = True
        self.awake = False
        self.until = 0.0
        """When the own thread looks of its own accord, while it is parked."""

        self._nudged = 0.0
        self._guests = 0  # so far, about
        self._crowd_at = 0.0  # when there were so many again
        self._crowd_took = _LONGEST  # and how long that took
        self.aloof = False
        """Guests come so often that the own thread keeps out of their way; it looks soon, by the clock."""

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
        if self.awake:
            return
        with self._pair_lock:
            if self._open:
                try:
                    self.awake = True
                    self._pair.wake()
                except BaseException:
                    # An interrupt of the main thread, before the byte was written.
                    self.awake = False
                    raise

    def wake_if_due(self) -> None:
        """As `wake`, where there is something to send. Who comes after a while sends it at once; in a burst
        the own thread does, many messages with one call of the system."""
        last, self._nudged = self._nudged, monotonic()
        if self._nudged - last >= _BURST:
            self.send()
        else:
            self.wake()

    def take_seat(self, guest: object) -> bool:
        """Makes `guest` drive, if the own thread does nothing but wait; whether it drives now. For any
        thread. `release` must follow in any case, also where this was interrupted."""
        if self._gate is None or self._seat.setdefault("holder", guest) is not guest:
            return False
        self._guests += 1
        if self._guests % _CROWD == 0:
            before, self._crowd_at = self._crowd_at, monotonic()
            self._crowd_took = self._crowd_at - before
        return True

    def mute(self) -> None:
        """Keeps the own thread asleep while a guest waits. For that guest; who only sends does without."""
        if not self.aloof:
            self._set_gate(0)

    def calm(self) -> None:
        """Takes a wake-up back, so that the next wait does not end at once; before who drives looks for what
        it was for."""
        if self.awake:
            try:
                self._pair.clear()
            finally:
                self.awake = False

    def release(self, guest: object) -> None:
        """Makes the own thread drive again, if `guest` did. May be called twice; where it was interrupted,
        `unmute` has to follow."""
        if self._seat.get("holder") is guest:
            self._seat.pop("holder", None)
            if not self.aloof:
                if self._is_muted:
                    self.unmute()
                if self._guests % _CROWD == 0 and self._crowd_took < _WHILE:
                    self.wake()  # so that it keeps out: shutting the gate for each guest takes longer

    def unmute(self) -> None:
        """Lets the own thread see what there is to do. It shuts its gate again where that is too early."""
        self._set_gate(READABLE)

    def _set_gate(self, events: int) -> None:
        with self._pair_lock:
            if self._open and self._gate:
                self._is_muted = not events
                self._gate.modify(self._gated, events)

    def wait_idle(self, until: float, writing: bool, reading: bool, much: bool = False) -> float:
        """For the own thread: lets guests drive, until there is something to do (see `wait`) or the time
        `until` has come. Returns until when `wait` may block then."""
        if self._gate is None:
            return until
        self.watch(writing, reading)
        self.until = until
        self.aloof = much
        self._seat.pop("holder", None)
        spin = _SPIN
        while True:
            left = min(max(0.0, until - monotonic()), _LONGEST)
            ready = False
            if self.aloof or self._is_crowded():
                self._keep_out(self._gate, until)
            else:
                ready = bool(self._gate.poll(left))
            if self._seat.setdefault("holder", _OWN) is _OWN:
                return 0.0
            self._set_gate(0)  # no need to meet that guest again
            if not self._seat:
                self.unmute()  # it has gone meanwhile, and may not have seen that
            if not ready:
                until = self.until = max(until, monotonic() + spin)
                self.wake()  # the guest: something may have come since it looked
                spin = min(spin * 2, _LONGEST_SPIN)

    def _keep_out(self, gate: Poller, until: float) -> None:
        """Sleeps while guests come and go, who see to everything, and looks by the clock if they still do."""
        self.aloof = True
        self._set_gate(0)
        while True:
            guests = self._guests
            gate.poll(_LOOK)
            if guests == self._guests or self.awake or monotonic() >= until:
                break
        self.aloof = False
        self.unmute()  # behind that, as a guest that goes does it the other way round

    def _is_crowded(self) -> bool:
        """Whether guests come so often that they see to everything, and the own thread is in their way."""
        return self._crowd_took < _WHILE and monotonic() - self._crowd_at < _WHILE

    def look_up(
        self, host: str, port: int, until: float, check: Callable[[], None]
    ) -> list[Address]:
        """The addresses of `host`. Raises as `dial` does."""
        if is_numeric(host):
            return resolve(host, port, numeric=True)
        return self.run_blocking(lambda: resolve(host, port), until, check)

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
        while not self.wait(until, writing=True):
            check()
            if monotonic() >= until:
                raise TimeoutError
        self._transport.finish()

    def secure(self, tls: TLS, host: str, until: float, check: Callable[[], None]) -> None:
        """Puts TLS on the connection to `host`. Raises as `dial` does, and OptionError for files."""
        transport = self._transport
        assert transport
        transport.secure(tls, host)
        while not transport.handshake():
            check()
            if monotonic() >= until:
                raise TimeoutError
            self.wait(until, transport.wants_write)

    def read(self, size: int) -> bytes | None:
        """As `Transport.read`."""
        return self._transport.read(size) if self._transport else None

    @property
    def sender(self) -> Callable[[memoryview], int] | None:
        """As `Transport.sender`."""
        return self._transport.sender if self._transport else None

    def write(self, data: memoryview) -> int:
        """As `Transport.write`."""
        return self._transport.write(data) if self._transport else 0

    def drop(self) -> None:
        """Closes the transport, if there is one."""
        if self._transport:
            self._forget(self._transport.fileno())
            self._transport.close()
            self._transport = None
            self._mask = 0

    def pause(self, until: float, check: Callable[[], float]) -> None:
        """Waits for the time `until`. `check` is called at each wake-up and at the times that it returns;
        what it raises ends the wait."""
        due = check()
        while monotonic() < until:
            self.wait(min(until, due))
            due = check()

    def wait(self, until: float, writing: bool = False, reading: bool = True) -> bool:
        """Waits for a readable transport (not, if not `reading`; writable too, if `writing`), a wake-up,
        or the time `until`.

        Returns whether the transport has something to read or, if `writing`, may be able to write. May
        return early.
        """
        self.watch(writing, reading)
        ready = False
        left = until - monotonic()
        try:
            left = 0.0 if left < 0.0 else left if left < _LONGEST else _LONGEST
            for fd, _ in self._poller.poll(left):
                if fd == self._pair_fd:
                    self._pair.clear()
                else:
                    ready = True
        finally:
            # Before the caller looks for work: who leaves some after that look writes a byte again. Also
            # where an interrupt took the byte: there would never be another one.
            self.awake = False
        return ready

    def watch(self, writing: bool, reading: bool) -> None:
        """What `wait` and who parks wait for from now on."""
        transport = self._transport
        if transport is None:
            return
        mask = READABLE if reading else 0
        if writing or transport.wants_write:
            mask |= WRITABLE
        if mask == self._mask:
            return
        fd = transport.fileno()
        # Until that is done: an interrupt may come in between, and then nobody knows.
        before, self._mask = self._mask, _UNKNOWN
        if before == _UNKNOWN:
            self._forget(fd)
            before = 0
        if not mask:  # one of nothing would still tell of the end, again and again
            if before:
                self._poller.unregister(fd)
        elif before:
            self._poller.modify(fd, mask)
        else:
            self._poller.register(fd, mask)
        self._mask = mask

    def _forget(self, fd: int) -> None:
        with suppress(KeyError, OSError):  # it may be known or not
            self._poller.unregister(fd)

    def abandon(self) -> None:
        """Closes the descriptors, and nothing else: this is a forked child, and they are copies. What is
        registered is the parent's, too, so nothing is unregistered."""
        self._seat["holder"] = _OWN
        self._open = False
        if self._transport:
            self._transport.close()
        if self._gate:
            self._gate.close()
        self._poller.close()
        self._pair.close()

    def run_blocking(self, call: Callable[[], _T], until: float, check: Callable[[], None]) -> _T:
        """What `call` returns, which may block and so is made on a thread of its own. Nothing is read
        meanwhile.

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

        thread = threading.Thread(target=run, name=f"{self._thread.name}-blocking", daemon=True)
        thread.start()
        while not (values or errors):
            if monotonic() >= until:
                raise TimeoutError
            self.wait(
                until, reading=False
            )  # else what there is to read would end each wait at once
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
            if self._gate:
                self._gate.close()
            self._poller.close()
            self._pair.close()


def _gate(poller: Poller) -> tuple[Poller | None, int]:
    """An epoll that is ready when `poller` is, and what stands for that in it; None where the system, or
    who patched it, has none."""
    gate = epoll()
    if gate is None or not hasattr(poller, "fileno"):
        return None, -1
    fd: int = poller.fileno()
    gate.register(fd, READABLE)
    return gate, fd
