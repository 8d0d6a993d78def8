"""Waiting for the socket, a wake-up or a deadline, on one thread at a time: the driver.

Only the driver touches the transport. That is the I/O thread, unless a thread that has to wait anyway
takes its place as a guest: it then reads what it waits for itself, which saves two switches of threads,
while the I/O thread sleeps at the gate, an epoll that a guest switches off with one system call. When
callers block so often that handing over the socket costs more than it saves, the I/O thread stands
aside (`aloof`): guests read and write for everybody, and it looks every millisecond whether they still
come. Without epoll there are no guests.

Knows no NATS. Times are readings of the monotonic clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

from ..errors import ReentrantCallError
from .poller import READABLE, WRITABLE, Poller, gate, new_poller
from .transport import Transport, WakePair
from .waiter import Guest

__all__ = ["Loop"]

_LONGEST = 3600.0  # epoll refuses waits that do not fit 31 bits of milliseconds
_SPIN, _LONGEST_SPIN = 0.05, 1.0  # for a guest to notice the same deadline
_BURST = 0.0005
"""After so many seconds a caller sends by itself. At a message a millisecond each takes 97 us of CPU time
that way, and 135 us if it wakes the I/O thread (CPython 3.11)."""
_CROWD, _WHILE = 8, 0.004
"""With 8 guests in 4 ms the I/O thread stands aside: with 16 requests in flight from one thread each takes
10 us of CPU time instead of 12; with 16 threads it makes no difference (CPython 3.11)."""
_LOOK = 0.001  # how often it looks then whether they still come; 10 times as often takes the same CPU time
_SOON = 0.05  # a guest that waits for longer can be evicted at once; that costs 3 us
_UNKNOWN = -1


_OWN = Guest()
"""Stands for the I/O thread, which is nobody's guest."""
_OWN.thread = 0


