"""Waiting for the socket, a wake-up or a deadline, on one thread at a time: the driver.

Only the driver touches the transport; `seat` decides which thread that is. This module knows nothing of NATS.
Times are times of the monotonic clock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from io import BytesIO
from time import monotonic

from .forks import notice_fork, same_process
from .poller import READABLE, WRITABLE, Poller, gate, new_poller
from .transport import Transport, WakePair
from .waiter import Guest

__all__ = ["LONGEST", "ROOM", "Loop"]

LONGEST = 3600.0  # epoll refuses waits that do not fit 31 bits of milliseconds
_BURST = 0.0005
"""A caller that has something to send after a pause of this many seconds sends it itself. At one message per
millisecond, a message costs 97 us of CPU time that way, and 135 us if the caller wakes the I/O thread
(CPython 3.11)."""
_SOON = 0.05  # a guest that waits longer can be evicted at once, which costs 3 us
_UNKNOWN = -1
ROOM = 256 << 10
"""The largest number of bytes in one read. With 64 KiB, or with 1 MiB, which fits into no cache, a message of
16 KiB takes 1.3 times as much CPU time (CPython 3.11)."""


class Loop:
    """Waits for the driver. Only the driver may call methods, unless a docstring says otherwise. `send` sends
    as a guest or wakes the driver. Helper threads have `name` in their names."""

    def __init__(
        self, name: str, lock: threading.RLock, send: Callable[[], None] | None = None
    ) -> None:
        self.name = name
        self.lock = lock
        self.send = send or self.wake
        self.is_open = True
        self._poller = new_poller()
        self._pair = WakePair()
        self._pair_fd = self._pair.fileno()
        self._poller.register(self._pair_fd, READABLE)
        # The main thread, which alone runs signal handlers, waits at this gate as a guest. It can be made to
        # leave without disturbing the thread that drives meanwhile.
        self._guest_gate, self._gated = gate(self._poller)
        self._leave = WakePair()
        self.evicted = 0
        """The number of evicted guests that have not left yet."""
        if self._guest_gate:
            self._guest_gate.register(self._leave.fileno(), READABLE)
        self._main = threading.main_thread().ident
        self.awake = False
        """Whether the driver will look for work before it waits, because it is not waiting or a byte ends its
        wait."""

        self.standby = False
        """Whether the I/O thread is on standby, because guests come often. It then checks soon by itself."""

        self._last_wakeup = 0.0
        self.transport: Transport | None = None
        self.buffer = BytesIO(bytes(ROOM + 1))
        """The buffer for the reads of all connections. New memory for each read fragmented the heap: with 14
        threads a process grew by 3.9 MB from minute 10 to 25, and with this buffer by 0.4 (glibc 2.36)."""

        self.mask = 0  # the events for which the poller watches the transport
        # The descriptor that the poller has. After TLS failed to begin, the transport may have none.
        self._registered = -1

    def gate(self) -> tuple[Poller | None, int]:
        """Returns an epoll that is ready when the poller is, and the poller's descriptor, with which the
        epoll is switched off; None and -1 if the system has no epoll."""
        return gate(self._poller)

    def wake(self) -> None:
        """Ends the current wait of the driver, or the next one if it is not waiting. For any thread."""
        if self.awake:
            return
        if not same_process[0]:
            notice_fork()
        with self.lock:
            if self.is_open:
                try:
                    self.awake = True
                    self._pair.wake()
                except BaseException:
                    # An interrupt came before the byte was written.
                    self.awake = False
                    raise

    def wake_anew(self) -> None:
        """Wakes the next driver. Called by a driver that leaves before it has looked again."""
        self.awake = False
        self.wake()

    def wake_if_due(self) -> None:
        """Wakes the driver because there is something to send. After a pause the caller sends at once;
        in a burst the I/O thread sends much with one system call."""
        last, self._last_wakeup = self._last_wakeup, monotonic()
        if self._last_wakeup - last >= _BURST:
            self.send()
        else:
            self.wake()

    def calm(self) -> None:
        """Takes back a wake-up, so that it does not end the next wait. Called before the driver looks for the
        reason of the wake-up."""
        if self.awake:
            try:
                self._pair.clear()
            finally:
                self.awake = False

    def evict(self, guest: Guest) -> None:
        """Makes `guest`, which only waits, leave as soon as it runs again; `make_leave` must follow. Called
        on the thread of the guest."""
        guest.evicted = True
        self.evicted += 1

    def leave(self, guest: Guest) -> None:
        """Called on the thread of a guest that has left while some guests are evicted."""
        if guest.evicted:
            guest.evicted = False
            self.evicted -= 1
            self.make_leave(False)
            self.wake()  # a wake-up meant for the current driver may have ended its wait
        if self.evicted and guest.thread == self._main:
            self.make_leave(True)  # the guest that this one interrupted

    def make_leave(self, now: bool) -> None:
        """Ends the wait of an evicted guest if `now`; otherwise takes that back. For any thread."""
        with self.lock:
            if self.is_open:
                self._leave.wake() if now else self._leave.clear()

    def read(self, size: int) -> bytes | None:
        """As `Transport.read`."""
        return self.transport.read(size) if self.transport else None

    def write(self, data: memoryview) -> int:
        """As `Transport.write`."""
        return self.transport.write(data) if self.transport else 0

    @property
    def begun(self) -> int:
        """As `Transport.begun`."""
        return self.transport.begun if self.transport else 0

    def limit(self, max_payload: int) -> None:
        """As `Transport.limit`."""
        if self.transport:
            self.transport.limit(max_payload)

    def finish_writing(self) -> None:
        """As `Transport.finish_writing`."""
        if self.transport:
            self.transport.finish_writing()

    def drop(self) -> None:
        """Closes the transport, if there is one."""
        if self.transport:
            if self._registered >= 0:
                self._forget(self._registered)
            self.transport.close()
            self.transport = None
            self.mask, self._registered = 0, -1

    def pause(self, until: float, check: Callable[[], float | None]) -> None:
        """Waits until the time `until`. Calls `check` at each wake-up and at the times that it returns. Ends
        early if `check` returns None or raises."""
        while (due := check()) is not None and monotonic() < until:
            self.wait(min(until, due))

    def wait(
        self,
        until: float,
        writing: bool = False,
        reading: bool = True,
        guest: Guest | None = None,
    ) -> bool:
        """Waits for a transport that is readable (if `reading`) or writable (if `writing`), for a wake-up, or
        until the time `until`.

        Returns whether the transport has something to read or, if `writing`, may be able to write. May
        return early. A `guest` has to check afterwards whether it was evicted.
        """
        if writing or not reading or self.mask != READABLE:
            self.watch(writing, reading)
        elif self.transport and self.transport.wants_write:
            self.watch(writing, reading)
        ready = False
        left = until - monotonic()
        try:
            left = 0.0 if left < 0.0 else left if left < LONGEST else LONGEST
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
            # Before the caller looks for work: a thread that adds work after that look writes a byte again.
            # Also after an interrupt, which may have come after the byte was read: while `awake` is true, no
            # thread writes another one.
            self.awake = False
        if guest is not None and not guest.evicted:
            self.awake = True  # until it looks, before its next wait
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
                        # This was for a guest that this one has interrupted: see `leave`.
                        self.make_leave(False)
                found = () if guest.evicted else self._poller.poll(0.0)
        except (OSError, ValueError):
            if not guest.evicted:  # an evicted guest may find the poller closed
                raise
        guest.idle = False
        return () if guest.evicted else found

    def watch(self, writing: bool, reading: bool) -> None:
        """Registers the socket for the events that drivers and the parked I/O thread wait for."""
        transport = self.transport
        if transport is None:
            return
        mask = READABLE if reading else 0
        if writing or transport.wants_write:
            mask |= WRITABLE
        if mask == self.mask:
            return
        fd = self._registered = transport.fileno()
        # Unknown until the change is done, since an interrupt may come in between.
        before, self.mask = self.mask, _UNKNOWN
        if before == _UNKNOWN:
            self._forget(fd)
            before = 0
        if not mask:  # an empty mask would still report the end of the stream, repeatedly
            if before:
                self._poller.unregister(fd)
        elif before:
            self._poller.modify(fd, mask)
        else:
            self._poller.register(fd, mask)
        self.mask = mask

    def _forget(self, fd: int) -> None:
        with suppress(KeyError, OSError):  # it may not be registered
            self._poller.unregister(fd)

    def close(self) -> None:
        """Closes the descriptors. Called when no thread waits any more."""
        with self.lock:
            self.is_open = False
            self._close_descriptors()

    def abandon(self) -> None:
        """Closes the descriptors of a forked child. Nothing is unregistered: the registrations are the
        parent's."""
        self.is_open = False
        if self.transport:
            self.transport.close()
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        for each in (self._guest_gate, self._poller, self._pair, self._leave):
            if each:
                each.close()
