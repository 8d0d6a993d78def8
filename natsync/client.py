"""The client: publish, subscribe and request, from any number of threads.

Core NATS as in https://docs.nats.io/nats-concepts/core-nats. Every call that waits takes a timeout in
seconds, fails at once when the connection is closed, and says what happened with a `natsync.Error`.
A connection that is lost is made again, and told of all subscriptions; messages published meanwhile are
kept and sent then, as far as there is room.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, cast

from ._checks import check_call, check_count, check_seconds, check_text
from ._engine.connection import Connection, Stats, Status
from ._engine.forks import Inherited
from ._engine.nuid import nuid
from ._engine.outbound_buffer import LARGE, Chunks
from ._engine.pending_queue import Overflow, read_overflow
from ._engine.sink import SubscriptionHost, SubscriptionSink
from ._requests import Requests
from .errors import HandlerError, OptionError
from .headers import HeadersLike
from .message import Data, Handler, Msg, message_parts
from .options import (
    CLOSE_TIMEOUT,
    FLUSH_TIMEOUT,
    PENDING_BYTES_LIMIT,
    PENDING_MSGS_LIMIT,
    REQUEST_TIMEOUT,
    check_max_msgs,
)
from .protocol import ServerInfo
from .subscription import Subscription, check_limits

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from .errors import Error
    from .jetstream import JetStream

__all__ = ["Client"]

_SIZE_LINES = [b"%d\r\n" % size for size in range(LARGE)]
"""The end of a PUB line for each size of a small payload: formatting it takes 0.1 us (CPython 3.11)."""


class Client(Requests):
    """A connection to a NATS server, for any number of threads. Made by `connect`."""

    def __init__(self, connection: Connection, renew: Callable[[Connection], Connection]) -> None:
        self._renew = renew
        self._adopt(connection)

    def _adopt(self, connection: Connection) -> Connection:
        self._connection = connection
        self._router = connection.router
        self._put = connection.outbound.put
        self._host = SubscriptionHost(
            self.publish,
            connection.drive,
            connection.lock,
            connection.unsubscribe,
            connection.drain_subscription,
            connection.resume,
        )
        return connection

    def inherit(self) -> None:
        """This process was forked: its connection is the parent's. The next call makes a new one."""
        inherited = Inherited(self._connection, lambda parents: self._adopt(self._renew(parents)))
        self._connection = cast(Connection, inherited)
        self._put = lambda *args: inherited.own().outbound.put(*args)

    def publish(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Sends `data` to all who listen on `subject`; soon, not at once: see `flush`.

        Instead of a subject and the rest it takes a `Msg`, which has all of them.

        Waits only where the server takes less than is published: OutboundBufferLimitError after
        `write_timeout`. Raises MaxPayloadError, ProtocolError for a subject or header that cannot be
        sent, ConnectionClosedError. `headers` map names to one value or a list of them.
        """
        encoder = self._router.encoder
        # The hot path: a message without headers to a subject that was published to before.
        if (
            reply is None
            and headers is None
            and data.__class__ is bytes
            and subject.__class__ is str
        ):
            prefix = encoder.prefixes.get(subject)
            size = len(data)
            if prefix and size <= encoder.max_payload:
                if size < LARGE:
                    wire = b"".join((prefix, _SIZE_LINES[size], data, b"\r\n"))
                    self._put(wire, len(wire))
                else:
                    head = b"%b%d\r\n" % (prefix, size)
                    self._put(Chunks((head, data, b"\r\n")), len(head) + size + 2)
                return
        if isinstance(subject, Msg):
            subject, data, reply, headers = message_parts(subject, data, reply, headers)
        wire = encoder.message(subject, data, reply, headers)
        self._put(wire, len(wire))

    def publish_confirmed(
        self,
        subject: str,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
        timeout: float = FLUSH_TIMEOUT,
    ) -> None:
        """As `publish`, and returns when the server has taken the message.

        Raises PermissionsViolationError where it refuses it, FlushTimeoutError where it does not say so in
        `timeout` seconds, ConnectionReconnectingError where there is no connection, or none any more.
        """
        check_seconds(timeout=timeout)
        wire = self._router.encoder.message(subject, data, reply, headers)
        self._connection.confirm(subject, wire, timeout)

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        handler: Handler | None = None,
        max_msgs: int | None = None,
        pending_msgs_limit: int = PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = PENDING_BYTES_LIMIT,
        overflow: Overflow | str = Overflow.DROP_NEW,
        workers: int = 1,
        executor: Executor | None = None,
        on_close: Callable[[Error], None] | None = None,
        on_outage: Callable[[Error | None], object] | None = None,
    ) -> Subscription:
        """A subscription to `subject`, in which `*` is any token and a last `>` any tokens.

        Of all with the same `queue`, one gets each message. With a `handler`, a thread of its own calls
        it with each message, in order; `workers` threads do so in any order, or those of an `executor`,
        `workers` messages at a time. Without, ask the subscription. It ends after `max_msgs`. Messages
        over a pending limit (negative: no limit) are dropped, counted and reported, or what `overflow`
        says. `on_close` is told why it ended, on the callback thread.

        `on_outage(error)` is called when the connection is lost, and `on_outage(None)` when this
        subscription is sent to a server again: by the thread that takes the messages, after those that
        came before and before those that come later. Without a handler that is in `next_msg` or
        iteration, which then raise what it raises.

        What is published after this, on this client, reaches it.
        """
        check_text(subject=subject, queue=queue)
        check_call(handler=handler, on_close=on_close, on_outage=on_outage)
        check_count(workers=workers)
        check_max_msgs(max_msgs)
        check_limits(pending_msgs_limit, pending_bytes_limit)
        if workers < 1:
            raise OptionError("workers", "must be at least 1")
        if handler is None and (executor is not None or workers != 1):
            raise OptionError("workers" if executor is None else "executor", "needs a handler")
        check_call(executor=getattr(executor, "submit", executor))
        post = self._connection.dispatcher.post
        connection = self._connection  # behind the line before: a forked child has another one then
        sink = SubscriptionSink(
            subject,
            queue,
            self._host,
            (pending_msgs_limit, pending_bytes_limit),
            read_overflow(overflow),
            max_msgs,
            on_close=(lambda error: post(partial(on_close, error))) if on_close else None,
            on_outage=on_outage,
        )
        sub = Subscription(sink, handled=handler is not None)
        connection.subscribe(sink)
        if handler:
            try:
                connection.dispatcher.handle(sink, handler, workers, executor)
            except RuntimeError as error:  # the system gives no more threads
                sub.unsubscribe()
                raise HandlerError(subject) from error
            except BaseException:  # an interrupt: nobody would know of it
                sub.unsubscribe()
                raise
        return sub

    def jetstream(
        self,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT,
    ) -> JetStream:
        """JetStream of this account, or of another `domain`, or under the `prefix` of an imported API.

        `timeout` is for each of its calls that has none of its own; None waits for ever.
        """
        from .jetstream import JetStream  # doubles what `import natsync` would take

        return JetStream(self, domain=domain, prefix=prefix, timeout=timeout)

    def flush(self, timeout: float = FLUSH_TIMEOUT) -> None:
        """Returns when the server has dealt with everything that this client sent before.

        Raises FlushTimeoutError, or ConnectionClosedError; then the server may have it or not.
        """
        check_seconds(timeout=timeout)
        self._connection.flush(timeout)

    def rtt(self, timeout: float = FLUSH_TIMEOUT) -> float:
        """The seconds that a flush takes now."""
        start = monotonic()
        self.flush(timeout)
        return monotonic() - start

    def new_inbox(self) -> str:
        """A subject that nobody else uses."""
        return f"{self._connection.options.inbox_prefix}.{nuid()}"

    def close(self, timeout: float = CLOSE_TIMEOUT) -> None:
        """Ends the connection: sends what was published, if the server takes it within `timeout`.

        Pending messages are dropped, waiting callers get ConnectionClosedError, threads are joined (but
        not the one that calls this, which may be a handler). Closing again does nothing.
        """
        check_seconds(timeout=timeout)
        self._connection.close(timeout)

    def wait_connected(self, timeout: float) -> bool:
        """Whether it is connected within `timeout` seconds. Raises what ended it, where it will not be."""
        check_seconds(timeout=timeout)
        return self._connection.wait_connected(timeout)

    def reconnect(self) -> None:
        """Gives the connection up and makes another one, as if it were lost; returns at once.

        Raises ConnectionClosedError.
        """
        self._connection.reconnect()

    def drain(self, timeout: float = 30.0) -> None:
        """Ends the connection in order: no new messages, those that came are handled, what was published is
        sent, then it is closed.

        Raises DrainTimeoutError, when it is closed, with what was not handled within `timeout` seconds.
        Messages of subscriptions that only the calling thread reads stay to be taken afterwards.
        Handlers may publish meanwhile; `subscribe` raises ConnectionDrainingError. Called by a handler, it
        does not wait for that one.
        """
        check_seconds(timeout=timeout)
        self._connection.drain(timeout)

    @property
    def status(self) -> Status:
        """Whether it is connected."""
        return self._connection.status

    @property
    def server(self) -> str:
        """`host:port` of the server that it is connected to, or was, or tries now."""
        return str(self._connection.server)

    @property
    def server_info(self) -> ServerInfo:
        """What the server last said of itself: name, version, client id, limits."""
        return self._connection.info

    @property
    def stats(self) -> Stats:
        """Messages and bytes so far, each way."""
        return self._connection.stats

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        name = self._connection.options.name
        return f"Client({f'{name!r}, ' if name else ''}{self.server}, {self.status.value})"
