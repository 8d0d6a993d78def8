"""The client: `connect` to a server, then publish, subscribe and request, from any number of threads.

Core NATS as in https://docs.nats.io/nats-concepts/core-nats. Every call that waits takes a timeout in
seconds, fails at once when the connection is closed, and says what happened with a `natsync.Error`.
A connection that is lost is made again, and told of all subscriptions; messages published meanwhile are
kept and sent then, as far as there is room.
"""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Callable, Iterable
from time import monotonic

from .connection import Connection, Stats, Status
from .errors import (
    ConnectError,
    Error,
    HandlerError,
    HeadersNotSupportedError,
    MaxPayloadError,
    NoRespondersError,
    OptionError,
    RequestTimeoutError,
)
from .message import Handler, HeadersLike, Msg, encode_headers, to_wire
from .nuid import nuid
from .options import (
    CLOSE_TIMEOUT,
    DEFAULT_URL,
    FLUSH_TIMEOUT,
    PENDING_BYTES_LIMIT,
    PENDING_MSGS_LIMIT,
    RECONNECT_BUFFER,
    REQUEST_TIMEOUT,
    Callbacks,
    Options,
    check_max_msgs,
    parse_servers,
)
from .outbox import Ask
from .protocol import HMsg, ProtocolError, ServerInfo, encode_publish
from .subscription import Subscription

__all__ = ["Client", "connect"]

Data = bytes | bytearray | memoryview

EXIT_TIMEOUT = 2.0
_open: weakref.WeakSet[Connection] = weakref.WeakSet()
# What a forked child has of these is not its own.
os.register_at_fork(after_in_child=_open.clear)


@atexit.register
def _close_at_exit() -> None:
    """A program that ends without `close` still gets out what it published."""
    until = monotonic() + EXIT_TIMEOUT
    for connection in list(_open):
        connection.close(max(0.0, until - monotonic()))


def connect(
    servers: str | Iterable[str] = DEFAULT_URL,
    *,
    name: str = "",
    user: str = "",
    password: str = "",
    token: str = "",
    timeout: float = 2.0,
    request_timeout: float = REQUEST_TIMEOUT,
    write_timeout: float = 10.0,
    ping_interval: float = 120.0,
    max_pings_out: int = 2,
    verbose: bool = False,
    pedantic: bool = False,
    echo: bool = True,
    randomize: bool = True,
    discover: bool = True,
    reconnect: bool = True,
    max_reconnects: int | None = None,
    reconnect_wait: float = 0.1,
    reconnect_max_wait: float = 5.0,
    reconnect_buffer: int = RECONNECT_BUFFER,
    retry_first: bool = False,
    ignore_auth_errors: bool = False,
    inbox_prefix: str = "_INBOX",
    on_error: Callable[[Error], None] | None = None,
    on_disconnect: Callable[[Error | None], None] | None = None,
    on_reconnect: Callable[[], None] | None = None,
    on_discover: Callable[[list[str]], None] | None = None,
    on_lame_duck: Callable[[], None] | None = None,
    on_close: Callable[[Error | None], None] | None = None,
) -> Client:
    """A client connected to the first of `servers` that answers, tried in order.

    `servers` is one URL, several with commas, or a list: `nats://[user:password@|token@]host[:port]`.
    `timeout` bounds all of it: name, TCP, handshake, every server. Raises ConnectError (or
    ConnectTimeoutError) with the step that failed, AuthorizationError, NoServersError when several
    failed, OptionError for arguments that make no sense.

    `on_error` gets what no caller can: errors from the server, SlowConsumerError, HandlerError.
    `on_close` gets why the connection was lost, or None after `close`. Both run on one thread.
    """
    options = Options(
        servers=parse_servers(servers),
        name=name,
        user=user,
        password=password,
        token=token,
        version=_version(),
        timeout=timeout,
        request_timeout=request_timeout,
        write_timeout=write_timeout,
        ping_interval=ping_interval,
        max_pings_out=max_pings_out,
        verbose=verbose,
        pedantic=pedantic,
        echo=echo,
        randomize=randomize,
        discover=discover,
        reconnect=reconnect,
        max_reconnects=max_reconnects,
        reconnect_wait=reconnect_wait,
        reconnect_max_wait=reconnect_max_wait,
        reconnect_buffer=reconnect_buffer,
        retry_first=retry_first,
        ignore_auth_errors=ignore_auth_errors,
        inbox_prefix=inbox_prefix,
        callbacks=Callbacks(
            on_error=on_error,
            on_disconnect=on_disconnect,
            on_reconnect=on_reconnect,
            on_discover=on_discover,
            on_lame_duck=on_lame_duck,
            on_close=on_close,
        ),
    )
    connection = _connection(options)
    _open.add(connection)
    return Client(connection)


