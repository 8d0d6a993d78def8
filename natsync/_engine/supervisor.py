"""The supervisor keeps a connection: it connects, serves, reconnects after a loss, and ends.

It runs on the I/O thread, which alone opens and ends connections. While one is open, the thread drives it,
and parks while nothing happens, so that guests may drive (see `seat`). Messages and events of the server go
to the router.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from enum import Enum
from functools import partial
from os import urandom  # `random` would be a thirtieth of `import natsync`
from time import monotonic
from typing import TypeVar

from ..errors import (
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
    fresh,
)
from ..options import Options, Server
from ..protocol import ProtocolError, ServerInfo
from ..tls import TLS
from .auth import connect_options, resolve, resolve_headers
from .channel import Channel
from .dialer import Dialer
from .dispatch import Dispatcher
from .engine import Engine, EngineEvent, InfoChanged, Opened, Phase, Secure
from .outbound_buffer import MUCH, length
from .reconnect_policy import ReconnectPolicy
from .refusals import Refusals
from .router import Router
from .seat import Ending, Seat, Waiter
from .servers import ServerPool
from .sink import DrainStage
from .subscription_table import SubscriptionTable
from .waiter import Event, StateLock

__all__ = ["Supervisor", "Status"]

_RETIRING = 1.0  # seconds for a server to read what was sent, before the connection is replaced
_T = TypeVar("_T")


class Status(Enum):
    """The state of a connection; the names are those of nats.go. CONNECTING is before the first
    connection, RECONNECTING between two."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    RECONNECTING = "reconnecting"
    DRAINING = "draining"
    CLOSED = "closed"


