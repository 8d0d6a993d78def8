"""Who moves the bytes of an open connection: one thread at a time has the seat.

That is the I/O thread, or a guest: a thread that waits for something, or publishes much.

    I/O thread has it  -- nothing to do: `Loop.wait_idle` -->  free
    free               -- socket, wake-up or deadline ------>  I/O thread has it
    free               -- `Loop.take_seat` ----------------->  a guest has it
    a guest has it     -- `Loop.release` ------------------->  free
    a guest has it, and only waits for the socket
                       -- a call of the same thread, from a signal handler, that waits too:
                          `Loop.prepare_to_block` ---------->  free; the guest leaves when it runs again
    a guest has it, and reads or writes
                       -- such a call --------------------->   the same; the call raises ReentrantCallError

The supervisor makes and ends connections; while one is open, its thread is in `serve`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic

from ..errors import ConnectionClosedError, Error
from .channel import Channel
from .loop import Guest, Loop
from .outbound_buffer import MUCH, OutboundBuffer
from .router import Router
from .waiter import StateLock

__all__ = ["Seat"]

_NEVER = float("inf")
_RETIRING = 1.0  # seconds for a server to read what was sent, before the connection is replaced


class Seat:
    """Over all connections of a client. `channel` is the one there is, `body` what the I/O thread does,
    `limits` are those of the outbound buffer. `closing` ends everything, by the time `close_by`; `forced`
    gives up the connection."""

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
        """Moves bytes until `done()` or the time `until`, if nobody else does; for a thread that would
        only wait. Returns early where somebody else has to go on. Without `done` it only sends.

        Raises ReentrantCallError where this thread is in the middle of driving already."""
        loop = self.loop
        if done is not None:
            loop.prepare_to_block()
        guest = Guest()
        try:
            if loop.take_seat(guest):
                self._turns(guest, done, until)
            elif self.outbound.waiting:
                loop.wake()
        except Error as error:
            self._broken = error
            loop.wake()
        except BaseException:  # an interrupt, or what else a signal handler raises
            loop.wake()  # `serve` sees what it has left half done
            raise
        finally:
            try:
                loop.release(guest)
            except BaseException:  # an interrupt: again, since nobody else can
                loop.release(guest)
                loop.unmute()
                raise

    def _turns(self, guest: Guest, done: Callable[[], object] | None, until: float) -> None:
        channel = self.channel
        if channel is None or channel.busy or self._is_disturbed:
            self.loop.wake()
            return
        if self.loop.awake:
            self.loop.calm()
        channel.push()
        if done:
            self.loop.mute()  # only now: it takes longer than most there is to send
            while not (done() or self._is_disturbed) and monotonic() < until:
                channel.turn(until, guest)
                if guest.evicted:
                    return
        elif self.loop.aloof:
            channel.turn(0.0)  # what there is to read: nobody else does
        channel.look_out()
        left = (
            self.outbound.waiting and not channel.is_behind
        )  # else there is no room in the network
        if left or self._is_disturbed or channel.deadline < self.loop.until:
            self.loop.wake()  # the byte of who caused that may be taken already

    @property
    def _is_disturbed(self) -> bool:
        """Whether the I/O thread has something to decide."""
        return self.closing or self.forced or self._broken is not None

    # From here on: the I/O thread.

    def begin(self) -> None:
        """Another connection is to be made."""
        self._broken = None
        self.forced = False

    def lose(self, error: Error) -> None:
        """The connection is broken; `serve` raises `error`."""
        self._broken = error

    def serve(self) -> None:
        """Until the connection is lost, or done with: see `is_over`. Guests drive when nothing happens
        here.

        Raises why it is lost.
        """
        channel = self.channel
        assert channel
        much = False  # was sent: who publishes that much sends it, too, unless this thread is in its way
        while not self.is_over():
            if much:
                self.loop.calm()
            # What came during the last turn had no need to wake anybody.
            waiting = self.outbound.is_full if much else self.outbound.waiting
            due = waiting and not channel.is_behind or self.forced or self._broken
            until = 0.0 if due else min(channel.deadline, self.close_by)
            until = self.loop.wait_idle(until, channel.is_behind, not self._router.paused, much)
            if self._broken:
                raise self._broken
            if channel.busy:
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
        """Raises where the client is being closed."""
        if self.closing:
            raise ConnectionClosedError

    def is_over(self) -> bool:
        """Whether the client is closed, and the server has everything, or the time for that is over."""
        return self.closing and (self._router.final_ping_answered or monotonic() >= self.close_by)
