"""`connect` and `StreamingConnection`: publish to and subscribe to channels of a streaming server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from .._checks import check_call, check_count, check_seconds, check_text
from .._connect import connect as connect_core
from ..errors import ConnectionClosedError, Error, OptionError
from ..options import CLOSE_TIMEOUT, DEFAULT_URL, wait_time
from ..protocol.streaming import (
    DISCOVER,
    CloseRequest,
    CloseResponse,
    StartPosition,
    is_channel,
)
from .errors import ConnectionLostError, UnknownClientError
from .liveness import Liveness
from .publisher import PubAckFuture, Publisher
from .session import Session, open_session
from .subscription import Handler, Start, Subscription, SubscriptionOptions

if TYPE_CHECKING:
    from ..client import Client
    from ..core import Core
    from ..message import Data

__all__ = ["StreamingConnection", "connect"]

ACK_WAIT = 30.0
MAX_IN_FLIGHT = 1024
MAX_PUB_ACKS_INFLIGHT = 16384
CONNECT_TIMEOUT = 2.0
PING_INTERVAL = 5
PING_MAX_OUT = 88
"""The defaults of stan.go. With these ping settings a client considers the server lost after seven
minutes, somewhat later than the server gives up on a client that does not answer its heartbeats."""

LostCallback = Callable[[ConnectionLostError], object]


class StreamingConnection:
    """A client of a NATS Streaming cluster, for any number of threads. Made by `connect`.

    A reconnect of the NATS connection does not affect it. It ends with `close`, or is lost: when
    the server does not answer pings or no longer knows the client, or when the NATS connection is
    closed.
    """

    def __init__(
        self,
        session: Session,
        liveness: Liveness,
        publisher: Publisher,
        owned: Client | None,
        on_connection_lost: LostCallback | None,
    ) -> None:
        self._session = session
        self._liveness = liveness
        self._publisher = publisher
        self._owned = owned
        self._on_connection_lost = on_connection_lost
        # Both are accessed in atomic operations: a signal handler may call `close` at any point.
        self._subscriptions: dict[Subscription, None] = {}
        self._ends = [None]  # whoever ends the connection pops the item
        self._process = os.getpid()
        liveness.start(session, self._lose)

    @property
    def client_id(self) -> str:
        """The id that this client is registered with."""
        return self._session.client_id

    @property
    def closed(self) -> bool:
        """Whether it was closed or lost."""
        return self._session.ended is not None

    def publish(self, channel: str, data: Data = b"") -> str:
        """Sends `data` to `channel`, and returns the message's guid when the server has stored it.

        Raises InvalidChannelError, RefusedError (limits of the store) and MaxPayloadError;
        PubAckTimeoutError after the connection's `pub_ack_wait`, or ConnectionReconnectingError if
        the NATS connection breaks meanwhile (in both cases the server may have stored the message);
        NoRespondersError if no streaming server is there at the moment; ConnectionLostError and
        ConnectionClosedError.
        """
        return self._publisher.publish(channel, data)

    def publish_async(self, channel: str, data: Data = b"") -> PubAckFuture:
        """Sends `data` to `channel`, and returns a future, whose `result` returns and raises the
        same as `publish`.

        If `max_pub_acks_inflight` messages are unacknowledged, it waits until half of them are
        acknowledged or have failed. Raises at once if the call itself is refused.
        """
        return self._publisher.publish_async(channel, data)

    def subscribe(
        self,
        channel: str,
        *,
        handler: Handler | None = None,
        queue: str = "",
        durable: str = "",
        start: StartPosition | None = None,
        start_sequence: int | None = None,
        start_time: datetime | None = None,
        start_time_delta: timedelta | float | None = None,
        max_in_flight: int = MAX_IN_FLIGHT,
        ack_wait: float = ACK_WAIT,
        manual_acks: bool = False,
    ) -> Subscription:
        """Returns a subscription to `channel`: iterate over it, call `next_msg`, or pass a
        `handler`, which is called with each message on a separate thread.

        It begins with new messages, at `start` (`FIRST`, `LAST_RECEIVED`), or at the first message
        whose sequence is at least `start_sequence`, or that is not older than `start_time` or
        `start_time_delta` (seconds before now). A `durable` that was closed continues where it was,
        whatever the start. In a `queue` group, each message goes to one member; with `durable`, the
        group keeps its position while it has no members.

        The server sends up to `max_in_flight` unacknowledged messages, and sends a message again
        that is not acknowledged within `ack_wait` seconds (a whole number). With `manual_acks` the
        caller acknowledges with `Msg.ack`.

        Raises OptionError, InvalidChannelError, DuplicateDurableError, RefusedError, ResponseError,
        NoRespondersError, RequestTimeoutError, ConnectionLostError, ConnectionClosedError.
        """
        check_text(queue=queue, durable=durable)
        check_call(handler=handler)
        begin = Start.of(start, start_sequence, start_time, start_time_delta)
        options = SubscriptionOptions(
            channel, queue, durable, begin, max_in_flight, ack_wait, manual_acks
        )
        self._session.check()
        sub = Subscription(self._session, options, handler, self._forget)
        sub.open()
        self._subscriptions[sub] = None
        if self._session.ended:  # checked last: anyone who ends it later finds the subscription
            sub.end(self._session.ended)
            self._session.check()
        return sub

    def close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Ends the connection: the server forgets this client, but not its durables. Closing again
        does nothing.

        Waits up to `timeout` seconds for the acknowledgements of `publish_async`; later calls raise
        ConnectionClosedError. The NATS connection is closed if `connect` has made it. In a forked
        child, the parent's connection is left alone.

        Raises RefusedError, ResponseError, NoRespondersError or RequestTimeoutError if the server
        does not confirm; it then keeps the client until the client misses heartbeats.
        """
        seconds = wait_time(timeout)
        if not self._end(ConnectionClosedError()):
            self._liveness.close(seconds)
            return
        if self._process != os.getpid():  # a forked child: the client is its parent's
            return
        try:
            self._publisher.wait(seconds)
            self._session.ask(
                f"closing client {self.client_id!r}",
                self._session.subjects.close_requests,
                CloseRequest(self.client_id),
                CloseResponse,
            )
        except (UnknownClientError, ConnectionClosedError):
            pass  # the server has forgotten it, or will
        finally:
            self._liveness.close(seconds)
            if self._owned:
                self._owned.close()

    def _lose(self, reason: str) -> None:
        """Ends the connection as lost. Called by the thread of `Liveness`."""
        error = ConnectionLostError(reason, self._publisher.unacknowledged)
        if not self._end(error):
            return
        self._liveness.close(0.0)
        if self._owned:
            self._owned.close()
        if self._on_connection_lost:
            self._on_connection_lost(error)

    def _end(self, error: Error) -> bool:
        """Ends everything on the client side; returns whether this call was the first."""
        try:
            self._ends.pop()
        except IndexError:
            return False
        self._session.ended = error
        for sub in self._subscriptions.copy():
            sub.end(error)
        return True

    def _forget(self, sub: Subscription) -> None:
        self._subscriptions.pop(sub, None)

    def __enter__(self) -> StreamingConnection:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(*([Error] if kind else [])):  # else it would hide the exception of the block
            self.close()

    def __repr__(self) -> str:
        return f"StreamingConnection({self.client_id!r}{', closed' if self.closed else ''})"