class Supervisor:
    """The I/O thread of a client and its work. `channel` is the open connection."""

    def __init__(
        self,
        options: Options,
        dispatcher: Dispatcher,
        table: SubscriptionTable,
        lock: StateLock,
    ) -> None:
        self.status = Status.CONNECTING
        self.server = options.servers[0]
        self.failure: Error | None = None
        self.closer = ""
        """The call that closed the client, and its thread."""

        self.settled = Event()  # connected for the first time, or ended
        self.connected = Event()  # set while connected, and when it has ended
        self.ended = Event()
        self.reconnects = 0
        self.draining = DrainStage.NONE
        """The stage of a drain that has begun, else NONE."""

        self._options = options
        self._dispatcher = dispatcher
        self._table = table
        name = f"natsync-{options.name or options.servers[0]}"
        order = (lambda pool: pool.sort(key=lambda _: urandom(8))) if options.randomize else None
        self.pool = ServerPool(options.servers, order, options.max_reconnects)
        limits = options.write_buffer, options.write_timeout, options.reconnect_buffer
        self.seat = Seat(f"{name}-io", lock, limits)
        self.outbound = self.seat.outbound
        self._refusals = Refusals(table, dispatcher, self.outbound, lock)
        self.router = Router(table, dispatcher, self.pool, options.discover, self._refusals)
        self.loop = self.seat.loop
        self.channel: Channel | None = None
        self._thread = threading.Thread(target=self._run, name=self.loop.name, daemon=True)
        self._dialer = Dialer(self.loop)
        self._policy = ReconnectPolicy(
            options, self.pool, self._dialer, self._check_closing, dispatcher.report
        )
        self._greeting: ServerInfo | None = None  # the INFO that TLS follows
        self._past = [0, 0, 0]  # of past channels: messages out, bytes in, bytes out
        self._shown = [0, 0, 0]  # the last result of `counts`
        self.unconfirmed = 0  # messages of past channels that no server has confirmed
        self._since = 0.0  # when the last connection was made
        self._connected = False  # whether there has ever been a connection
        self._step = ""

    def start(self) -> None:
        """Starts the I/O thread, once."""
        try:
            self._thread.start()
        except (
            RuntimeError,
            MemoryError,
        ):  # the system has no more threads, so nothing to wait for
            self.seat.close()
            self.ended.set()
            raise

    def join(self, until: float) -> bool:
        """Waits for the end of the I/O thread and returns whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - monotonic()))
        return not self._thread.is_alive()

    def has_written(self) -> bool:
        """Returns whether there is a connection whose network has taken everything."""
        return self.channel is not None and self.channel.is_written

    def counts(self) -> list[int]:
        """Returns messages out, bytes in and bytes out, over all connections. They never fall, although the
        driver may be in the middle of a step, in which some of them are not yet where they are counted.
        """
        now, channel = self._past[:], self.channel
        if channel and not channel.is_counted:
            own = channel.sent, channel.in_bytes, channel.out_bytes
            now = [past + count for past, count in zip(now, own, strict=True)]
        self._shown = [*map(max, now, self._shown)]
        return self._shown

    def closed(self) -> ConnectionClosedError:
        """Returns the error that says why, or by whom, the client was closed."""
        failure = self.failure
        if isinstance(failure, ConnectionClosedError):
            return fresh(failure)
        closed = ConnectionClosedError(str(failure or ""), "" if failure else self.closer)
        closed.__cause__ = failure
        return closed

    def drained(self) -> None:
        """Notes that draining has begun."""
        if self.status is Status.CONNECTED:
            self.status = Status.DRAINING

    def reconnect(self) -> None:
        """Gives up the connection for another one. For any thread."""
        if not self.seat.is_closing:
            # At once, so that `wait_connected` waits for the new connection; and before `end`, since a new
            # connection that is already there would never set it again.
            self.connected.clear()
        self.seat.end(Ending.REPLACE)
        self.loop.wake()

    # The rest is for the I/O thread; guests call `_act`, too, but only for an open connection.

    def _run(self) -> None:
        self.seat.io_thread = threading.get_ident()
        try:
            self._keep_connected()
        finally:
            self.loop.drop()
            self.seat.close()

    def _keep_connected(self) -> None:
        failure: Error | None = None
        try:
            self._establish()
            while not self._is_over():
                try:
                    self._serve()
                except Error as error:
                    if self.seat.is_closing:
                        break
                    self._note_loss(error)
                    if self._options.reconnect:
                        self._lose(error)
                    self._dispatcher.event("on_disconnect", error)
                    if not self._options.reconnect:
                        raise
                    if not self._restore():
                        raise self.pool.verdict() from error
        except Error as error:
            failure = None if self.seat.is_closing else error
        except Exception as error:  # waiting callers get every error
            self._dispatcher.log("error", "the I/O thread failed", cause=error)
            failure = ConnectionClosedError(f"internal error: {error}")
            failure.__cause__ = error
        finally:
            self._finish(failure)

    def _establish(self) -> None:
        """Makes the first connection."""
        if self._round(monotonic() + self._options.connect_timeout):
            return
        verdict = self.pool.verdict()
        if not self._options.retry_on_failed_connect or not self.pool.servers:
            raise verdict
        self._dispatcher.attempt_failed(verdict)
        self.settled.set()
        if not self._restore():
            raise self.pool.verdict()

    def _restore(self) -> bool:
        """Tries all servers again and again. Returns whether there is a connection: False if no server is
        left. Raises the error of a server that has refused the credentials twice."""
        while self.pool.servers:
            delay = self._policy.delay()
            self.seat.begin()
            self.loop.pause(monotonic() + delay, self._check)
            if self._round(monotonic() + self._options.connect_timeout * len(self.pool.servers)):
                return True
        return False

    def _round(self, deadline: float) -> bool:
        """Tries every server once; returns whether one has answered."""
        pool = self.pool
        pool.begin()
        while True:
            self._policy.select(deadline, self.router.info)
            found = pool.next(monotonic(), deadline)
            if not found:
                return False
            server, until = found
            try:
                self._connect(server, until)
                pool.succeeded()
                return True
            except (Error, OSError, MemoryError) as error:
                self.loop.drop()
                self._check_closing()
                refused = isinstance(error, Error) and self.pool.refused_again(error)
                failure = pool.failed(server, self._step, error)
                self._note_outage(str(failure))
                if self._connected:
                    self._dispatcher.attempt_failed(failure)
                if refused and not self._options.ignore_auth_errors:
                    raise failure

    def _connect(self, server: Server, deadline: float) -> None:
        """Connects to one server, step by step."""
        self.seat.begin()
        self.server = server
        options = self._options
        tls = options.tls or TLS()
        self._step = "auth"
        login = options.login
        resolved = self._ask(partial(resolve, login, server), login.may_block, deadline)
        check = self._check_closing
        early = self._dialer.reach(options, server, deadline, check, self._begin_step)
        if tls.handshake_first or server.path and (server.tls or options.tls):
            self._secure(tls, server, deadline, early)
        greeting = self._upgrade(server, deadline) if server.path else early
        engine = Engine(
            str(server),
            lambda info: self._ask(
                partial(connect_options, options, resolved, info), bool(login.sign), deadline
            ),
            options.ping_interval,
            options.max_pings_out,
            options.wants_tls or server.tls,
            tls.handshake_first or bool(server.path),
        )
        channel = Channel(self.loop, self.outbound, engine, self._act, self.router)
        self._take_over(channel)
        channel.begin(greeting)
        while engine.phase is not Phase.OPEN:
            self._step = engine.phase.value
            self._check_closing()
            if monotonic() >= deadline:
                raise TimeoutError
            try:
                channel.push()
                channel.turn(deadline)
            except Error as error:
                if self.status in (Status.CONNECTING, Status.RECONNECTING):
                    raise
                self.seat.end(Ending.BROKEN, error)  # it was open already, and callers wait for it
                return
            if engine.phase is Phase.SECURING and self._greeting:
                self._secure(tls, server, deadline)
                engine.secured(self._greeting)

    def _begin_step(self, step: str) -> None:
        self._step = step

    def _upgrade(self, server: Server, deadline: float) -> bytes:
        """Upgrades the connection to a WebSocket; returns the payload that has arrived already."""
        given = self._options.websocket_headers
        headers = self._ask(partial(resolve_headers, given), callable(given), deadline)
        self._step = "websocket"
        compresses, check = self._options.websocket_compression, self._check_closing
        return self._dialer.upgrade(server, headers, compresses, deadline, check)

    def _ask(self, call: Callable[[], _T], blocks: bool, deadline: float) -> _T:
        """Obtains the credentials anew for each attempt; on a helper thread if code of the program may
        block."""
        if not blocks:
            return call()
        self._step = "auth"
        return self._dialer.run_blocking(call, deadline, self._check_closing)

    def _secure(self, tls: TLS, server: Server, deadline: float, early: bytes = b"") -> None:
        self._step = "tls"
        if early:  # from a proxy, or from somebody in between
            raise ProtocolError("bytes before TLS", 0)
        self._dialer.secure(tls, server, deadline, self._check_closing)

    def _check(self) -> float | None:
        """Called while waiting to reconnect. Returns the time of the next call; None, which ends the wait,
        if `reconnect` was called."""
        self._check_closing()
        self.router.expire(monotonic())
        return None if self.seat.ending else self.router.deadline

    def _check_closing(self) -> None:
        """Raises if the client is being closed."""
        if self.seat.is_closing:
            raise ConnectionClosedError

    def _is_over(self) -> bool:
        """Whether the client is closed and either the server has everything or the time limit has passed."""
        return self.seat.is_closing and (
            self.router.final_ping_answered or monotonic() >= self.seat.close_by
        )

    def _take_over(self, channel: Channel | None) -> None:
        """Makes `channel` the open connection, also for guests; None if there is none."""
        self.channel = self.seat.channel = channel

    def _serve(self) -> None:
        """Drives until the connection is lost or finished (see `_is_over`); parks while nothing happens.

        Raises the reason of the loss.
        """
        seat, channel = self.seat, self.channel
        assert channel
        # Whether the last turn sent `MUCH`: publishers then send for themselves while this thread stays away.
        much = False
        while not self._is_over():
            if much:
                seat.loop.calm()
            # Items that were added during the last turn have woken no thread.
            waiting = seat.outbound.is_full if much else seat.outbound.items
            due = waiting and not channel.has_unsent or seat.cause or seat.ending is Ending.REPLACE
            until = 0.0 if due else min(channel.deadline, seat.close_by)
            until = seat.wait_idle(until, channel.has_unsent, not self.router.full, much)
            if seat.cause:
                raise seat.cause
            if channel.is_torn:
                seat.end(Ending.REPLACE)
                channel.retire(min(monotonic() + _RETIRING, seat.close_by))
                raise ConnectionClosedError("interrupted while reading or writing")
            if seat.ending is Ending.REPLACE:
                raise ConnectionClosedError("reconnect was asked for")
            before = channel.out_bytes
            try:
                channel.push()
                channel.turn(until)
            except MemoryError as error:  # perhaps in the middle of a frame
                raise ConnectionClosedError("out of memory") from error
            much = channel.out_bytes - before >= MUCH

    def _note_loss(self, error: Error) -> None:
        channel = self.channel
        assert channel
        left = channel.unconfirmed
        self._dispatcher.log(
            "info", "disconnected from %s: %s; %d not confirmed", self.server, error, left
        )
        self._add_up(channel)

    def _lose(self, error: Error) -> None:
        """Handles the loss of the connection: waiting callers get an error, unsent messages are kept."""
        channel = self.channel
        assert channel
        self._take_over(None)
        self.loop.drop()
        self.status = Status.RECONNECTING
        self.connected.clear()
        brief = monotonic() - self._since < self._options.reconnect_max_wait
        self.pool.lost(error, brief and self.seat.ending is not Ending.REPLACE)
        reason = error.reason if isinstance(error, ConnectionClosedError) else str(error)
        lost = ConnectionReconnectingError(reason)
        lost.__cause__ = error
        self._note_outage(reason)
        self._refusals.lost(error)
        waiting = [flush.token for flush in self.outbound.detach(channel.unsent())]
        for token in waiting + channel.engine.abandon():
            if isinstance(token, Waiter):
                token.fail(lost)
        self.router.disconnected(lost)

    def _note_outage(self, reason: str) -> None:
        """Keeps the reason of the outage for the errors that callers get meanwhile."""
        self.outbound.outage = self.router.outage = reason

    def _add_up(self, channel: Channel) -> None:
        """Adds the counts of a past channel to the sums, once."""
        if channel.is_counted:
            return
        channel.is_counted = True
        self.unconfirmed += channel.unconfirmed
        self._past[0] += channel.sent
        self._past[1] += channel.in_bytes
        self._past[2] += channel.out_bytes

    def _act(self, event: EngineEvent) -> None:
        if isinstance(event, Opened):
            self._opened(event.info)
        elif isinstance(event, Secure):
            self._greeting = event.info
        else:
            if isinstance(event, InfoChanged):
                self.loop.limit(event.info.max_payload)
            self.router.act(event)

    def _opened(self, info: ServerInfo) -> None:
        """Handles a new connection: subscriptions are sent first, then messages published without a
        connection."""
        channel = self.channel
        assert channel
        self.router.outage = ""
        channel.open()
        self.loop.limit(info.max_payload)
        again, self._connected = self._connected, True
        self.router.connected(info, self.server, again)
        self.unconfirmed += self._refusals.connected(self.router.encoder)
        self.outbound.attach()
        # After `attach`: a subscription made in between is sent twice, never left out.
        channel.engine.send(self._table.wire())
        if not self.seat.is_closing:
            self.status = Status.DRAINING if self.draining else Status.CONNECTED
        self._since = monotonic()
        if again:
            self.reconnects += 1
            self._dispatcher.log("info", "reconnected to %s", self.server)
            self._dispatcher.event("on_reconnect")
        else:
            if self.settled.is_set:  # the first connection after failed attempts
                self._dispatcher.log("info", "connected to %s", self.server)
            self._dispatcher.event("on_connect")
        self.connected.set()
        self.settled.set()

    def _finish(self, failure: Error | None) -> None:
        closing, channel = self.seat.is_closing, self.channel
        self.failure = failure
        closed = self.closed()
        self.status = Status.CLOSED
        self.outbound.close(self.closed)
        tokens = [
            flush.token for flush in self.outbound.detach(channel.unsent() if channel else [])
        ]
        left = [*map(length, self.outbound.take_all())]
        self.unconfirmed += len(left)
        if left and self._connected:
            message = "connection closed with %d messages, %d bytes not sent"
            self._dispatcher.log("warning", message, len(left), sum(left))
        if channel:
            tokens += channel.engine.abandon()
            self._add_up(channel)
            self._take_over(None)
        for token in tokens:
            if isinstance(token, Waiter):
                token.fail(closed)
        for _, sub in self._table.all():
            sub.end(closed, discard=closing, quiet=closing)
        self.ended.set()
        self.connected.set()
        self.settled.set()
        known = self._connected or self._options.retry_on_failed_connect
        self._dispatcher.end(failure, quiet=not known)
