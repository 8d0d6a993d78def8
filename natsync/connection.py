"""One connection to a NATS server: the engine's conversation, on a transport, in the loop's thread.

Who owns what:

    ====================  ==========================================================================
    I/O thread            socket, selector, engine, servers; bytes taken from the outbox and not yet
                          written. It never runs user code and never waits for another thread.
    thread of a handler   runs one subscription's handler (dispatch)
    callback thread       runs `on_error` and `on_close` (dispatch)
    any thread            everything public here
    ====================  ==========================================================================

    lock                  guards
    ====================  ==========================================================================
    Connection._lock      who closes; the making of the inbox
    Outbox                what is to be sent (`_lock`); Loop: the wake-up pair's end (`_pair_lock`)
    Subscription          its pending messages (`_lock`, one for each)
    Dispatcher            its threads and callbacks (`_lock`)
    ====================  ==========================================================================

Order: Connection._lock before any other; the others are leaves, never held together. No lock is held
while user code runs or while anything waits, a condition's own lock apart. `_subs` and `status` are
read and written without one: single dictionary operations and assignments, which are atomic.

What a thread wants done goes through the outbox, in its order: bytes of messages as they are, all else
as a call that the I/O thread makes. When the conversation ends, the outbox is closed first; then calls
left in it are made still, so that each thread that waits is known; then they are all failed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from time import monotonic

from .auth import connect_options
from .dispatch import Dispatcher
from .engine import (
    Delivery,
    Engine,
    Event,
    Exhausted,
    InfoChanged,
    Lost,
    Opened,
    Phase,
    Ponged,
    Reported,
)
from .errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectTimeoutError,
    Error,
    FlushTimeoutError,
    MaxMessagesError,
    PermissionsViolationError,
    SlowConsumerError,
    fresh,
)
from .inbox import Inbox, Waiter
from .log import logger
from .loop import Loop, Outbox
from .options import MAX_WAIT, Options, Server
from .protocol import ServerInfo
from .servers import ServerPool
from .subscription import Subscription

__all__ = ["Connection", "Stats", "Status"]

_GRACE = 1.0  # for the I/O thread to notice a deadline that both sides know
_NEVER = float("inf")
_FAREWELL = object()  # the token of the last PING: its PONG says that the server has everything


class Status(Enum):
    """Names as in nats.go."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the client was made (ADR-40): messages each way, and bytes on the wire."""

    in_msgs: int
    out_msgs: int
    in_bytes: int
    out_bytes: int