def connect(
    cluster_id: str,
    client_id: str,
    *,
    nc: Core | None = None,
    servers: str | Iterable[str] | None = None,
    connect_timeout: float | None = CONNECT_TIMEOUT,
    pub_ack_wait: float | None = ACK_WAIT,
    max_pub_acks_inflight: int = MAX_PUB_ACKS_INFLIGHT,
    ping_interval: int = PING_INTERVAL,
    ping_max_out: int = PING_MAX_OUT,
    discover_prefix: str = DISCOVER,
    on_connection_lost: LostCallback | None = None,
) -> StreamingConnection:
    """Connects to the NATS Streaming cluster `cluster_id`, as `client_id` (letters, digits, - and
    _).

    It uses the NATS connection `nc`, which stays open afterwards, or makes its own connection to
    `servers`, named after the client, and closes it at the end. `connect_timeout` limits making
    that connection, and each request except publishing, which `pub_ack_wait` limits.
    `max_pub_acks_inflight` is the most messages that `publish_async` leaves unacknowledged. The
    server is pinged every `ping_interval` whole seconds, and the connection is lost when more than
    `ping_max_out` pings are unanswered. `on_connection_lost` is then called with a
    ConnectionLostError, on a thread of natsync.

    Raises OptionError, UnknownClusterError, DuplicateClientError, RefusedError, ResponseError, and
    the errors of `natsync.connect`.
    """
    check_text(cluster_id=cluster_id, client_id=client_id, discover_prefix=discover_prefix)
    times = {"connect_timeout": connect_timeout, "pub_ack_wait": pub_ack_wait}
    check_seconds(**{option: seconds for option, seconds in times.items() if seconds is not None})
    check_call(on_connection_lost=on_connection_lost)
    _check_counts(max_pub_acks_inflight, ping_interval, ping_max_out)
    if nc is not None and servers is not None:
        raise OptionError("servers", "are those of nc")
    if not is_channel(discover_prefix):
        raise OptionError("discover_prefix", f"{discover_prefix!r} is not a subject")
    owned = None
    if nc is None:
        urls = DEFAULT_URL if servers is None else servers
        nc = owned = connect_core(urls, name=client_id, connect_timeout=connect_timeout)
    liveness = Liveness(nc)
    try:
        session = open_session(
            nc,
            cluster_id,
            client_id,
            liveness.heartbeat_inbox,
            prefix=discover_prefix,
            pings=(ping_interval, ping_max_out),
            timeout=wait_time(connect_timeout),
        )
    except BaseException:
        liveness.close(0.0)
        if owned:
            owned.close()
        raise
    publisher = Publisher(session, wait_time(pub_ack_wait), max_pub_acks_inflight)
    return StreamingConnection(session, liveness, publisher, owned, on_connection_lost)


def _check_counts(max_pub_acks_inflight: int, ping_interval: int, ping_max_out: int) -> None:
    """The minimum that stan.go allows."""
    counts = {"max_pub_acks_inflight": (max_pub_acks_inflight, 1)}
    counts |= {"ping_interval": (ping_interval, 1), "ping_max_out": (ping_max_out, 2)}
    for option, (number, least) in counts.items():
        check_count(**{option: number})
        if not least <= number < 2**31:
            raise OptionError(option, f"must be at least {least}")
