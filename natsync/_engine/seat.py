"""The seat: one thread at a time drives, that is, moves the bytes of an open connection.

The driver is either the I/O thread or a guest: a thread that waits for something or publishes much. A guest
reads what it waits for itself, which saves two thread switches. Meanwhile the I/O thread sleeps at the gate,
an epoll that a guest switches off with one system call.

    I/O thread drives  -- nothing to do: `wait_idle` ------>  seat free
    seat free          -- socket, wake-up or deadline ----->  I/O thread drives
    seat free          -- `take` -------------------------->  guest drives
    guest drives       -- `release` ----------------------->  seat free
    guest drives, and only waits for the socket
                       -- a signal handler on its thread makes a call that waits:
                          `prepare_to_block` -------------->  seat free; the guest leaves when it runs again
    guest drives, and reads or writes
                       -- such a call --------------------->  unchanged; the call raises ReentrantCallError

When callers block so often that switching the gate costs more than it saves, the I/O thread goes on standby
(`Loop.standby`): guests read and write for everybody, and the I/O thread checks every two milliseconds
whether guests still come. Without epoll there are no guests.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from time import monotonic
from typing import Generic, Protocol, TypeVar

from ..errors import ConnectionClosedError, Error, ForkedError, ReentrantCallError, fresh
from ..options import MAX_WAIT
from .forks import notice_fork, same_process
from .loop import LONGEST, Loop
from .outbound_buffer import OutboundBuffer
from .poller import READABLE, Poller
from .waiter import Guest, StateLock

__all__ = ["Ending", "Seat", "Waiter"]

_NEVER = float("inf")
_is_finalizing = sys.is_finalizing  # modules are cleared in the end
_SPIN, _LONGEST_SPIN = 0.05, 1.0  # seconds for a guest to notice the same deadline
_BURST, _WHILE = 4, 0.004
"""After 4 guests within 4 ms the I/O thread goes on standby. With 16 requests in flight from one thread, a
request then takes 10 us of CPU time instead of 12; with 16 threads it makes no difference. One thread with 16
requests in flight is a guest 5 to 10 times in 4 ms. A limit of 8 guests is therefore reached only sometimes,
and takes 1.07 times as much CPU time (CPython 3.11)."""
_LOOK = 0.002
"""The interval in seconds at which the I/O thread on standby checks whether guests still come. One interval
without guests ends the standby. Intervals of 0.1 ms and 1 ms cost the same CPU time. Beside 1,200 requests a
second, a message reaches its handler after 0.9 ms; with an interval of 1 ms, after 0.7 (medians on a busy
machine)."""

_OWN = Guest()
"""Stands for the I/O thread, which is not a guest."""
_OWN.thread = 0

_T = TypeVar("_T")


class Driven(Protocol):
    """The open connection, as `Channel` has it."""

    def push(self) -> bool: ...
    def turn(self, until: float, guest: Guest | None = None) -> None: ...
    def leaves_work(self, until: float) -> bool: ...


class Ending(IntEnum):
    """Why the open connection has to end; the highest value counts. CLOSE ends the client, too."""

    NOT = 0
    REPLACE = 1
    BROKEN = 2
    CLOSE = 3


class Seat:
    """Decides which thread drives; a client has one seat for all its connections. `channel` is the open
    connection, `limits` are those of the outbound buffer. `ending` says whether the connection has to end:
    broken for the reason `cause`, or closed by the time `close_by`."""

    def __init__(self, name: str, lock: StateLock, limits: tuple[int, float, int]) -> None:
        self.loop = Loop(name, lock, partial(self.drive, None, 0.0))
        self.outbound = OutboundBuffer(self.loop, self.drive, lock, *limits)
        self.channel: Driven | None = None
        self.ending = Ending.NOT
        self.cause: Error | None = None
        self.close_by = _NEVER
        self.io_thread: int | None = None  # the thread's id, once it runs
        # As `threading.Condition` does.
        self._owns_lock: Callable[[], bool] = lock._is_owned  # type: ignore[attr-defined]  # no stub
        self._gate, self._gated = self.loop.gate()
        self._is_muted = False
        # The driver, under one key: single dictionary operations are atomic, even if an interrupt comes.
        self._seat: dict[str, Guest] = {"holder": _OWN}
        self._until = 0.0  # the time at which the parked I/O thread wakes up by itself
        self._guests = 0  # the approximate number of guests up to now
        self._burst_at = 0.0  # the time of the last guest of the latest group of `_BURST` guests
        self._burst_took = LONGEST  # and how long that group took

    # For any thread.

    def end(self, ending: Ending, cause: Error | None = None, close_by: float = _NEVER) -> None:
        """Notes that the connection has to end, unless it has to for a higher reason. The driver ends it."""
        with self.loop.lock:
            self.cause = self.cause or cause
            if ending > self.ending:
                # No call, so that no interrupt can come in between.
                self.ending = ending
                self.close_by = close_by

    @property
    def is_closing(self) -> bool:
        """Whether the client is being closed, or is closed."""
        return self.ending is Ending.CLOSE

    def waiter(self, subject: str = "") -> Waiter[_T]:
        """Calls `prepare_to_block`, and returns a waiter for this thread."""
        self.prepare_to_block()
        return Waiter(self._drive, subject)

    def prepare_to_block(self) -> None:
        """Ensures that another thread can drive while this one waits. Any thread calls it before it waits,
        and before it sends the request for whose answer it waits.

        This thread may be running a signal handler or finalizer that interrupted it while it was driving or
        holding the lock. If it was only waiting for the socket, it is evicted from the seat. Otherwise, and
        on the I/O thread, nothing would ever end the wait: raises ReentrantCallError.
        """
        if not same_process[0]:
            notice_fork()
        me = threading.get_ident()
        if me == self.io_thread or self._owns_lock():
            raise ReentrantCallError
        if _is_finalizing():  # other threads are frozen: perhaps the driver, too
            raise ConnectionClosedError("the interpreter is shutting down")
        holder = self._seat.get("holder")
        if holder is not None and holder.thread == me:
            if not holder.idle:
                raise ReentrantCallError
            self.loop.evict(holder)
            self._seat.pop("holder", None)
            if not self.loop.standby:
                self._show_socket()
            self.loop.make_leave(True)

    def drive(self, done: Callable[[], object] | None, until: float) -> None:
        """Moves bytes until `done()` is true or the time is `until`, unless another thread drives. For a
        thread that would only wait otherwise. Returns early if another thread has to continue. Without
        `done` it only sends.

        Raises ReentrantCallError if this thread is already driving.
        """
        if done is not None:
            self.prepare_to_block()
        self._drive(done, until, Guest())

    def _drive(self, done: Callable[[], object] | None, until: float, guest: Guest) -> None:
        """Does the work of `drive`, after `prepare_to_block` on the same thread."""
        loop = self.loop
        try:
            if self.take(guest):
                self._turns(guest, done, until)
            elif self.outbound.items:
                loop.wake()
        except Error as error:
            self.end(Ending.BROKEN, error)
            loop.wake_anew()
        except BaseException:  # an interrupt, or another exception of a signal handler
            loop.wake_anew()  # the I/O thread sees that the turn was cut short
            raise
        finally:
            try:
                self.release(guest)
            except BaseException:  # an interrupt: repeat it, since no other thread can
                self.release(guest)
                self.unmute()
                raise

    def _turns(self, guest: Guest, done: Callable[[], object] | None, until: float) -> None:
        loop, channel = self.loop, self.channel
        if channel is None or self.ending:
            loop.wake()
            return
        if loop.awake:
            loop.calm()
        # A thread that leaves something from here on need not wake this one, which looks before it waits.
        loop.awake = True
        if not channel.push():
            loop.wake_anew()
            return
        if done:
            if not loop.standby:
                self._set_gate(0)  # only now: it takes longer than sending usually does
            while True:
                loop.awake = False  # before it looks
                if done() or self.ending or monotonic() >= until:
                    break
                if self.outbound.items:
                    channel.push()
                channel.turn(until, guest)
                if guest.evicted:
                    return
        elif loop.standby:
            channel.turn(0.0)  # reads, too, because no other thread does
        loop.awake = False
        if channel.leaves_work(self._until) or self.ending:
            loop.wake()  # the byte that announced it may have been read already

    def take(self, guest: Guest) -> bool:
        """Makes `guest` the driver if the I/O thread is parked; returns whether it drives. `release` must
        follow, also after an interrupt."""
        # The second condition is for what a child runs without having called anything here.
        if self._gate is None or not same_process[0]:
            return False
        if self._seat.setdefault("holder", guest) is not guest:
            return False
        self._guests += 1
        if self._guests % _BURST == 0:
            before, self._burst_at = self._burst_at, monotonic()
            self._burst_took = self._burst_at - before
        return True

    def release(self, guest: Guest) -> None:
        """Ends the turn of `guest`. May be called twice; after an interrupt, `unmute` must follow."""
        if self._seat.get("holder") is guest:
            self._seat.pop("holder", None)
            # Read only now: the I/O thread clears `standby` before it looks at the seat.
            if not self.loop.standby:
                self._show_socket()
        if guest.evicted or self.loop.evicted:
            self.loop.leave(guest)

    def _show_socket(self) -> None:
        """Lets the I/O thread see the socket again after a guest has left."""
        if self._is_muted:
            self.unmute()
        if self._guests % _BURST == 0 and self._burst_took < _WHILE:
            self.loop.wake()  # so that it goes on standby: switching the gate for each guest takes longer

    def unmute(self) -> None:
        """Lets the I/O thread see the socket again. If this is too early, the I/O thread switches its gate
        off again."""
        self._set_gate(READABLE)

    def _set_gate(self, events: int) -> None:
        """Switches the gate: without `events`, the I/O thread stays asleep while a guest waits."""
        loop = self.loop
        with loop.lock:
            if loop.is_open and self._gate:
                self._is_muted = not events
                self._gate.modify(self._gated, events)

    # For the I/O thread.

    def begin(self) -> None:
        """Prepares for another connection, unless the client is being closed."""
        with self.loop.lock:
            self.cause = None
            if self.ending is not Ending.CLOSE:
                self.ending = Ending.NOT

    def wait_idle(self, until: float, writing: bool, reading: bool, much: bool = False) -> float:
        """Lets guests drive until there is something to do or the time is `until`. Returns the time until
        which `Loop.wait` may block afterwards."""
        loop = self.loop
        if self._gate is None:
            return until
        loop.watch(writing, reading)
        self._until = until
        loop.standby = much
        self._seat.pop("holder", None)
        spin = _SPIN
        while True:
            left = min(max(0.0, until - monotonic()), LONGEST)
            ready = False
            if loop.standby or self._is_burst():
                self._stand_by(self._gate, until)
            else:
                ready = bool(self._gate.poll(left))
            if self._seat.setdefault("holder", _OWN) is _OWN:
                return 0.0
            self._set_gate(0)  # this guest need not wake the I/O thread again
            if not self._seat:
                self.unmute()  # the guest has left meanwhile, perhaps without unmuting
            if not ready:
                until = self._until = max(until, monotonic() + spin)
                loop.wake()  # wakes the guest: there may be something new since it looked
                spin = min(spin * 2, _LONGEST_SPIN)

    def _stand_by(self, gate: Poller, until: float) -> None:
        """Sleeps while guests do all the work, and checks at intervals whether they still come."""
        loop = self.loop
        loop.standby = True
        self._set_gate(0)
        while True:
            guests = self._guests
            gate.poll(_LOOK)
            if guests == self._guests or loop.awake and not self._seat or monotonic() >= until:
                break
        loop.standby = False
        self.unmute()  # in this order, which is the reverse of that of a leaving guest

    def _is_burst(self) -> bool:
        """Whether guests come so often that the I/O thread would only get in their way."""
        return self._burst_took < _WHILE and monotonic() - self._burst_at < _WHILE

    def close(self) -> None:
        """Closes the descriptors: nobody waits any more."""
        with self.loop.lock:
            self.loop.close()
            if self._gate:
                self._gate.close()

    def abandon(self) -> None:
        """Closes the descriptors of a forked child. Later calls that wait raise ForkedError."""
        self.ending = Ending.CLOSE
        self._owns_lock = _forked
        self.io_thread = None
        self._seat["holder"] = _OWN
        self.loop.abandon()
        if self._gate:
            self._gate.close()


def _forked() -> bool:
    raise ForkedError


class Waiter(Guest, Generic[_T]):
    """The wait of one thread for one result, which the driver sets once. The thread drives if no other does;
    otherwise it sleeps. Only a sleeping thread uses a lock, and a bare one: an Event costs 4 times as much,
    and usually the waiting thread is the driver."""

    __slots__ = ("subject", "_turn", "_drive", "_outcome")

    def __init__(
        self, drive: Callable[[Callable[[], object], float, Guest], None], subject: str = ""
    ) -> None:
        # Without `Guest.__init__`, to save a call: each request makes a waiter.
        self.thread = threading.get_ident()
        self.idle = self.evicted = False
        self.subject = subject
        self._turn: threading.Lock | None = None  # the lock at which the thread sleeps
        self._drive = drive
        # Empty, then with a value or an error. Always the same list, since the driver looks at its length.
        self._outcome: list[tuple[_T | None, Error | None]] = []

    def settle(self, value: _T) -> None:
        """Ends the wait with `value`. Only the first end counts. For the driver."""
        outcome = self._outcome
        if not outcome:
            outcome += ((value, None),)
            if self._turn:  # no call before `release`, so that no interrupt can come in between
                self._turn.release()

    def fail(self, error: Error) -> None:
        """Ends the wait with `error`."""
        outcome = self._outcome
        if not outcome:
            outcome += ((None, error),)
            if self._turn:
                self._turn.release()

    def wait(self, timeout: float) -> _T | None:
        """Returns the value, or None if there is none within `timeout` seconds. Only the thread that made the
        waiter may call it, once."""
        until = monotonic() + timeout
        outcome = self._outcome
        self._drive(outcome.__len__, until, self)
        if not outcome:
            turn = threading.Lock()
            turn.acquire()
            self._turn = turn
            if not outcome:  # only now: a thread that settles it after this look finds the lock
                turn.acquire(timeout=min(max(0.0, until - monotonic()), MAX_WAIT))
        for value, error in outcome:
            if error:
                raise fresh(error)
            return value
        return None