class Connection:
    """From `open` to `close`, or to its loss, which is final."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.status = Status.CONNECTING
        self.info = ServerInfo()
        name = f"natsync-{options.name or options.servers[0]}"
        self.dispatcher = Dispatcher(name, options.on_error, options.on_close)
        self._loop = Loop(f"{name}-io", self._run)
        self.outbox = Outbox(self._loop.wake, options.write_buffer, options.write_timeout)
        self._lock = threading.Lock()
        self._inbox: Inbox | None = None
        self._sids = count(1)
        self._subs: dict[bytes, Subscription | Inbox] = {}
        self._closing = False
        self._close_by = _NEVER
        self._farewell_said = False
        self._opened = threading.Event()
        self._ended = threading.Event()
        self._failure: Error | None = None
        self._pool = ServerPool(options.servers)
        self._engine = self._new_engine(options.servers[0])
        self._step = ""
        self._unsent = memoryview(b"")
        self._in_msgs = self._out_msgs = self._in_bytes = self._out_bytes = 0

    def open(self) -> None:
        """Connects, and returns when the server has answered; else raises why not."""
        try:
            self._loop.start()
            if not self._opened.wait(self.options.timeout + _GRACE):
                raise ConnectTimeoutError(str(self.options.servers[0]), "tcp", "no answer in time")
            if self.status is not Status.CONNECTED and self._failure:
                raise self._failure
        except BaseException:
            self.close(0)
            raise

    def close(self, timeout: float) -> None:
        """Sends what was published, if the server takes it in time; then ends, and joins the threads.

        Returns at once where another thread is closing, or has closed.
        """
        until = monotonic() + min(timeout, MAX_WAIT)
        with self._lock:
            first = not self._closing
            self._closing = True
        if first:
            for sub in self._subs.copy().values():
                sub.end(ConnectionClosedError(), discard=True)
            self._close_by = until
            self.outbox.close(ConnectionClosedError, lambda: self._engine.ping(_FAREWELL))
            self.status = Status.CLOSED
            self._loop.wake()
        self._ended.wait(max(0.0, until - monotonic()) + _GRACE)
        if first:
            until = max(until, monotonic() + _GRACE)
            if not (self._loop.join(until) and self.dispatcher.join(until)):
                logger().warning("a handler or callback still runs after close")

    def flush(self, timeout: float) -> None:
        """Returns when the server has dealt with everything sent before; raises if it does not say so."""
        waiter: Waiter[bool] = Waiter()
        self.outbox.order(lambda: self._engine.ping(waiter))
        if not waiter.wait(timeout):
            raise FlushTimeoutError(timeout)

    def subscribe(self, sub: Subscription | Inbox, max_msgs: int | None = None) -> bytes:
        """Makes the server send what matches `sub` to it, no more than `max_msgs`; returns the sid."""
        sid = b"%d" % next(self._sids)

        def apply() -> None:
            self._engine.subscribe(sid, sub.wire_subject, sub.wire_queue)
            if max_msgs:  # at once: what came in between would be too many
                self._engine.unsubscribe(sid, max_msgs, max_msgs)

        self._subs[sid] = sub
        try:
            self.outbox.order(apply)
        except Error:
            self._subs.pop(sid, None)
            raise
        return sid

    def unsubscribe(self, sid: bytes, sub: Subscription, max_msgs: int | None) -> None:
        """Ends `sub`; now, or when it has received `max_msgs` in all."""
        if max_msgs is None:
            sub.end(BadSubscriptionError(sub.subject), discard=True)
            self._subs.pop(sid, None)
        in_all = max_msgs or 0

        def apply() -> None:
            left = in_all - sub.received
            self._engine.unsubscribe(sid, left, in_all)
            if left <= 0:
                self._exhausted(sid)

        try:
            self.outbox.order(apply)
        except ConnectionClosedError:
            pass  # which has ended it

    def inbox(self) -> Inbox:
        """The inbox of all requests, subscribed to when the first one asks."""
        if self._inbox is None:
            with self._lock:
                if self._inbox is None:
                    inbox = Inbox(self.options.inbox_prefix)
                    self.subscribe(inbox)
                    self._inbox = inbox
        return self._inbox

    @property
    def stats(self) -> Stats:
        return Stats(self._in_msgs, self._out_msgs, self._in_bytes, self._out_bytes)

    def _new_engine(self, server: Server) -> Engine:
        options = self.options
        connect = partial(connect_options, options, server)
        return Engine(str(server), connect, options.ping_interval, options.max_pings_out)

    # From here on: the I/O thread.

    def _run(self) -> None:
        failure: Error | None = None
        try:
            self._establish(monotonic() + self.options.timeout)
            while not self._over():
                self._turn(_NEVER)
        except Error as error:
            failure = error
        except Exception as error:  # the rim: whatever it is, it reaches those who wait
            logger().exception("the I/O thread failed")
            failure = ConnectionClosedError(f"internal error: {error}")
            failure.__cause__ = error
        finally:
            self._finish(failure)

    def _establish(self, deadline: float) -> None:
        while found := self._pool.next(monotonic(), deadline):
            server, until = found
            try:
                self._connect(server, until)
                return
            except (Error, OSError) as error:
                self._loop.drop()
                self._check_closing()
                self._pool.failed(server, self._step, error)
        raise self._pool.verdict()

    def _connect(self, server: Server, deadline: float) -> None:
        """Goes through all steps with one server."""
        self._engine = self._new_engine(server)
        self._unsent = memoryview(b"")
        self._step = "dns"
        addresses = self._loop.look_up(server.host, server.port, deadline, self._check_closing)
        self._step = "tcp"
        self._loop.dial(addresses, deadline, self._check_closing)
        while self._engine.phase is not Phase.OPEN:
            self._step = self._engine.phase.value
            self._check_closing()
            if monotonic() >= deadline:
                raise TimeoutError
            self._turn(deadline)

    def _check_closing(self) -> None:
        if self._closing:
            raise ConnectionClosedError

    def _over(self) -> bool:
        return self._closing and (self._farewell_said or monotonic() >= self._close_by)

    def _turn(self, until: float) -> None:
        """One round: sends what there is, waits for more to do, reads, and acts on it."""
        self._write()
        until = min(until, self._engine.deadline, self._close_by)
        if self._loop.wait(until, writing=bool(self._unsent)):
            self._read()
        self._act(self._engine.tick(monotonic()))

    def _gather(self) -> bytes:
        """What is to be sent next: of the engine, and what other threads left."""
        parts = [self._engine.take()]
        if self._engine.phase is Phase.OPEN:
            for item in self.outbox.take():
                if isinstance(item, bytes):
                    parts.append(item)
                    self._out_msgs += 1
                else:
                    item()
                    parts.append(self._engine.take())
        return b"".join(parts)

    def _write(self) -> None:
        """Sends what is left over, then what has come since, as far as it goes now."""
        try:
            if self._send():
                self._unsent = memoryview(self._gather())
                self._send()
        except OSError as error:
            while self._read():  # the server may have said why
                pass
            raise self._hung_up(error) from error

    def _send(self) -> bool:
        while self._unsent:
            sent = self._loop.write(self._unsent)
            if not sent:
                return False
            self._unsent = self._unsent[sent:]
            self._out_bytes += sent
        return True

    def _read(self) -> bool:
        """Reads once; whether anything was there. The end of the stream is an error."""
        try:
            data = self._loop.read()
        except OSError as error:
            raise self._hung_up(error) from error
        if data is None:
            return False
        if not data:
            raise self._hung_up(None)
        self._in_bytes += len(data)
        self._act(self._engine.receive(data, monotonic()))
        return True

    def _hung_up(self, error: OSError | None) -> Error:
        """Why the server is gone: the last thing it said, or else what the system says."""
        reason = error.strerror if error and error.strerror else "the server closed the connection"
        return self._engine.reason or ConnectionClosedError(reason)

    def _act(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case Delivery(sid, frames):
                    self._in_msgs += len(frames)
                    sub = self._subs.get(sid)  # none: unsubscribed, and this was on its way
                    if sub and (dropped := sub.deliver(frames)):
                        self.dispatcher.report(SlowConsumerError(sub.subject, dropped))
                case Ponged(token) if isinstance(token, Waiter):
                    token.settle(True)
                case Ponged():
                    self._farewell_said = True
                case Exhausted(sid):
                    self._exhausted(sid)
                case Reported(error):
                    if isinstance(error, PermissionsViolationError):
                        self._deny(error)
                    self.dispatcher.report(error)
                case InfoChanged(info):
                    self.info = info
                case Opened(info):
                    self.info = info
                    self.status = Status.CONNECTED
                    self._opened.set()
                case Lost(error):
                    raise error

    def _exhausted(self, sid: bytes) -> None:
        sub = self._subs.pop(sid, None)
        if sub:
            sub.end(MaxMessagesError(sub.subject))

    def _deny(self, error: PermissionsViolationError) -> None:
        """Tells those whom it concerns; the server says no more than subject and queue."""
        if error.operation == "publish" and self._inbox:
            self._inbox.deny(error)
        elif error.operation == "subscription":
            for sub in self._subs.copy().values():
                if (sub.subject, sub.queue) == (error.subject, error.queue):
                    sub.refuse(error)

    def _finish(self, failure: Error | None) -> None:
        closing, connected = self._closing, self._opened.is_set()
        closed = failure if isinstance(failure, ConnectionClosedError) else _closed(failure)
        self.status = Status.CLOSED
        self._failure = failure
        self.outbox.close(lambda: fresh(closed))
        lost = self._unsent.nbytes
        for item in self.outbox.take():
            if isinstance(item, bytes):
                lost += len(item)
            else:
                item()
        if lost and connected:
            logger().warning("connection closed with %d bytes not sent", lost)
        for token in self._engine.abandon():
            if isinstance(token, Waiter):
                token.fail(closed)
        for sub in self._subs.copy().values():
            sub.end(closed, discard=closing, quiet=closing)
        self._ended.set()
        self._opened.set()
        if connected:
            self.dispatcher.end(failure)


def _closed(failure: Error | None) -> ConnectionClosedError:
    closed = ConnectionClosedError(str(failure) if failure else "")
    closed.__cause__ = failure
    return closed
