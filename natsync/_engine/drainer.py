"""Draining: ends a subscription, or a whole connection, and loses no message that has arrived."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import monotonic

from ..errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    DrainTimeoutError,
    Error,
    FlushTimeoutError,
    ReentrantCallError,
)
from ..options import MAX_WAIT
from .dispatch import Dispatcher
from .sink import DrainStage, SubscriptionSink
from .subscription_table import SubscriptionTable, unsubscribe
from .supervisor import Supervisor

__all__ = ["Drainer"]

_GRACE = 1.0  # seconds for `close`, if draining has used up its time


class Drainer:
    """Drains. Any thread may call it. `flush`, `close` and `resume` are methods of the connection. `until` is
    the time limit of a drain that a signal handler has left to another thread."""

    def __init__(
        self,
        supervisor: Supervisor,
        dispatcher: Dispatcher,
        table: SubscriptionTable,
        flush: Callable[[float], None],
        close: Callable[[float, str], None],
        resume: Callable[[], None],
    ) -> None:
        self._supervisor = supervisor
        self._dispatcher = dispatcher
        self._table = table
        self._flush = flush
        self._close = close
        self._resume = resume
        self.until = 0.0

    def drain_subscriptions(self, subs: list[SubscriptionSink], timeout: float) -> None:
        """Ends `subs`, and waits until their handlers, if any, have handled what has arrived."""
        self._supervisor.seat.prepare_to_block()
        self._supervisor.router.check_room()
        awaited = [sub for sub in subs if sub.has_handler]
        left = self._drain(subs, awaited, monotonic() + min(timeout, MAX_WAIT))
        if left:
            raise DrainTimeoutError(timeout, left)

    def drain(self, timeout: float) -> None:
        """Ends all subscriptions, waits until messages that have arrived are handled and published ones are
        sent, and closes. Raises if messages are left after `timeout` seconds, or if the server has not
        confirmed the published ones; raises at once, and ends nothing, if this thread would have to take
        messages of a full subscription first.

        Without a connection, it first waits for the next one. A second call waits for the first. A call
        from a signal handler that has interrupted this thread while it was driving cannot wait: another
        thread drains then.
        """
        supervisor = self._supervisor
        until = monotonic() + min(timeout, MAX_WAIT)
        try:
            supervisor.seat.prepare_to_block()
        except ReentrantCallError:
            self.until = until
            self._dispatcher.start("drain", partial(self._drain_aside, timeout))
            return
        supervisor.router.check_room()  # before anything ends
        closed = first = False
        unconfirmed = supervisor.unconfirmed
        left: dict[str, int] = {}
        try:
            with self._supervisor.loop.lock:
                first = not (supervisor.seat.closing or supervisor.draining)
                closed = not (first or supervisor.draining)
                if first:
                    supervisor.draining = DrainStage.PROGRAM
            if not (first or closed):
                self._wait_drained(timeout, until)
            if first:
                supervisor.connected.wait(max(0.0, until - monotonic()))
                supervisor.drained()
                for stage in (DrainStage.PROGRAM, DrainStage.HANDLER, DrainStage.CALL):
                    supervisor.draining = stage
                    left = self._drain_stage(stage, until)
                    if left:  # there is no time for the rest
                        break
        finally:
            if first:
                self._close(max(_GRACE, until - monotonic()), "drain()")
        if closed:
            raise self._supervisor.closed()
        if left:
            raise DrainTimeoutError(timeout, left)
        if first and supervisor.unconfirmed > unconfirmed:
            if not supervisor.router.final_ping_answered:
                raise FlushTimeoutError(timeout)

    def _drain_stage(self, stage: DrainStage, until: float) -> dict[str, int]:
        """Ends the subscriptions of `stage`, and waits for their handlers and for those of subscriptions that
        had ended before. Returns what is left at the time `until`."""
        left: dict[str, int] = {}
        subs = [sub for sub in self._table.subscriptions() if sub.stage <= stage]
        awaited = {sub: None for sub in subs if sub.is_taken_elsewhere()}
        awaited |= dict.fromkeys(sub for sub in self._dispatcher.handled() if sub.stage <= stage)
        if subs or stage is DrainStage.PROGRAM:  # which also flushes what was published
            left = self._drain(subs, [*awaited], until)
        return left | dict.fromkeys(self._dispatcher.join_drained(stage, until), 1)

    def _wait_drained(self, timeout: float, until: float) -> None:
        """Waits until another call of `drain` has closed the connection."""
        if self._supervisor.ended.is_set:
            raise self._supervisor.closed()
        if self._dispatcher.runs_here():  # the other call waits for this handler or callback
            return
        if not self._supervisor.ended.wait(max(0.0, until - monotonic())):
            raise DrainTimeoutError(timeout, self._undelivered(self._table.subscriptions()))

    def _drain_aside(self, timeout: float) -> None:
        try:
            self.drain(timeout)
        except Error as error:
            self._dispatcher.report(error)

    def _undelivered(self, subs: list[SubscriptionSink]) -> dict[str, int]:
        left: dict[str, int] = {}
        for sub in subs:
            count = sub.wait_idle(0.0)
            if count:
                left[sub.subject] = left.get(sub.subject, 0) + count
        return left

    def _drain(
        self, subs: list[SubscriptionSink], awaited: list[SubscriptionSink], until: float
    ) -> dict[str, int]:
        """Ends `subs` after the messages that the server has sent. Returns how many messages of `awaited` are
        not handled at the time `until`, by subject.

        Pending messages that the calling thread itself would have to take stay pending.
        """
        io = self._supervisor.io
        channel = io.channel
        is_sent = self._unsubscribe(subs)
        try:
            self._flush(max(0.0, until - monotonic()))
        except (FlushTimeoutError, ConnectionReconnectingError):
            pass  # no more messages come, or they will be dropped
        for sub in subs:
            sub.end(BadSubscriptionError(sub.subject))
            self._table.remove(sub.sid)
        if not is_sent or io.channel is not channel:  # this server may have got their SUBs since
            with suppress(ConnectionClosedError):
                self._unsubscribe(subs)
        self._supervisor.loop.wake()  # a thread that drives while it reads `subs` must see their end
        left: dict[str, int] = {}
        for sub in awaited:
            count = sub.wait_idle(until)
            if count:
                left[sub.subject] = left.get(sub.subject, 0) + count
                sub.end(BadSubscriptionError(sub.subject), discard=True)
        self._resume()
        return left

    def _unsubscribe(self, subs: list[SubscriptionSink]) -> bool:
        """Returns whether there was a connection for it."""
        put = self._supervisor.outbound.put_control
        return all([put(unsubscribe(sub.sid)) for sub in subs])
