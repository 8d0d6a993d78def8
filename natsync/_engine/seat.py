"""The seat: one thread at a time drives, that is, moves the bytes of an open connection.

That is the I/O thread, or a guest: a thread that waits for something, or publishes much.

    I/O thread drives  -- nothing to do: `Loop.wait_idle` -->  seat free
    seat free          -- socket, wake-up or deadline ------>  I/O thread drives
    seat free          -- `Loop.take_seat` ----------------->  guest drives
    guest drives       -- `Loop.release` ------------------->  seat free
    guest drives, and only waits for the socket
                       -- a signal handler on its thread makes a call that waits:
                          `Loop.prepare_to_block` ---------->  seat free; the guest leaves when it runs again
    guest drives, and reads or writes
                       -- such a call --------------------->   unchanged; the call raises ReentrantCallError

The supervisor makes and ends connections; while one is open, its thread is in `serve`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from ..errors import ConnectionClosedError, Error
from .channel import Channel
from .loop import Loop
from .outbound_buffer import MUCH, OutboundBuffer
from .router import Router
from .waiter import Guest, StateLock

__all__ = ["Seat"]

_NEVER = float("inf")
_RETIRING = 1.0  # seconds for a server to read what was sent, before the connection is replaced


class Seat:
    """One for all connections of a client. `channel` is the current one, `body` the work of the I/O
    thread, `limits` those of the outbound buffer. `closing` ends everything by the time `close_by`;
    `forced` gives up the connection."""

    def __init__(
        self,
        name: str,
        body: Callable[[], None],
        router: Router,
        lock: StateLock,
        limits: tuple[int, float, int],
    ) -> None:
        self.loop = Loop(name, body, lock, partial(self.drive, None, 0.0))
        self.outbound = OutboundBuffer(self.loop, self.drive, lock, *limits)
        self.channel: Channel | None = None
        self.closing = False
        self.close_by = _NEVER
        self.forced = False
        self._router = router
        self._broken: Exception | None = None

    def drive(self, done: Callable[[], object] | None, until: float) -> None:
        """Moves bytes until `done()` or the time `until`, unless another thread drives; for a thread
        that would only wait. Returns early if another thread has to go on. Without `done` it only
        sends.

        Raises ReentrantCallError if this thread is already driving.
        """
        if done is not None:
            self.loop.prepare_to_block()
        self.drive_prepared(done, until)

    def drive_prepared(self, done: Callable[[], object] | None, until: float) -> None:
        """As `drive`, after `Loop.prepare_to_block` on the same thread, which a caller that sends
        something calls before that."""
        loop, guest = self.loop, Guest()
        try:
            if loop.take_seat(guest):
                self._turns(guest, done, until)
            elif self.outbound.items:
                loop.wake()
        except Error as error:
            self._broken = error
            loop.wake()
        except BaseException:  # an interrupt, or another exception of a signal handler
            loop.wake()  # `serve` sees that the turn was cut short
            raise
        finally:
            try:
                loop.release(guest)
            except BaseException:  # an interrupt: again, since no other thread can
                loop.release(guest)
                loop.unmute()
                raise

    def _turns(self, guest: Guest, done: Callable[[], object] | None, until: float) -> None:
        loop, channel = self.loop, self.channel
        disturbed = self.closing or self.forced or self._broken
        if channel is None or disturbed or channel.busy or channel.engine.is_changing:
            loop.wake()
            return
        if loop.awake:
            loop.calm()
        channel.push()
        if done:
            if not loop.aloof:
                loop.mute()  # only now: it takes longer than most sending does
            while not (done() or self.closing or self.forced or self._broken):
                if monotonic() >= until:
                    break
                channel.turn(until, guest)
                if guest.evicted:
                    return
        elif loop.aloof:
            channel.turn(0.0)  # also read: no other thread does
        channel.look_out()
        left = self.outbound.items and not channel.is_behind  # else the network has no room
        disturbed = self.closing or self.forced or self._broken
        if left or disturbed or channel.deadline < loop.until:
            loop.wake()  # the byte for that may have been read already

    def _is_torn(self, channel: Channel) -> bool:
        """Whether an exception has left the connection in an unknown state."""
        return channel.busy or channel.engine.is_changing

    # From here on: the I/O thread.

    def begin(self) -> None:
        """Prepares for another connection."""
        self._broken = None
        self.forced = False

    def lose(self, error: Error) -> None:
        """Marks the connection as broken; `serve` raises `error`."""
        self._broken = error

    def serve(self) -> None:
        """Drives until the connection is lost or over (see `is_over`), and parks while nothing happens,
        so that guests may drive.

        Raises the reason of the loss.
        """
        channel = self.channel
        assert channel
        much = False  # was sent: a thread that publishes so much sends it itself, if this one stays away
        while not self.is_over():
            if much:
                self.loop.calm()
            # Items that arrived during the last turn have woken no thread.
            waiting = self.outbound.is_full if much else self.outbound.items
            due = waiting and not channel.is_behind or self.forced or self._broken
            until = 0.0 if due else min(channel.deadline, self.close_by)
            until = self.loop.wait_idle(until, channel.is_behind, not self._router.full, much)
            if self._broken:
                raise self._broken
            if self._is_torn(channel):
                self.forced = True
                channel.retire(min(monotonic() + _RETIRING, self.close_by))
                raise ConnectionClosedError("interrupted while reading or writing")
            if self.forced:
                raise ConnectionClosedError("reconnect was asked for")
            before = channel.out_bytes
            channel.push()
            channel.turn(until)
            much = channel.out_bytes - before >= MUCH

    def check_closing(self) -> None:
        """Raises if the client is being closed."""
        if self.closing:
            raise ConnectionClosedError

    def is_over(self) -> bool:
        """Whether the client is closed and the server has everything, or the time for that is over."""
        return self.closing and (self._router.final_ping_answered or monotonic() >= self.close_by)
