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
from collections.abc import Callable, Iterable
from contextlib import suppress
from time import monotonic

from ..errors import ReentrantCallError
from .poller import READABLE, WRITABLE, Poller, gate, new_poller
from .transport import Transport, WakePair

__all__ = ["Guest", "Loop"]

_LONGEST = 3600.0  # epoll refuses waits that do not fit 31 bits of milliseconds
_SPIN, _LONGEST_SPIN = 0.05, 1.0  # until a guest has noticed the same deadline
_BURST = 0.0005
_CROWD, _WHILE = 8, 0.004  # so many guests in so many seconds see to everything
_LOOK = 0.001  # how often the own thread looks meanwhile whether they still come
_SOON = 0.05  # a guest that waits for longer can be made to leave at once; that takes 3 us more
_UNKNOWN = -1
_OWN = object()


class Guest:
    """A thread that drives instead of the I/O thread, from `take_seat` to `release`.

    `idle`: it does nothing but wait for the socket, so that a call that interrupts it, from a signal
    handler, may take the seat from it. `evicted`: such a call has; the guest leaves everything alone
    then.
    """

    __slots__ = ("evicted", "idle", "thread")

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.idle = False
        self.evicted = False


class Loop:
    """One thread and what it waits with. Calls are for who drives, unless they say otherwise. `send` sends
    what there is, as a guest, or wakes."""

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        lock: threading.RLock,
        send: Callable[[], None] | None = None,
    ) -> None:
        self.lock = lock
        # As `threading.Condition` asks it.
        self._owns_lock: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]  # no stub
        self.send = send or self.wake
        self.name = name
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
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
        self._seat: dict[str, object] = {"holder": _OWN}
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

        self.transport: Transport | None = None
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
        with self.lock:
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

    def prepare_to_block(self) -> None:
        """Makes sure that somebody drives while this thread waits. For any thread, before it does.

        This thread may run a signal handler or finalizer now, in the middle of driving, or of a change to
        what the lock guards. Where it only waited for the socket, it is evicted; else, and on the own
        thread, nothing would ever end the wait. Raises ReentrantCallError then.
        """
        me = threading.get_ident()
        if me == self._thread.ident or self._owns_lock():
            raise ReentrantCallError
        holder = self._seat.get("holder")
        if isinstance(holder, Guest) and holder.thread == me:
            if not holder.idle:
                raise ReentrantCallError
            holder.evicted = True
            self._evicted += 1
            self._hand_back(holder)
            self._make_leave(True)

    def take_seat(self, guest: Guest) -> bool:
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
        """Takes a wake-up back, so that the next wait does not end at once; before who drives looks for
        what it was for."""
        if self.awake:
            try:
                self._pair.clear()
            finally:
                self.awake = False

    def release(self, guest: Guest) -> None:
        """Makes the own thread drive again, if `guest` did. May be called twice; where it was interrupted,
        `unmute` has to follow."""
        self._hand_back(guest)
        if guest.evicted:
            guest.evicted = False
            self._evicted -= 1
            self._make_leave(False)
            self.wake()  # it may have been told in place of who drives now
        if self._evicted and guest.thread == self._main:
            self._make_leave(True)  # the one that this one interrupted

    def _hand_back(self, guest: Guest) -> None:
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
        with self.lock:
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
        """Sleeps while guests come and go, who see to everything, and looks by the clock if they still
        do."""
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

    def read(self, size: int) -> bytes | None:
        """As `Transport.read`."""
        return self.transport.read(size) if self.transport else None

    @property
    def sender(self) -> Callable[[memoryview], int] | None:
        """As `Transport.sender`."""
        return self.transport.sender if self.transport else None

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
        """Waits for the time `until`. `check` is called at each wake-up and at the times that it returns;
        None, or what it raises, ends the wait."""
        while (due := check()) is not None and monotonic() < until:
            self.wait(min(until, due))

    def wait(
        self,
        until: float,
        writing: bool = False,
        reading: bool = True,
        guest: Guest | None = None,
    ) -> bool:
        """Waits for a readable transport (not, if not `reading`; writable too, if `writing`), a wake-up,
        or the time `until`.

        Returns whether the transport has something to read or, if `writing`, may be able to write. May
        return early. A `guest` has to see afterwards whether it was evicted.
        """
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
        """Waits as the main thread does; nothing is ready where it was evicted meanwhile."""
        assert self._guest_gate
        guest.idle = True
        try:
            found = self._poller.poll(min(left, _SOON))
            if not found and left > _SOON and not guest.evicted:
                for fd, _ in self._guest_gate.poll(left - _SOON):
                    if fd != self._gated and not guest.evicted:
                        self._make_leave(False)  # for one that this one interrupted: see `release`
                found = () if guest.evicted else self._poller.poll(0.0)
        except (OSError, ValueError):
            if not guest.evicted:  # else it may have been closed meanwhile
                raise
        guest.idle = False
        return () if guest.evicted else found

    def _make_leave(self, now: bool) -> None:
        """Ends, or not any more, the wait of a guest that is evicted."""
        with self.lock:
            if self._open:
                self._leave.wake() if now else self._leave.clear()

    def watch(self, writing: bool, reading: bool) -> None:
        """What `wait` and who parks wait for from now on."""
        transport = self.transport
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
        if self.transport:
            self.transport.close()
        self._close_descriptors()

    def _run(self, body: Callable[[], None]) -> None:
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
