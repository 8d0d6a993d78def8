"""The I/O thread of a client. It drives the open connection, and parks while nothing happens, so that guests
may drive (see `seat`). It runs the supervisor, which opens and closes connections; while a connection is
open, the thread is in `serve`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

from ..errors import ConnectionClosedError, Error
from .channel import Channel
from .outbound_buffer import MUCH
from .router import Router
from .seat import Seat

__all__ = ["IOThread"]

_RETIRING = 1.0  # seconds for a server to read what was sent, before the connection is replaced


class IOThread:
    """A client has one for all its connections. It runs `body`; `channel` is the open connection."""

    def __init__(self, body: Callable[[], None], seat: Seat, router: Router) -> None:
        name = seat.loop.name
        self._thread = threading.Thread(target=self._run, args=(body,), name=name, daemon=True)
        self._seat = seat
        self._router = router
        self.channel: Channel | None = None

    # For any other thread.

    def start(self) -> None:
        """Starts the thread, once."""
        try:
            self._thread.start()
        except (RuntimeError, MemoryError):  # the system has no more threads
            self._seat.close()
            raise

    def join(self, until: float) -> bool:
        """Waits for the end of the thread and returns whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - monotonic()))
        return not self._thread.is_alive()

    # On the thread.

    def _run(self, body: Callable[[], None]) -> None:
        self._seat.io_thread = threading.get_ident()
        try:
            body()
        finally:
            self._seat.loop.drop()
            self._seat.close()

    def take_over(self, channel: Channel | None) -> None:
        """Makes `channel` the open connection, also for guests; None if there is none."""
        self.channel = self._seat.channel = channel

    def begin(self) -> None:
        """Prepares for another connection."""
        self._seat.broken = None
        self._seat.forced = False

    def lose(self, error: Error) -> None:
        """Marks the connection as broken; `serve` raises `error`."""
        self._seat.broken = error

    def serve(self) -> None:
        """Drives until the connection is lost or finished (see `is_over`); parks while nothing happens.

        Raises the reason of the loss.
        """
        seat, channel = self._seat, self.channel
        assert channel
        # Whether the last turn sent `MUCH`: publishers then send for themselves while this thread stays away.
        much = False
        while not self.is_over():
            if much:
                seat.loop.calm()
            # Items that were added during the last turn have woken no thread.
            waiting = seat.outbound.is_full if much else seat.outbound.items
            due = waiting and not channel.has_unsent or seat.forced or seat.broken
            until = 0.0 if due else min(channel.deadline, seat.close_by)
            until = seat.wait_idle(until, channel.has_unsent, not self._router.full, much)
            if seat.broken:
                raise seat.broken
            if channel.is_torn:
                seat.forced = True
                channel.retire(min(monotonic() + _RETIRING, seat.close_by))
                raise ConnectionClosedError("interrupted while reading or writing")
            if seat.forced:
                raise ConnectionClosedError("reconnect was asked for")
            before = channel.out_bytes
            try:
                channel.push()
                channel.turn(until)
            except MemoryError as error:  # perhaps in the middle of a frame
                raise ConnectionClosedError("out of memory") from error
            much = channel.out_bytes - before >= MUCH

    def check_closing(self) -> None:
        """Raises if the client is being closed."""
        if self._seat.closing:
            raise ConnectionClosedError

    def is_over(self) -> bool:
        """Whether the client is closed and either the server has everything or the time limit has passed."""
        seat = self._seat
        return seat.closing and (self._router.final_ping_answered or monotonic() >= seat.close_by)
