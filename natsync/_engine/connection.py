"""The connection of a client: what any thread may call. For threads and locks see docs/architecture.md."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import NamedTuple

from ..errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectionDrainingError,
    ConnectionReconnectingError,
    ConnectTimeoutError,
    DrainTimeoutError,
    Error,
    FlushTimeoutError,
    MaxControlLineError,
    OptionError,
    ReentrantCallError,
    fresh,
)
from ..options import MAX_CONTROL_LINE, MAX_WAIT, Options, Server
from ..protocol import ServerInfo
from .dispatch import Dispatcher
from .log import logger
from .outbound_buffer import RequestBytes
from .reply_mux import ReplyMux
from .seat import Ending, Waiter
from .sink import DrainStage, Sink, SubscriptionSink
from .subscription_table import SubscriptionTable, control_line_bytes, limit, subscribe, unsubscribe
from .supervisor import Status, Supervisor
from .transport import Transport
from .waiter import set_free

__all__ = ["EXIT_TIMEOUT", "Connection", "Stats", "Status"]

EXIT_TIMEOUT = 2.0
"""The most seconds that connections take at the end of the program, before and after other functions of
`atexit`."""

_LEAST_FLUSH = 0.5  # seconds for the server to answer at the end, however long handlers have taken
_GRACE = 1.0  # seconds for the I/O thread to notice the same deadline
is_finalizing = sys.is_finalizing  # modules are cleared in the end


class Stats(NamedTuple):
    """Counts since the client was made (ADR-40): messages and bytes on the wire in both directions, and
    the number of reconnects.

    `unconfirmed_msgs` is an upper bound of the number of lost messages: those sent on a connection that
    was lost before the server had confirmed them, and those never sent because the client was closed.
    `pending_msgs` is the number of messages that wait now, in all subscriptions, to be taken or handled.
    """

    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int
    reconnects: int = 0
    unconfirmed_msgs: int = 0
    pending_msgs: int = 0


class Connection:
    """A client's connection from `open` to `close`, over any number of losses."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.process = os.getpid()
        name = f"natsync-{options.name or options.servers[0]}"
        self.lock = threading.RLock()
        self.dispatcher = Dispatcher(name, options.callbacks, self.lock)
        self.table = SubscriptionTable()
        self._supervisor = Supervisor(options, self.dispatcher, self.table, self.lock)
        self._seat = self._supervisor.seat
        self.outbound = self._seat.outbound
        self.drive = self._seat.drive
        self.wake = self._seat.loop.wake
        self.pool = self._supervisor.pool
        self.router = self._supervisor.router
        self._said_goodbye = False
        self._is_half_closed = False
        # The time limit of a drain that a signal handler has left to a thread.
        self._drained_aside = 0.0

    def open(self) -> None:
        """Connects: returns when a server has completed the handshake or, with `retry_on_failed_connect`,
        when every server has been tried once. Raises otherwise."""
        supervisor = self._supervisor
        try:
            supervisor.start()
            if not supervisor.settled.wait(self.options.connect_timeout + _GRACE):
                raise ConnectTimeoutError(str(self.options.servers[0]), "tcp", "no answer in time")
            if self.status is Status.CLOSED and supervisor.failure:
                raise supervisor.failure
        except BaseException:
            self.close(0)
            raise

    def close(self, timeout: float, by: str = "close()") -> None:
        """Sends what was published, if the server takes it in time; then closes the connection, and joins
        the threads. Later errors name the call `by`.

        If another thread is closing, waits until the connection has ended, but joins no threads. If a call
        was interrupted, or could not wait because its signal handler had interrupted this thread while it
        was driving, the next call does the rest. While the interpreter shuts down, it does nothing: other
        threads are frozen.
        """
        if is_finalizing():
            return
        until = monotonic() + min(timeout, MAX_WAIT)
        mine = False
        try:
            with self.lock:
                mine = not self._seat.is_closing or self._is_half_closed
                self._is_half_closed = False
                self._begin_end(until, by)
            self._end(until, join=mine)
        except BaseException:
            self._is_half_closed |= mine
            raise

    def begin_close(self, timeout: float, by: str) -> None:
        """Like `close`, but does not wait. For finalizers."""
        with self.lock:
            self._begin_end(monotonic() + timeout, by)
        self._say_goodbye()

    def _begin_end(self, until: float, by: str) -> None:
        """Notes the first call that closes. Called with the lock held."""
        if not self._seat.is_closing:
            self._supervisor.closer = f"{by} on thread {threading.current_thread().name}"
        self._seat.end(Ending.CLOSE, close_by=until)

    def leave(self, timeout: float) -> None:
        """At the end of the program: ends subscriptions, and sends what was published. The connection stays
        open for what runs later, such as functions of `atexit` that were registered earlier: what they
        publish is written before the call returns. If there is no connection, or the server does not answer,
        it is closed instead. First waits for a drain that a signal handler began.
        """
        until = monotonic() + timeout
        self._supervisor.ended.wait(self._drained_aside - monotonic())
        if self.status is Status.CONNECTED:
            ended = ConnectionClosedError(closer="the end of the program")
            for sub in self.table.subscriptions():
                sub.end(ended, discard=True)
                self.table.remove(sub.sid)
                with suppress(Error):
                    self.outbound.put_control(unsubscribe(sub.sid))
            if not self.dispatcher.settle(until):
                logger().warning("a handler or callback still runs at the end of the program")
        if not self.send_all(max(_LEAST_FLUSH, until - monotonic())):
            self.close(max(0.0, until - monotonic()), "the end of the program")

    def part(self, timeout: float) -> None:
        """At the very end of the process, when all other threads are frozen: waits until the server has read
        everything. Takes no lock."""
        transport = self._seat.loop.transport
        if self.status is Status.CONNECTED and transport:
            transport.part(timeout)

    def send_all(self, timeout: float) -> bool:
        """Sends what was published, if the server takes it in time, and writes what is published later before
        the call returns. Called at the end of a process whose threads may still use the connection. Does
        nothing for a connection of the parent process. Returns whether the server has answered.
        """
        if self.status is not Status.CONNECTED or self._seat.is_closing:
            return False
        self.outbound.write_through(self._supervisor.has_written, EXIT_TIMEOUT)
        try:
            self.flush(max(0.0, timeout))
        except Error:
            return False
        return True

    def _end(self, until: float, join: bool) -> None:
        supervisor = self._supervisor
        self._say_goodbye()
        try:
            self._seat.prepare_to_block()
        except ReentrantCallError:
            self._is_half_closed |= join
            return
        supervisor.ended.wait(max(0.0, until - monotonic()) + _GRACE)
        if join:
            until = max(until, monotonic() + _GRACE)
            if not (supervisor.join(until) and self.dispatcher.join(until)):
                logger().warning("a handler or callback still runs after close")

    def _say_goodbye(self) -> None:
        if not self._said_goodbye:  # false if an interrupt has cut an earlier call short
            supervisor = self._supervisor
            closed = supervisor.closed()
            for _, sub in self.table.all():
                sub.end(closed, discard=True)
            self.outbound.close(supervisor.closed, self.router.final_ping)
            supervisor.status = Status.CLOSED
            self.wake()
            self._said_goodbye = True

    def flush(self, timeout: float) -> None:
        """Returns when the server has processed everything that was sent before; raises if it does not
        answer in time."""
        waiter: Waiter[bool] = self._seat.waiter()
        self.router.check_room()
        self.outbound.flush(waiter)
        if not waiter.wait(timeout):
            self.router.check_room()
            raise FlushTimeoutError(timeout)

    def confirm(self, subject: str, reply: str, data: bytes, timeout: float) -> None:
        """Sends `data`, a message on `subject` with `reply`, and returns when the server has processed it;
        raises if the server refuses it or does not answer in time."""
        waiter: Waiter[bool] = self._seat.waiter()
        router = self.router
        router.check_room()
        router.confirm(subject, reply, waiter)
        try:
            # Never sent again on another connection, like a request: the caller learns of the loss.
            waited = self.outbound.flush(waiter, RequestBytes(data), timeout)
            if not waiter.wait(timeout - waited):
                router.check_room()
                raise FlushTimeoutError(timeout)
        finally:
            router.confirmed(waiter)

    def subscribe(self, sub: SubscriptionSink) -> bytes:
        """Subscribes `sub` and returns its sid. Raises ConnectionDrainingError if a drain has reached the
        stage in which it ends `sub`."""
        if self._supervisor.draining >= sub.stage and not self._said_goodbye:
            raise ConnectionDrainingError
        return self._subscribe(sub)

    def _subscribe(self, sub: Sink) -> bytes:
        refusal: Error | None = None
        sid = b""
        try:
            with self.lock:  # SUBs are sent in the order of their sids: `Refusals` relies on that
                sid = self.table.add(sub)
                size = control_line_bytes(sub)
                # The server would close this connection, and every later one.
                if size > MAX_CONTROL_LINE:
                    refusal = MaxControlLineError(size, MAX_CONTROL_LINE)
                else:
                    try:
                        self.outbound.put_control(subscribe(sid, sub))
                    except Error as error:
                        refusal = error
            if refusal:
                raise refusal
        except BaseException:  # also an interrupt: the caller would not know of the subscription
            self.table.remove(sid)
            raise
        return sid

    def unsubscribe(self, sub: SubscriptionSink, max_msgs: int | None = None) -> None:
        """Ends `sub`, at once or when it has received `max_msgs` messages in all."""
        sid = sub.sid
        if max_msgs is None:
            # In this order: after an interrupt in between, `close` still finds the subscription.
            sub.end(BadSubscriptionError(sub.subject), discard=True)
            self.table.remove(sid)
            wire = unsubscribe(sid)
        elif sub.limit(max_msgs):
            wire = limit(sid, sub)
        else:
            self.router.limit_reached(sid)
            wire = unsubscribe(sid)
        self.resume()
        try:
            self.outbound.put_control(wire)
        except ConnectionClosedError:
            pass  # closing has ended the subscription

    def ask(self, sub: SubscriptionSink, subject: str, data: bytes) -> None:
        """Publishes a request on `subject` whose replies go to `sub`. Without a connection it does nothing;
        if the connection is lost before the request is sent, the request is dropped. If the server refuses
        it, callers that wait for a reply get the error."""
        sub.begin_request(subject)
        wire = self.router.encoder.request_to(subject, data, sub.wire_subject)
        self.outbound.put_control(RequestBytes(wire))

    def resume(self) -> None:
        """Resumes reading if full subscriptions had stopped it and all of them have room again."""
        router = self.router
        if router.full and router.has_room():
            self.wake()

    def reply_mux(self) -> ReplyMux:
        """Returns the reply mux. The first call makes and subscribes it, also during a drain: handlers of
        the last messages may send requests."""
        router = self.router
        mux = router.reply_mux
        if mux is None:
            refusal: Error | None = None
            with self.lock:
                mux = router.reply_mux
                if mux is None:
                    mux = ReplyMux(
                        self.options.inbox_prefix, self.drive, self._seat.waiter, self.wake
                    )
                    try:
                        self._subscribe(mux)
                        # A signal handler that has interrupted this may have made one and used it.
                        mux = router.reply_mux = router.reply_mux or mux
                    except Error as error:
                        refusal = error
            if refusal:
                raise refusal
        return mux

    def drain_subscriptions(self, subs: list[SubscriptionSink], timeout: float) -> None:
        """Ends `subs`, and waits until their handlers, if any, have handled what has arrived."""
        self._seat.prepare_to_block()
        self.router.check_room()
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
            self._seat.prepare_to_block()
        except ReentrantCallError:
            self._drained_aside = until
            self.dispatcher.start("drain", partial(self._drain_aside, timeout))
            return
        self.router.check_room()  # before anything ends
        closed = first = False
        unconfirmed = supervisor.unconfirmed
        left: dict[str, int] = {}
        try:
            with self.lock:
                first = not (self._seat.is_closing or supervisor.draining)
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
                self.close(max(_GRACE, until - monotonic()), "drain()")
        if closed:
            raise self._supervisor.closed()
        if left:
            raise DrainTimeoutError(timeout, left)
        if first and supervisor.unconfirmed > unconfirmed:
            if not self.router.final_ping_answered:
                raise FlushTimeoutError(timeout)

    def _drain_stage(self, stage: DrainStage, until: float) -> dict[str, int]:
        """Ends the subscriptions of `stage`, and waits for their handlers and for those of subscriptions that
        had ended before. Returns what is left at the time `until`."""
        left: dict[str, int] = {}
        subs = [sub for sub in self.table.subscriptions() if sub.stage <= stage]
        awaited = {sub: None for sub in subs if sub.is_taken_elsewhere()}
        awaited |= dict.fromkeys(sub for sub in self.dispatcher.handled() if sub.stage <= stage)
        if subs or stage is DrainStage.PROGRAM:  # which also flushes what was published
            left = self._drain(subs, [*awaited], until)
        return left | dict.fromkeys(self.dispatcher.join_drained(stage, until), 1)

    def _wait_drained(self, timeout: float, until: float) -> None:
        """Waits until another call of `drain` has closed the connection."""
        if self._supervisor.ended.is_set:
            raise self._supervisor.closed()
        if self.dispatcher.runs_here():  # the other call waits for this handler or callback
            return
        if not self._supervisor.ended.wait(max(0.0, until - monotonic())):
            raise DrainTimeoutError(timeout, self._wait_idle(self.table.subscriptions(), 0.0))

    def _drain_aside(self, timeout: float) -> None:
        try:
            self.drain(timeout)
        except Error as error:
            self.dispatcher.report(error)

    def _wait_idle(self, subs: list[SubscriptionSink], until: float) -> dict[str, int]:
        """Returns how many messages of `subs` are not handled at the time `until`, by subject."""
        left: dict[str, int] = {}
        for sub in subs:
            count = sub.wait_idle(until)
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
        channel = self._supervisor.channel
        is_sent = self._unsubscribe_all(subs)
        try:
            self.flush(max(0.0, until - monotonic()))
        except (FlushTimeoutError, ConnectionReconnectingError):
            pass  # no more messages come, or they will be dropped
        for sub in subs:
            sub.end(BadSubscriptionError(sub.subject))
            self.table.remove(sub.sid)
        # This server may have got their SUBs since.
        if not is_sent or self._supervisor.channel is not channel:
            with suppress(ConnectionClosedError):
                self._unsubscribe_all(subs)
        self.wake()  # a thread that drives while it reads `subs` must see their end
        left = self._wait_idle(awaited, until)
        for sub in awaited:
            if sub.subject in left:
                sub.end(BadSubscriptionError(sub.subject), discard=True)
        self.resume()
        return left

    def _unsubscribe_all(self, subs: list[SubscriptionSink]) -> bool:
        """Returns whether there was a connection for it."""
        return all([self.outbound.put_control(unsubscribe(sub.sid)) for sub in subs])

    def wait_connected(self, timeout: float) -> bool:
        """Returns whether there is a connection within `timeout` seconds; raises if there will be none."""
        self._seat.prepare_to_block()
        if not self._supervisor.connected.wait(timeout):
            return False
        if self.status is Status.CLOSED:
            raise fresh(self._supervisor.failure or self._supervisor.closed())
        return True

    def abandon(self) -> None:
        """In a forked child: closes descriptors and ends subscriptions, and leaves everything else as
        it is. Calls that wait raise ForkedError."""
        set_free(self.lock)  # a thread of the parent may have held it
        self._supervisor.ended.set()
        self._seat.abandon()
        for sub in self.table.subscriptions():
            sub.abandon()
        if mux := self.router.reply_mux:
            mux.abandon(self.lock)

    def reconnect(self) -> None:
        """Gives up the connection and makes another one."""
        if self.status is Status.CLOSED:
            raise self._supervisor.closed()
        if not self.options.reconnect:
            raise OptionError("reconnect", "is off, so that a connection is never made again")
        self._supervisor.reconnect()

    @property
    def status(self) -> Status:
        return self._supervisor.status

    @property
    def server(self) -> Server:
        return self._supervisor.server

    @property
    def transport(self) -> Transport | None:
        """The open connection, if there is one."""
        connected = self.status in (Status.CONNECTED, Status.DRAINING)
        return self._supervisor.loop.transport if connected else None

    @property
    def info(self) -> ServerInfo:
        return self.router.info

    @property
    def stats(self) -> Stats:
        out_msgs, in_bytes, out_bytes = self._supervisor.counts()
        return Stats(
            self.router.in_msgs,
            out_msgs,
            in_bytes,
            out_bytes,
            self._supervisor.reconnects,
            self._supervisor.unconfirmed,
            sum(len(sub.pending) for sub in self.table.subscriptions()),
        )