class Loop:
    """The I/O thread and what it waits for. Calls are for the driver unless they say otherwise. `send`
    sends as a guest, or wakes the driver."""

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        lock: threading.RLock,
        send: Callable[[], None] | None = None,
    ) -> None:
        self.lock = lock
        # As in `threading.Condition`.
        self._owns_lock: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]  # no stub
        self.send = send or self.wake
        self.name = name
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._io_thread: int | None = None  # its id, once it runs
        self._poller = new_poller()
        self._pair = WakePair()
        self._pair_fd = self._pair.fileno()
        self._poller.register(self._pair_fd, READABLE)
        self._gate, self._gated = gate(self._poller)
        # With this the main thread waits as a guest, which alone runs signal handlers: it can be made to
        # leave it without disturbing who drives meanwhile.
        self._guest_gate, _ = gate(self._poller)
        self._leave = WakePair()
        self._evicted = 0  # guests that have not left yet
        if self._guest_gate:
            self._guest_gate.register(self._leave.fileno(), READABLE)
        self._main = threading.main_thread().ident
        self._is_muted = False
        # Who drives, under one key: single dictionary operations are atomic, also for an interrupt.
        self._seat: dict[str, Guest] = {"holder": _OWN}
        self._open = True
        self.awake = False
        self.until = 0.0
        """The time at which the parked I/O thread wakes up by itself."""

        self._nudged = 0.0
        self._guests = 0  # so far, about
        self._crowd_at = 0.0  # when the last crowd was complete
        self._crowd_took = _LONGEST  # and how long that took
        self.aloof = False
        """Guests come so often that the I/O thread stands aside; it looks soon, by the clock."""

        self.transport: Transport | None = None
        self._mask = 0

    def start(self) -> None:
        """Starts the thread; for any thread, once."""
        try:
            self._thread.start()
        except RuntimeError:  # the system gives no more threads
            self._close()
            raise

    def join(self, until: float) -> bool:
        """Waits for the end of the thread and returns whether it has ended. For any other thread."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - monotonic()))
        return not self._thread.is_alive()

    def wake(self) -> None:
        """Ends the current wait of the driver, or else the next one. For any thread, at any time."""
        if self.awake:
            return
        with self.lock:
            if self._open:
                try:
                    self.awake = True
                    self._pair.wake()
                except BaseException:
                    # An interrupt of the main thread before the byte was written.
                    self.awake = False
                    raise

    def wake_if_due(self) -> None:
        """Wakes the driver because there is something to send. After a pause the caller sends at once;
        in a burst the I/O thread sends much with one system call."""
        last, self._nudged = self._nudged, monotonic()
        if self._nudged - last >= _BURST:
            self.send()
        else:
            self.wake()

    def prepare_to_block(self) -> None:
        """Makes sure that another thread can drive while this one waits. For any thread, before it
        waits.

        This thread may be running a signal handler or finalizer that has interrupted it while it was
        driving, or changing what the lock guards. If it only waited for the socket, it is evicted;
        otherwise, and on the I/O thread, nothing would ever end the wait: raises ReentrantCallError.
        """
        me = threading.get_ident()
        if me == self._io_thread or self._owns_lock():
            raise ReentrantCallError
        holder = self._seat.get("holder")
        if holder is not None and holder.thread == me:
            if not holder.idle:
                raise ReentrantCallError
            holder.evicted = True
            self._evicted += 1
            self._seat.pop("holder", None)
            if not self.aloof:
                self._show_socket()
            self._make_leave(True)

    def take_seat(self, guest: Guest) -> bool:
        """Makes `guest` the driver if the I/O thread is parked; returns whether it drives. For any
        thread. `release` must follow, also after an interrupt."""
        if self._gate is None or self._seat.setdefault("holder", guest) is not guest:
            return False
        self._guests += 1
        if self._guests % _CROWD == 0:
            before, self._crowd_at = self._crowd_at, monotonic()
            self._crowd_took = self._crowd_at - before
        return True

    def mute(self) -> None:
        """Keeps the I/O thread asleep while a guest waits. For that guest, unless the I/O thread is
        `aloof`."""
        self._set_gate(0)

    def calm(self) -> None:
        """Takes back a wake-up, so that the next wait does not end at once; before the driver looks for
        its reason."""
        if self.awake:
            try:
                self._pair.clear()
            finally:
                self.awake = False

    def release(self, guest: Guest) -> None:
        """Ends the turn of `guest`. May be called twice; after an interrupt, `unmute` must follow."""
        if self._seat.get("holder") is guest:
            self._seat.pop("holder", None)
            if not self.aloof:  # looked at only now: the I/O thread does it the other way round
                self._show_socket()
        if guest.evicted:
            guest.evicted = False
            self._evicted -= 1
            self._make_leave(False)
            self.wake()  # a wake-up for the present driver may have ended its wait
        if self._evicted and guest.thread == self._main:
            self._make_leave(True)  # the one that this one interrupted

    def _show_socket(self) -> None:
        """Lets the I/O thread see the socket again after a guest has left."""
        if self._is_muted:
            self.unmute()
        if self._guests % _CROWD == 0 and self._crowd_took < _WHILE:
            self.wake()  # so that it stands aside: switching the gate for each guest takes longer

    def unmute(self) -> None:
        """Lets the I/O thread see the socket again. It switches its gate off again if that is too
        early."""
        self._set_gate(READABLE)

    def _set_gate(self, events: int) -> None:
        with self.lock:
            if self._open and self._gate:
                self._is_muted = not events
                self._gate.modify(self._gated, events)

    def wait_idle(self, until: float, writing: bool, reading: bool, much: bool = False) -> float:
        """For the I/O thread: lets guests drive until there is something to do, or the time `until`.
        Returns the time until which `wait` may block then."""
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
            self._set_gate(0)  # this guest need not wake it again
            if not self._seat:
                self.unmute()  # the guest has left meanwhile, and may not have seen that
            if not ready:
                until = self.until = max(until, monotonic() + spin)
                self.wake()  # the guest: there may be something new since it looked
                spin = min(spin * 2, _LONGEST_SPIN)

    def _keep_out(self, gate: Poller, until: float) -> None:
        """Sleeps while guests do all the work, and looks by the clock whether they still come."""
        self.aloof = True
        self._set_gate(0)
        while True:
            guests = self._guests
            gate.poll(_LOOK)
            if guests == self._guests or self.awake or monotonic() >= until:
                break
        self.aloof = False
        self.unmute()  # in this order: a guest that leaves does it the other way round

    def _is_crowded(self) -> bool:
        """Whether guests come so often that the I/O thread would only be in their way."""
        return self._crowd_took < _WHILE and monotonic() - self._crowd_at < _WHILE

    def read(self, size: int) -> bytes | None:
        """As `Transport.read`."""
        return self.transport.read(size) if self.transport else None

    def write(self, data: memoryview) -> int:
        """As `Transport.write`."""
        return self.transport.write(data) if self.transport else 0

    def finish_writing(self) -> None:
        """As `Transport.finish_writing`."""
        if self.transport:
            self.transport.finish_writing()

    def drop(self) -> None:
        """Closes the transport, if there is one."""
        if self.transport:
            self._forget(self.transport.fileno())
            self.transport.close()
            self.transport = None
            self._mask = 0

    def pause(self, until: float, check: Callable[[], float | None]) -> None:
        """Waits for the time `until`; calls `check` at each wake-up and at the times that it returns.
        Ends if it returns None or raises."""
        while (due := check()) is not None and monotonic() < until:
            self.wait(min(until, due))

    def wait(
        self,
        until: float,
        writing: bool = False,
        reading: bool = True,
        guest: Guest | None = None,
    ) -> bool:
        """Waits for a readable transport (not, if not `reading`; also for a writable one, if
        `writing`), a wake-up, or the time `until`.

        Returns whether the transport has something to read or, if `writing`, may be able to write. May
        return early. A `guest` has to check afterwards whether it was evicted.
        """
        if writing or not reading or self._mask != READABLE:
            self.watch(writing, reading)
        elif self.transport and self.transport.wants_write:
            self.watch(writing, reading)
        ready = False
        left = until - monotonic()
        try:
            left = 0.0 if left < 0.0 else left if left < _LONGEST else _LONGEST
            if guest is not None and guest.thread == self._main:
                found = self._poll_as_guest(guest, left)
            else:
                found = self._poller.poll(left)
            for fd, _ in found:
                if fd == self._pair_fd:
                    self._pair.clear()
                else:
                    ready = True
        finally:
            # Before the caller looks for work: who leaves some after that look writes a byte again. Also
            # where an interrupt took the byte: there would never be another one.
            self.awake = False
        return ready

    def _poll_as_guest(self, guest: Guest, left: float) -> Iterable[tuple[int, int]]:
        """Waits on the main thread; returns nothing if the guest was evicted meanwhile."""
        assert self._guest_gate
        guest.idle = True
        try:
            found = self._poller.poll(left if left < _SOON else _SOON)
            if not found and left > _SOON and not guest.evicted:
                for fd, _ in self._guest_gate.poll(left - _SOON):
                    if fd != self._gated and not guest.evicted:
                        # It was for a guest that this one has interrupted: see `release`.
                        self._make_leave(False)
                found = () if guest.evicted else self._poller.poll(0.0)
        except (OSError, ValueError):
            if not guest.evicted:  # else the poller may have been closed meanwhile
                raise
        guest.idle = False
        return () if guest.evicted else found

    def _make_leave(self, now: bool) -> None:
        """Ends the wait of an evicted guest; or no longer does so."""
        with self.lock:
            if self._open:
                self._leave.wake() if now else self._leave.clear()

    def watch(self, writing: bool, reading: bool) -> None:
        """Registers the socket for the events that drivers and the parked I/O thread wait for."""
        transport = self.transport
        if transport is None:
            return
        mask = READABLE if reading else 0
        if writing or transport.wants_write:
            mask |= WRITABLE
        if mask == self._mask:
            return
        fd = transport.fileno()
        # Unknown until that is done, since an interrupt may come in between.
        before, self._mask = self._mask, _UNKNOWN
        if before == _UNKNOWN:
            self._forget(fd)
            before = 0
        if not mask:  # an empty mask would still report the end of the stream, again and again
            if before:
                self._poller.unregister(fd)
        elif before:
            self._poller.modify(fd, mask)
        else:
            self._poller.register(fd, mask)
        self._mask = mask

    def _forget(self, fd: int) -> None:
        with suppress(KeyError, OSError):  # it may be registered or not
            self._poller.unregister(fd)

    def abandon(self) -> None:
        """Closes the descriptors of a forked child. Nothing is unregistered: the registrations are the
        parent's."""
        self._seat["holder"] = _OWN
        self._open = False
        if self.transport:
            self.transport.close()
        self._close_descriptors()

    def _run(self, body: Callable[[], None]) -> None:
        self._io_thread = threading.get_ident()
        try:
            body()
        finally:
            self.drop()
            self._close()

    def _close(self) -> None:
        with self.lock:
            self._open = False
            self._close_descriptors()

    def _close_descriptors(self) -> None:
        for each in (self._gate, self._guest_gate, self._poller, self._pair, self._leave):
            if each:
                each.close()
