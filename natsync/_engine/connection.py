"""The connection of a client: what any thread may call, and which thread owns what.

    ====================  ==========================================================================
    driver                socket, poller, engine, channel; bytes taken from the outbound buffer and
                          not yet written. The I/O thread, or a guest: a thread that waits, or
                          publishes much (seat).
    I/O thread            connecting, reconnecting, ending (supervisor). It runs no user code.
    thread of a handler   runs a handler (handlers)
    callback thread       runs the callbacks (dispatch)
    any thread            everything public here
    ====================  ==========================================================================

    lock                  guards
    ====================  ==========================================================================
    Connection.lock       closing; the creation of the reply mux; the state of the outbound buffer (a
                          publish takes no lock), of pending queues, of the wake-up pair and the gate,
                          and of the dispatcher
    Inherited's lock      making a forked child's own connection; other threads of the child wait for it
    ====================  ==========================================================================

Each client has one lock, an RLock: a signal handler or finalizer may interrupt any code that holds it, and
call natsync on the same thread. The guarded code allows for that: after a call, no step relies on what was
true before it. A blocking call first checks whether its own thread holds the lock, drives, or is the I/O
thread, and raises ReentrantCallError if so (`Seat.prepare_to_block`, which evicts a guest that only waits).

Connection.lock is never held while user code runs or while anything waits, and no error leaves a block that
holds it: in Python 3.10 an interrupt may come between the error and the release, and the lock is never
released. The table and `status` are read and written without the lock, by single dictionary operations and
assignments, which are atomic.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from time import monotonic
from typing import NamedTuple

from ..errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectionDrainingError,
    ConnectTimeoutError,
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
from .drainer import Drainer
from .log import logger
from .outbound_buffer import RequestBytes
from .reply_mux import ReplyMux
from .seat import Waiter
from .sink import Sink, SubscriptionSink
from .subscription_table import SubscriptionTable, control_line_bytes, limit, subscribe, unsubscribe
from .supervisor import Status, Supervisor
from .transport import Transport
from .waiter import set_free

__all__ = ["EXIT_TIMEOUT", "Connection", "Stats", "Status"]

EXIT_TIMEOUT = 2.0
"""The most seconds that connections take at the end of the program, before and after other functions of
`atexit`."""

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
        self.outbound = self._supervisor.outbound
        self.drive = self._supervisor.seat.drive
        self.wake = self._supervisor.loop.wake
        self.pool = self._supervisor.pool
        self.router = self._supervisor.router
        self._said_goodbye = False
        self._is_half_closed = False
        self._drainer = Drainer(
            self._supervisor, self.dispatcher, self.table, self.flush, self.close, self.resume
        )
        self.drain = self._drainer.drain
        self.drain_subscriptions = self._drainer.drain_subscriptions

    def open(self) -> None:
        """Connects: returns when a server has completed the handshake or, with `retry_on_failed_connect`,
        when every server has been tried once. Raises otherwise."""
        supervisor = self._supervisor
        try:
            try:
                supervisor.io.start()
            except (RuntimeError, MemoryError):  # there is no thread, so nothing to wait for
                supervisor.ended.set()
                raise
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
                first = not self._supervisor.seat.closing
                mine = first or self._is_half_closed
                self._is_half_closed = False
                self._supervisor.seat.closing = True
                if first:
                    self._supervisor.seat.close_by = until
                    self._supervisor.closer = _closer(by)
            self._end(until, join=mine)
        except BaseException:
            self._is_half_closed |= mine
            raise

    def begin_close(self, timeout: float, by: str) -> None:
        """Like `close`, but does not wait. For finalizers."""
        with self.lock:
            first = not self._supervisor.seat.closing
            self._supervisor.seat.closing = True
            if first:
                self._supervisor.seat.close_by = monotonic() + timeout
                self._supervisor.closer = _closer(by)
        self._say_goodbye()

    def leave(self, timeout: float) -> None:
        """At the end of the program: ends subscriptions, and sends what was published. The connection stays
        open for what runs later, such as functions of `atexit` that were registered earlier: what they
        publish is written before the call returns. If there is no connection, or the server does not answer,
        it is closed instead. First waits for a drain that a signal handler began.
        """
        until = monotonic() + timeout
        self._supervisor.ended.wait(self._drainer.until - monotonic())
        if self.status is Status.CONNECTED:
            ended = ConnectionClosedError(closer="the end of the program")
            for sub in self.table.subscriptions():
                sub.end(ended, discard=True)
                self.table.remove(sub.sid)
                with suppress(Error):
                    self.outbound.put_control(unsubscribe(sub.sid))
            self.dispatcher.join_handlers(until)
        if not self.send_all(until - monotonic()):
            self.close(max(0.0, until - monotonic()), "the end of the program")

    def part(self, timeout: float) -> None:
        """At the very end of the process, when all other threads are frozen: waits until the server has read
        everything. Takes no lock."""
        transport = self._supervisor.loop.transport
        if self.status is Status.CONNECTED and transport:
            transport.part(timeout)

    def send_all(self, timeout: float) -> bool:
        """Sends what was published, if the server takes it in time, and writes what is published later before
        the call returns. Called at the end of a process whose threads may still use the connection. Does
        nothing for a connection of the parent process. Returns whether the server has answered.
        """
        if self.status is not Status.CONNECTED or self._supervisor.seat.closing:
            return False
        io = self._supervisor.io
        self.outbound.write_through(
            lambda: io.channel is not None and io.channel.is_written, EXIT_TIMEOUT
        )
        try:
            self.flush(max(0.0, timeout))
        except Error:
            return False
        return True

    def _end(self, until: float, join: bool) -> None:
        supervisor = self._supervisor
        self._say_goodbye()
        try:
            supervisor.seat.prepare_to_block()
        except ReentrantCallError:
            self._is_half_closed |= join
            return
        supervisor.ended.wait(max(0.0, until - monotonic()) + _GRACE)
        if join:
            until = max(until, monotonic() + _GRACE)
            if not (supervisor.io.join(until) and self.dispatcher.join(until)):
                logger().warning("a handler or callback still runs after close")

    def _say_goodbye(self) -> None:
        supervisor = self._supervisor
        if not self._said_goodbye:  # false if an interrupt has cut an earlier call short
            closed = supervisor.closed()
            for _, sub in self.table.all():
                sub.end(closed, discard=True)
            self.outbound.close(supervisor.closed, supervisor.router.final_ping)
            supervisor.status = Status.CLOSED
            supervisor.loop.wake()
            self._said_goodbye = True

    def flush(self, timeout: float) -> None:
        """Returns when the server has processed everything that was sent before; raises if it does not
        answer in time."""
        waiter: Waiter[bool] = self._supervisor.seat.waiter()
        self.router.check_room()
        self.outbound.flush(waiter)
        if not waiter.wait(timeout):
            self.router.check_room()
            raise FlushTimeoutError(timeout)

    def confirm(self, subject: str, reply: str, data: bytes, timeout: float) -> None:
        """Sends `data`, a message on `subject` with `reply`, and returns when the server has processed it;
        raises if the server refuses it or does not answer in time."""
        waiter: Waiter[bool] = self._supervisor.seat.waiter()
        router = self._supervisor.router
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
            self._supervisor.router.limit_reached(sid)
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
        router = self._supervisor.router
        if router.full and router.has_room():
            self._supervisor.loop.wake()

    def reply_mux(self) -> ReplyMux:
        """Returns the reply mux. The first call makes and subscribes it, also during a drain: handlers of
        the last messages may send requests."""
        router = self._supervisor.router
        mux = router.reply_mux
        if mux is None:
            refusal: Error | None = None
            with self.lock:
                mux = router.reply_mux
                if mux is None:
                    loop, seat = self._supervisor.loop, self._supervisor.seat
                    mux = ReplyMux(
                        self.options.inbox_prefix,
                        seat.drive,
                        seat.waiter,
                        loop.wake,
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

    def wait_connected(self, timeout: float) -> bool:
        """Returns whether there is a connection within `timeout` seconds; raises if there will be none."""
        self._supervisor.seat.prepare_to_block()
        if not self._supervisor.connected.wait(timeout):
            return False
        if self.status is Status.CLOSED:
            raise fresh(self._supervisor.failure or self._supervisor.closed())
        return True

    def abandon(self) -> None:
        """In a forked child: closes descriptors and ends subscriptions, and leaves everything else as
        it is. Calls that wait raise ForkedError."""
        set_free(self.lock)  # a thread of the parent may have held it
        self._supervisor.seat.closing = True
        self._supervisor.ended.set()
        self._supervisor.seat.abandon()
        for sub in self.table.subscriptions():
            sub.abandon()
        if mux := self._supervisor.router.reply_mux:
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
        return self._supervisor.router.info

    @property
    def stats(self) -> Stats:
        supervisor = self._supervisor
        out_msgs, in_bytes, out_bytes = supervisor.counts()
        return Stats(
            supervisor.router.in_msgs,
            out_msgs,
            in_bytes,
            out_bytes,
            supervisor.reconnects,
            supervisor.unconfirmed,
            sum(len(sub.pending) for sub in self.table.subscriptions()),
        )


def _closer(call: str) -> str:
    return f"{call} on thread {threading.current_thread().name}"
