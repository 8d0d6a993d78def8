"""The router passes messages and events of the server to subscriptions, requests and callbacks. Only the
driver may call it, unless a docstring says otherwise.
"""

from __future__ import annotations

from ..errors import (
    ConnectionReconnectingError,
    Error,
    MaxMessagesError,
    OptionError,
    PermissionsViolationError,
    SubscriptionFullError,
)
from ..options import Server, parse_servers
from ..protocol import HMsg, Msg, ServerInfo, Violation
from .dispatch import Dispatcher
from .encoding import MessageEncoder
from .engine import Delivery, EngineEvent, InfoChanged, Lost, Ponged, Reported
from .outbound_buffer import Flush
from .refusals import Excess, Refusals
from .reply_mux import ReplyMux
from .seat import Waiter
from .servers import ServerPool
from .sink import Sink
from .subscription_table import SubscriptionTable
from .transport import is_numeric

__all__ = ["Router"]

_NEVER = float("inf")


class Router:
    """Routes for all connections of a client. `info` is the last INFO, `in_msgs` counts messages."""

    def __init__(
        self,
        table: SubscriptionTable,
        dispatcher: Dispatcher,
        pool: ServerPool,
        discover: bool,
        refusals: Refusals,
    ) -> None:
        self.info = ServerInfo()
        # Until a server says otherwise: what it refuses then is reported (see `Refusals.connected`).
        self.encoder = MessageEncoder(ServerInfo(headers=True))
        self.in_msgs = 0
        self.outage = ""
        """Why there is no connection; empty if there is one."""

        self.reply_mux: ReplyMux | None = None
        self.final_ping = Flush(object())
        """The last PING: its PONG shows that the server has processed everything."""
        self.final_ping_answered = False
        self._table = table
        self._dispatcher = dispatcher
        self._pool = pool
        self._discovers = discover
        self._refusals = refusals
        self._server: Server | None = None
        self._confirming: dict[Waiter[bool], tuple[str, str]] = {}
        self.full: dict[bytes, Sink] = {}
        """Full subscriptions. The connection reads nothing more until all of them have room."""

    def deliver(self, sid: bytes, frames: list[Msg | HMsg]) -> None:
        """Passes messages to their subscription."""
        self.in_msgs += len(frames)
        sub = self._table.get(sid)
        if sub is None:
            return  # unsubscribed meanwhile
        if dropped := sub.deliver(frames):
            self._dispatcher.slow_consumer(sub, dropped)
        if sub.max_msgs is not None and sub.received >= sub.max_msgs:
            self.limit_reached(sid)
        if sub.is_full:  # false for one that has ended
            self.full[sid] = sub
            if not sub.is_full:  # the thread that made room did not see the entry
                self.full.pop(sid, None)

    def act(self, event: EngineEvent) -> None:
        """Handles one event. Raises the error that ends the connection."""
        match event:
            case Delivery(sid, frames):
                self.deliver(sid, frames)
            case Ponged(token) if isinstance(token, Waiter):
                token.settle(True)
            case Ponged(token) if isinstance(token, Excess):
                self._refusals.counted(token)
            case Ponged():
                self.final_ping_answered = True
            case Reported(error, violation):
                self._report(error, violation)
            case InfoChanged(info):
                before, self.info, self.encoder = self.info, info, MessageEncoder(info)
                self._discover(info)
                if info.ldm and not before.ldm:
                    self._dispatcher.log("info", "server %s is in lame duck mode", self._server)
                    self._dispatcher.event("on_lame_duck")
            case Lost(error):
                raise error

    @property
    def deadline(self) -> float:
        """The time at which `expire` has something to do."""
        inbox = self.reply_mux
        return inbox.deadline if inbox and inbox.is_timed else _NEVER

    def expire(self, now: float) -> None:
        """Fails the requests that are too late."""
        if self.reply_mux and self.reply_mux.deadline <= now:
            self.reply_mux.expire(now, self.outage)

    def has_room(self) -> bool:
        """Returns whether no subscription is full any more, so that reading may go on. For any thread."""
        for sid, sub in list(self.full.copy().items()):
            if not sub.is_full:
                self.full.pop(sid, None)
        return not self.full

    def check_room(self) -> None:
        """Raises SubscriptionFullError if only the calling thread can make the room that the connection waits
        for: it would wait for an answer in vain. For any thread."""
        for sub in self.full.copy().values():
            if sub.is_full and sub.is_taken_here():
                raise SubscriptionFullError(sub.subject)

    def confirm(self, subject: str, reply: str, waiter: Waiter[bool]) -> None:
        """Registers `waiter`, which fails if the server refuses a message on `subject`, or with this
        `reply` subject."""
        self._confirming[waiter] = subject, reply

    def confirmed(self, waiter: Waiter[bool]) -> None:
        """Ends that registration."""
        self._confirming.pop(waiter, None)

    def connected(self, info: ServerInfo, server: Server, again: bool) -> None:
        """Handles a new connection to `server`; `again` says that it is not the first one."""
        self.info = info
        self.encoder = MessageEncoder(info)
        self._server = server
        self._discover(info, quiet=not again)

    def disconnected(self, error: ConnectionReconnectingError) -> None:
        """Tells all subscriptions, and the reply mux, that the connection is lost."""
        self._table.disconnected(error)

    def limit_reached(self, sid: bytes) -> None:
        """Ends a subscription that has received all messages that it was limited to."""
        sub = self._table.get(sid)
        if sub:
            # Removed last: an interrupt in between must not leave its readers waiting for ever.
            sub.end(MaxMessagesError(sub.subject))
            self._table.remove(sid)

    def _discover(self, info: ServerInfo, quiet: bool = False) -> None:
        """Adds the servers that `info` announces. An announced address has the name of the current server as
        its `tls_name`, since few certificates have addresses (nats.go: processInfo)."""
        at = self._server
        if not self._discovers or not info.connect_urls or not at:
            return
        name = at.tls_name or ("" if is_numeric(at.host) else at.host)
        announced = [
            at.replace(
                host=server.host, port=server.port, tls_name=name if is_numeric(server.host) else ""
            )
            for url in info.connect_urls
            for server in self._read_url(url)
        ]
        new = self._pool.discover(announced)
        if new and not quiet:
            self._dispatcher.event("on_discover", [str(server) for server in new])

    def _read_url(self, url: str) -> tuple[Server, ...]:
        """Returns the server that another one has announced; none, as nats.go, for what is no address."""
        try:
            return parse_servers(url)
        except OptionError:
            self._dispatcher.log("warning", "%s announces %r, no address", self._server, url)
            return ()

    def _report(self, error: Error, violation: Violation | None) -> None:
        if isinstance(error, PermissionsViolationError) and violation:
            self._table.deny(error, violation.sid)
            if error.operation == "publish":
                self._deny(error, violation.of_reply)
        self._refusals.reported(error)
        self._dispatcher.report(error)

    def _deny(self, error: PermissionsViolationError, of_reply: bool) -> None:
        if not of_reply:
            if self.reply_mux:
                self.reply_mux.deny(error)
            for sub in self._table.subscriptions():
                if sub.asks == error.subject:
                    sub.refuse(error)
        for waiter, subjects in list(self._confirming.copy().items()):
            if subjects[of_reply] == error.subject:
                if self._confirming.pop(waiter, None) is not None:
                    waiter.fail(error)