class Client:
    """A connection to a NATS server, for any number of threads. Made by `connect`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._put = connection.outbox.put

    def publish(
        self,
        subject: str,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Sends `data` to all who listen on `subject`; soon, not at once: see `flush`.

        Waits only where the server takes less than is published: OutboundBufferLimitError after
        `write_timeout`. Raises MaxPayloadError, ProtocolError for a subject or header that cannot be
        sent, ConnectionClosedError. `headers` map names to one value or a list of them.
        """
        self._put(self._encoded(subject, data, reply, headers))

    def _encoded(
        self, subject: str, data: Data, reply: str | None, headers: HeadersLike | None
    ) -> bytes:
        block = self._block(headers) if headers else b""
        if data.__class__ is not bytes:  # a quick look: this is the hot path
            _check_data(data)
        try:
            wire = encode_publish(to_wire(subject), to_wire(reply) if reply else b"", block, data)
        except AttributeError:
            _check_text(subject=subject, reply="" if reply is None else reply)
            raise
        limit = self._connection.info.max_payload
        if len(wire) > limit:
            size = len(block) + memoryview(data).nbytes
            if size > limit:
                raise MaxPayloadError(size, limit)
        return wire

    def subscribe(
        self,
        subject: str,
        *,
        queue: str = "",
        handler: Handler | None = None,
        max_msgs: int | None = None,
        pending_msgs_limit: int = PENDING_MSGS_LIMIT,
        pending_bytes_limit: int = PENDING_BYTES_LIMIT,
    ) -> Subscription:
        """A subscription to `subject`, in which `*` is any token and a last `>` any tokens.

        Of all with the same `queue`, one gets each message. With a `handler`, a thread of its own calls
        it with each message, in order; without, ask the subscription. It ends after `max_msgs`. Messages
        over a pending limit (negative: no limit) are dropped, counted and reported.

        What is published after this, on this client, reaches it.
        """
        _check_text(subject=subject, queue=queue)
        check_max_msgs(max_msgs)
        if not pending_msgs_limit or not pending_bytes_limit:
            raise OptionError("pending limit", "must not be 0; below 0 is no limit")
        connection = self._connection
        sub = Subscription(
            subject,
            queue,
            (pending_msgs_limit, pending_bytes_limit),
            self.publish,
            lambda limit: connection.unsubscribe(sid, sub, limit),
            connection.drive,
            max_msgs,
            handled=handler is not None,
        )
        sid = connection.subscribe(sub)
        if handler:
            try:
                connection.dispatcher.handle(sub, handler)
            except RuntimeError as error:  # the system gives no more threads
                sub.unsubscribe()
                raise HandlerError(subject) from error
        return sub

    def request(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None = None,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """The first reply to `data`, sent to `subject`. `timeout` is the connection's unless given.

        Raises NoRespondersError at once where nobody listens, RequestTimeoutError where nobody answers,
        PermissionsViolationError where this client may not ask, and what `publish` raises.
        """
        if timeout is None:
            timeout = self._connection.options.request_timeout
        inbox = self._connection.inbox()
        reply, waiter = inbox.open(subject)
        try:
            self._put(Ask(self._encoded(subject, data, reply, headers)), False)
            frame = waiter.wait(timeout)
        finally:
            inbox.close(reply)
        if frame is None:
            raise RequestTimeoutError(subject, timeout)
        msg = Msg(frame, self.publish)
        if isinstance(frame, HMsg) and not frame.payload and _is_no_responders(msg):
            raise NoRespondersError(subject)
        return msg

    def flush(self, timeout: float = FLUSH_TIMEOUT) -> None:
        """Returns when the server has dealt with everything that this client sent before.

        Raises FlushTimeoutError, or ConnectionClosedError; then the server may have it or not.
        """
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
        self._connection.close(timeout)

    def wait_connected(self, timeout: float) -> bool:
        """Whether it is connected within `timeout` seconds. Raises what ended it, where it will not be."""
        return self._connection.wait_connected(timeout)

    def reconnect(self) -> None:
        """Gives the connection up and makes another one, as if it were lost; returns at once."""
        self._connection.reconnect()

    @property
    def status(self) -> Status:
        """Whether it is connected."""
        return self._connection.status

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
        info = self._connection.info
        return f"Client({info.server_name!r}, {info.host}:{info.port}, {self.status.value})"

    def _block(self, headers: HeadersLike) -> bytes:
        if not self._connection.info.headers:
            raise HeadersNotSupportedError
        return encode_headers(headers)


def _connection(options: Options) -> Connection:
    try:
        connection = Connection(options)
        connection.open()
    except Error:
        raise
    except (OSError, RuntimeError) as error:  # the system gives no more descriptors or threads
        reason = getattr(error, "strerror", None) or str(error)
        raise ConnectError(str(options.servers[0]), "tcp", reason) from error
    return connection


def _is_no_responders(msg: Msg) -> bool:
    try:
        return msg.status == 503
    except ProtocolError:  # the caller meets it again when asking for the headers
        return False


def _check_data(data: object) -> None:
    if isinstance(data, str):
        raise TypeError("data must be bytes, not str: encode it, e.g. data.encode()")
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"data must be bytes, bytearray or memoryview, not {type(data).__name__}")


def _check_text(**given: object) -> None:
    for what, value in given.items():
        if not isinstance(value, str):
            raise TypeError(f"{what} must be str, not {type(value).__name__}")


def _version() -> str:
    from . import __version__

    return __version__
