"""The client: publish, subscribe and request, from any number of threads.

Core NATS as in https://docs.nats.io/nats-concepts/core-nats. A call that waits takes a timeout in seconds
(None waits for ever), and raises a `natsync.Error` on failure, at once if the connection is closed. After a
lost connection, the client reconnects and sends all subscriptions to the next server; messages published
during the outage are kept, up to a limit, and sent then.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NoReturn, TypeVar, cast

from ._checks import check_call, check_count, check_seconds, check_text
from ._engine.connection import Connection, Stats, Status
from ._engine.encoding import LARGE, SIZE_LINES
from ._engine.forks import notice_fork, same_process
from ._engine.handlers import Runner
from ._engine.inherited import Inherited
from ._engine.outbound_buffer import Chunks, RequestChunks
from ._engine.pending_queue import Overflow, read_overflow
from ._engine.reply_mux import new_inbox
from ._engine.reply_stream import ReplyStream, StreamHost
from ._engine.request_window import Ask, RequestWindow
from ._engine.sink import DrainStage, SubscriptionHost, SubscriptionSink
from ._finalizers import before_exit
from ._late import late_import
from .errors import HandlerError, NoRespondersError, OptionError, RequestTimeoutError
from .headers import HeadersLike
from .message import (
    Data,
    Delivered,
    Handler,
    Msg,
    ReceivedMsg,
    is_no_responders,
    message_parts,
    request_parts,
    wire_reply,
)
from .options import (
    CLOSE_TIMEOUT,
    DEFAULT,
    DRAIN_TIMEOUT,
    FLUSH_TIMEOUT,
    PENDING_BYTES_LIMIT,
    PENDING_MSGS_LIMIT,
    REQUEST_TIMEOUT,
    CallbackName,
    Default,
    HandlerContext,
    check_max_msgs,
    parse_servers,
    wait_time,
)
from .protocol import ServerInfo
from .subscription import Replies, Subscription, check_limits
from .tls import TLSState

if TYPE_CHECKING:
    from concurrent.futures import Executor
    from threading import Thread

    from ._engine.futures import RequestContext, RequestFuture, WindowFuture
    from ._engine.reply_mux import ReplyMux
    from ._engine.router import Router
    from .errors import Error
    from .jetstream import JetStream

__all__ = ["Client"]

_M = TypeVar("_M", bound=Msg)
_T = TypeVar("_T")
_Self = TypeVar("_Self", bound="Client")


class Client:
    """A connection to a NATS server, which any number of threads may use. Made by `connect`."""

    _current: Connection
    _router: Router
    _put: Callable[..., float]
    _host: SubscriptionHost
    _mux: ReplyMux | None = None
    _futures: RequestContext | None = None

    def __init__(self, connection: Connection, renew: Callable[[Connection], Connection]) -> None:
        self._renew = renew
        self._adopt(connection)

    def _adopt(self, connection: Connection) -> Connection:
        self._current = connection
        self._mux = self._futures = None
        self._router = connection.router
        self._put = connection.outbound.put
        self._host = SubscriptionHost(
            self.respond,
            connection.drive,
            connection.lock,
            connection.ask,
            connection.unsubscribe,
            connection.drain_subscriptions,
            connection.resume,
        )
        return connection

    def _inherit(self) -> None:
        """Called in the child after a fork: its next call opens a new connection."""
        before = self._current
        if before.process == os.getpid():
            return
        inherited = Inherited(before, lambda parents: self._adopt(self._renew(parents)))
        if self._current is before:  # else a signal handler has interrupted this, and has done it
            self._current = cast(Connection, inherited)
            self._mux = self._futures = None
            self._put = lambda *args: inherited.own().outbound.put(*args)

    def publish(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """Sends `data` to all subscribers of `subject`; or sends a complete `Msg`.

        Returns before the message is written: `flush` waits until the server has it. While there is no
        connection, the message is kept for the next one. `headers` map names to a value or a list of
        values.

        Blocks only while the write buffer is full because the server reads too slowly, and then raises
        OutboundBufferLimitError after `write_timeout`. Also raises MaxPayloadError, MaxControlLineError,
        ConnectionClosedError, HeadersNotSupportedError, and ProtocolError for an invalid subject or header.
        """
        if not same_process[0]:
            notice_fork()
        encoder = self._router.encoder
        # The hot path: a message without headers.
        if not headers and data.__class__ is bytes and subject.__class__ is str:
            size = len(data)
            if reply:
                to = encoder.wire_pair(subject, reply, size)
            else:
                recall = encoder.recall
                to = recall(subject) or encoder.wire_subject(subject, size)
            put = self._put  # faster than `self._put(...)` on CPython 3.11
            if size < encoder.small:
                wire = b"".join((b"PUB ", to, SIZE_LINES[size], data, b"\r\n"))
                put(wire, len(wire))
                return
            if size <= encoder.max_payload:
                head = b"PUB %b %d\r\n" % (to, size)
                put(Chunks((head, data, b"\r\n")), len(head) + size + 2)
                return
        if isinstance(subject, Msg):
            subject, data, reply, headers = message_parts(subject, data, reply, headers)
        wire = encoder.message(subject, data, reply, headers)
        self._put(wire, len(wire))

    def respond(self, msg: Msg, data: Data = b"", *, headers: HeadersLike | None = None) -> None:
        """Publishes `data` to the reply subject of a received message, like `msg.respond`, but on this
        client. The reply subject is not checked, since it came from a server.

        Raises MsgNoReplyError, MsgNotBoundError for a message that the program made, and the errors of
        `publish`.
        """
        if not same_process[0]:
            notice_fork()
        wire = self._router.encoder.response(wire_reply(msg), data, headers)
        self._put(wire, len(wire))

    def publish_confirmed(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
        timeout: float | None = FLUSH_TIMEOUT,
    ) -> None:
        """Publishes as `publish` does, and returns when the server has processed the message.

        Raises PermissionsViolationError if the server refuses the message, FlushTimeoutError if it does
        not answer within `timeout` seconds, and ConnectionReconnectingError if there is no connection or it
        is lost; in that case the message is not sent again. If the server's configuration maps `subject` to
        another one, which this client may not publish to, the refusal names that one: only `on_error` hears
        of it then.
        """
        seconds = wait_time(timeout)
        connection = self._connection
        if isinstance(subject, Msg):
            subject, data, reply, headers = message_parts(subject, data, reply, headers)
        wire = self._router.encoder.message(subject, data, reply, headers)
        connection.confirm(subject, reply or "", wire, seconds)

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
        """Subscribes to `subject`, in which `*` stands for one token and a last `>` for one or more.

        The server delivers each message to one of the subscriptions with the same `queue`. The subscription
        ends after `max_msgs` messages. It also receives messages that this client publishes after the call,
        unless the option `echo` is off.

        Without a `handler`, the program takes messages with `next_msg` or iteration. With one, a thread of
        the client calls it with each message in order; or `workers` threads do so, in any order; or an
        `executor` does, with at most `workers` messages at a time. A handler that raises is reported to
        `on_error` and the connection goes on.

        `overflow` decides what happens to messages beyond a pending limit (below 0: no limit): by default,
        they are dropped, counted, and reported as SlowConsumerError.

        `on_close(error)` is called on the callback thread with the reason why the subscription has ended.
        `on_outage(error)` is called when the connection is lost, and `on_outage(None)` when the
        subscription is sent to the next server. The thread that takes messages makes both calls, in order
        with the messages. Without a handler, it makes them inside `next_msg` or iteration, which raise
        what `on_outage` raises.

        Raises ProtocolError for an invalid subject, MaxControlLineError, OptionError,
        ConnectionDrainingError, ConnectionClosedError.
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
        connection = self._connection  # after the line above, which replaces it in a forked child
        sink = SubscriptionSink(
            subject,
            queue,
            self._host,
            (pending_msgs_limit, pending_bytes_limit),
            read_overflow(overflow),
            max_msgs,
            on_close=(lambda error: post(partial(on_close, error))) if on_close else None,
            on_outage=on_outage,
            stage=connection.dispatcher.drain_stage(),
        )
        sink.has_handler = handler is not None  # before the server can refuse the subscription
        sub = Subscription(sink)
        connection.subscribe(sink)
        if handler:
            try:
                runner = self.runner(subject, handler, queue=queue)
                runner.subscribe(sink, workers, executor)
            except RuntimeError as error:  # the system is out of threads
                sub.unsubscribe()
                raise HandlerError(subject) from error
            except BaseException:  # an interrupt: the caller would not know of `sub`
                sub.unsubscribe()
                raise
        return sub

    def open_inbox(
        self,
        subject: str,
        *,
        queue: str = "",
        limited: bool = True,
        on_outage: Callable[[Error | None], object] | None = None,
        stage: DrainStage = DrainStage.CALL,
    ) -> Subscription:
        """Subscribes to `subject` for a reader or a call of a package, without a handler. Unless `limited`,
        any number of messages may be pending. A drain ends it in `stage`; for the reader of a program that
        is the `drain_stage` of the call that makes it."""
        limits = (PENDING_MSGS_LIMIT, PENDING_BYTES_LIMIT) if limited else (-1, -1)
        subscribe = self._connection.subscribe  # in a forked child, this replaces `_host`
        sink = SubscriptionSink(
            subject, queue, self._host, limits, on_outage=on_outage, stage=stage
        )
        sub = Subscription(sink)
        subscribe(sink)
        return sub

    def drain_stage(self) -> DrainStage:
        """Returns the stage in which a drain ends what the program opens on the calling thread: HANDLER if
        the thread runs a handler of this client. For packages."""
        return self._connection.dispatcher.drain_stage()

    def jetstream(
        self,
        domain: str | None = None,
        prefix: str | None = None,
        timeout: float | None = REQUEST_TIMEOUT,
        *,
        publish_window: int = 4000,
        publish_stall: float | None = REQUEST_TIMEOUT,
    ) -> JetStream:
        """Returns a JetStream context for this account, for another `domain`, or for an API imported under
        `prefix`.

        `timeout` applies to each call of the context that is given no timeout; None waits for ever.
        `publish_async` allows up to `publish_window` messages without acknowledgement, and waits up to
        `publish_stall` seconds for room.
        """
        with late_import:  # it would double the time of `import natsync`
            from .jetstream import JetStream

        return JetStream(
            self,
            domain=domain,
            prefix=prefix,
            timeout=timeout,
            publish_window=publish_window,
            publish_stall=publish_stall,
        )

    def request(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """Sends `data` to `subject`, or a complete `Msg`, and returns the first reply. `timeout` is in
        seconds; None waits for ever, and the default is the connection's `request_timeout`. The reply subject
        of a `Msg` is not used.

        Raises NoRespondersError at once if nobody listens on `subject`, RequestTimeoutError if nobody
        answers, PermissionsViolationError if this client may not publish there,
        ConnectionReconnectingError if the connection is lost meanwhile, SubscriptionFullError if nothing is
        read until the calling thread takes messages, and the errors of `publish`.
        """
        if subject.__class__ is not str:
            subject, data, headers = request_parts(subject, data, headers)
        seconds = (
            timeout if timeout.__class__ is float and timeout > 0.0 else self._seconds(timeout)
        )
        if not same_process[0]:
            notice_fork()
        mux = self._mux or self._open_mux()
        if self._router.full:
            self._router.check_room()
        token, waiter = mux.open(subject)
        try:
            wire = self._router.encoder.request(subject, data, mux.wire_prefix, token, headers)
            waited = self._put(wire, len(wire), False, seconds)
            frame = waiter.wait(seconds - waited if waited else seconds)
            if frame is None:
                self._router.check_room()
                raise RequestTimeoutError(subject, seconds, self._router.outage)
        except BaseException:
            mux.close(token)
            raise
        return self._read_reply(subject, frame)

    def request_async(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> RequestFuture:
        """Sends a request as `request` does, and at once returns a `concurrent.futures.Future` of its reply.
        Any number of requests may be in flight.

        `result` raises what `request` raises; `cancel` abandons the request. Functions passed to
        `add_done_callback` run on the callback thread.
        """
        if subject.__class__ is not str:
            subject, data, headers = request_parts(subject, data, headers)
        seconds = (
            timeout if timeout.__class__ is float and timeout > 0.0 else self._seconds(timeout)
        )
        if not same_process[0]:
            notice_fork()
        mux = self._mux or self._open_mux()
        future = (self._futures or self._begin_futures(mux)).open(subject, seconds)
        try:
            wire = self._router.encoder.request(
                subject, data, mux.wire_prefix, future.token, headers
            )
            self._put(wire, len(wire), True, seconds)
        except BaseException:
            future.cancel()
            raise
        return future

    def open_window(
        self,
        most: int,
        read: Callable[[str, bytes | None], _T],
        rescue: Callable[[WindowFuture[_T], Exception], bool] | None = None,
    ) -> RequestWindow[_T]:
        """Returns a window that keeps at most `most` requests in flight. The result of a future is
        `read(subject, payload)`: the subject of the request and the payload of the reply, which is None if
        the server says that nobody listens.

        The thread that reads the reply from the network calls `read`, which must not wait. If `read` raises
        an exception, the future fails with it. Before it fails a future, that thread calls
        `rescue(future, error)`. If that returns true, the request leaves the window, and its future stays
        open until the window's `finish` ends it.
        """
        check_count(most=most)
        check_call(read=read)
        if most < 1:
            raise OptionError("most", "must be at least 1")
        connection = self._connection
        mux = connection.reply_mux()
        window: RequestWindow[_T] = RequestWindow(most, connection.drive, connection.wake)
        with late_import:  # concurrent.futures would double the time of `import natsync`
            from ._engine.futures import WindowContext
        context = WindowContext(mux, connection.dispatcher.post, window, read, rescue)
        mux.add_window(window)
        opened, prefix = context.open, mux.wire_prefix

        def ask(
            subject: str, data: Data, headers: HeadersLike | None, timeout: float | None | Default
        ) -> WindowFuture[_T]:
            if not same_process[0]:
                notice_fork()
            future = opened(
                subject, timeout if timeout.__class__ is float else self._seconds(timeout)
            )
            try:
                encoder = self._router.encoder
                if data.__class__ is bytes and len(data) >= LARGE and not headers:
                    pieces = encoder.large_request(subject, data, prefix, future.token)
                    self._put(RequestChunks(pieces), sum(map(len, pieces)))
                else:
                    wire = encoder.request(subject, data, prefix, future.token, headers)
                    self._put(wire, len(wire))
            except BaseException:
                future.cancel()
                raise
            return future

        window.begin(self._observe(ask))
        return window

    def open_replies(self, subject: str, *, limited: bool = True) -> ReplyStream:
        """Returns a stream of replies to requests on `subject`: `request` sends a request, and `next`
        returns replies in the order in which they arrive. Unless `limited`, it keeps any number of them:
        for requests that say how much may arrive.

        A stream needs no SUB and UNSUB: replies come to the inbox that all requests share. JetStream delivers
        messages on their own subjects, not on the inbox, so a pull needs a subscription.
        """
        check_text(subject=subject)
        connection = self._connection
        mux = connection.reply_mux()

        def send(subject: str, data: Data, token: bytes, headers: HeadersLike | None) -> None:
            wire = self._router.encoder.request(subject, data, mux.wire_prefix, token, headers)
            self._put(wire, len(wire))

        host = StreamHost(
            send,
            mux.close_stream,
            self._host.respond,
            connection.drive,
            connection.lock,
            connection.dispatcher.report,
            connection.wake,
        )
        return mux.open_stream(subject, host, limited)

    def request_many(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        max_msgs: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[Msg], bool] | None = None,
        headers: HeadersLike | None = None,
    ) -> Replies:
        """Sends `data` to `subject`, or a `Msg`, and returns an iterator over the replies of any
        number of responders (ADR-47).

        The iterator ends `timeout` seconds after the call, after `max_msgs` replies, `stall` seconds after
        the last reply, or at a reply for which `sentinel` returns true, which it does not yield. It is not
        an error if no reply arrives in time. After the replies that arrived, it raises
        ConnectionReconnectingError if the connection was lost, since there may be more replies, or if there
        was none in all that time, or ConnectionClosedError. It raises NoRespondersError if nobody listens,
        and PermissionsViolationError if this client may not publish there. Iterate to the end, or call
        `close`.
        """
        subject, data, headers = request_parts(subject, data, headers)
        check_max_msgs(max_msgs)
        check_call(sentinel=sentinel)
        check_seconds(stall=0 if stall is None else stall)
        until = monotonic() + self._seconds(timeout)
        stream = self.open_replies(subject)
        try:
            stream.request(data, headers=headers)
            return Replies(stream, until, max_msgs, stall, sentinel, lambda: self._router.outage)
        except BaseException:
            stream.close()
            raise

    def flush(self, timeout: float | None = FLUSH_TIMEOUT) -> None:
        """Returns when the server has processed everything that this client sent before.

        Raises FlushTimeoutError after `timeout` seconds, ConnectionReconnectingError, or
        ConnectionClosedError; in each case the server may still have processed everything.
        """
        self._connection.flush(wait_time(timeout))

    def rtt(self, timeout: float | None = FLUSH_TIMEOUT) -> float:
        """Measures the round-trip time to the server with a `flush`; returns it in seconds."""
        start = monotonic()
        self.flush(timeout)
        return monotonic() - start

    def add_callback(self, name: CallbackName, call: Callable[..., object]) -> None:
        """Adds a callback: `name` is an option of `connect`, such as `on_disconnect`, and `call` takes the
        same arguments. Callbacks of one name are called in the order in which they were added; the option is
        the first. Raises OptionError, and TypeError."""
        self._connection.options.callbacks.add(name, call)

    def remove_callback(self, name: CallbackName, call: Callable[..., object]) -> None:
        """Removes a callback that was added, or given to `connect`; one that is being called is not
        interrupted. Raises OptionError if it is not there."""
        self._connection.options.callbacks.remove(name, call)

    def start_thread(self, name: str, body: Callable[[], None]) -> Thread:
        """Runs `body` on a new daemon thread of this client, and returns the thread. `close` joins it, as it
        joins the threads of handlers; a `drain` that `body` calls does not wait for it. `body` must end when
        calls of this client raise that it is closed. Raises RuntimeError if the system is out of threads.
        """
        return self._connection.dispatcher.start(name, body)

    def runner(
        self,
        subject: str,
        handler: Callable[[_M], object],
        *,
        queue: str = "",
        on_error: Callable[[Error], object] | None = None,
    ) -> Runner[_M]:
        """Returns a runner of `handler`, within `handler_context` and the instrumentation, which is told this
        `subject` and `queue`. For packages that have readers of their own."""
        handler = self._observe_handler(handler, subject, queue)
        if context := self._connection.options.handler_context:
            handler = _inside(context, handler)
        return Runner(self._connection.dispatcher, handler, on_error)

    def _observe_handler(
        self, handler: Callable[[_M], object], subject: str, queue: str
    ) -> Callable[[_M], object]:
        """Returns `handler`. Instrumentation replaces this method with one that wraps `handler`."""
        return handler

    def report_error(self, error: Error) -> None:
        """Passes `error` to the callback `on_error`, on the callback thread; without one, logs it as a
        warning. For packages, whose errors no call can raise."""
        self._connection.dispatcher.report(error)

    def new_inbox(self) -> str:
        """Returns a unique subject for replies."""
        return new_inbox(self._connection.options.inbox_prefix)

    def close(self, timeout: float | None = CLOSE_TIMEOUT) -> None:
        """Ends the connection; first sends what was published, if the server takes it within `timeout`.

        Pending messages are dropped and counted, waiting calls raise ConnectionClosedError, and the threads
        of the client are joined, except the calling one. Closing again does nothing; while another thread
        closes, it waits until the connection has ended.
        """
        self._connection.close(wait_time(timeout))

    def drain(self, timeout: float | None = DRAIN_TIMEOUT) -> None:
        """Unsubscribes, waits until all messages that have arrived are handled, sends what was published,
        and closes the connection.

        Handlers may make any call meanwhile: what they subscribe to or read from works until all handlers
        are done, and so do calls such as `fetch` and `keys` on any thread. Elsewhere `subscribe`, `consume`,
        `messages` and `watch` raise ConnectionDrainingError.

        Raises DrainTimeoutError after `timeout` seconds, with the number of unhandled messages by subject,
        and FlushTimeoutError if the server has not confirmed what was published; the connection is closed in
        both cases. Messages that only the calling thread takes stay pending and can be taken after the
        call. A handler may call `drain`, which does not wait for that handler.
        """
        self._connection.drain(wait_time(timeout))

    def wait_connected(self, timeout: float | None = None) -> bool:
        """Waits for a connection and returns whether there is one within `timeout` seconds.

        If there will never be one, raises the error that ended the client.
        """
        return self._connection.wait_connected(wait_time(timeout))

    def reconnect(self) -> None:
        """Drops the connection and opens a new one, as after a loss. Returns at once; `wait_connected`
        waits for the new connection.

        Raises ConnectionClosedError, OptionError if the option `reconnect` is off.
        """
        self._connection.reconnect()

    @property
    def status(self) -> Status:
        """The state of the connection."""
        return self._connection.status

    @property
    def server(self) -> str:
        """`host:port` of the current server, or of the last one that was tried."""
        return str(self._connection.server)

    @property
    def servers(self) -> list[str]:
        """`host:port` of all known servers, named or discovered, in the order in which they are tried."""
        return [str(server) for server in self._connection.pool.servers]

    def set_server_pool(self, servers: str | Iterable[str]) -> None:
        """Replaces all known servers by `servers`, from the next attempt to connect on.

        The current connection stays; `reconnect` leaves it for one of the new servers.
        """
        self._connection.pool.replace(parse_servers(servers))

    @property
    def server_info(self) -> ServerInfo:
        """The server's description of itself: its name, version, limits, and the id of this client."""
        return self._connection.info

    @property
    def tls_state(self) -> TLSState | None:
        """The protocol version, the cipher and the certificate of the server of the current connection; None
        without TLS, or without a connection."""
        transport = self._connection.transport
        return transport.tls_state if transport else None

    @property
    def local_address(self) -> str | None:
        """`host:port` of this end of the current connection, or the path of a Unix socket; None without a
        connection."""
        transport = self._connection.transport
        return transport.local_address if transport else None

    @property
    def remote_address(self) -> str | None:
        """The same of the other end: the address of the server, or of a proxy."""
        transport = self._connection.transport
        return transport.remote_address if transport else None

    @property
    def stats(self) -> Stats:
        """Messages and bytes so far in both directions, reconnects, and messages that may be lost."""
        return self._connection.stats

    @property
    def _connection(self) -> Connection:
        """The connection of this process."""
        if not same_process[0]:
            notice_fork()
        return self._current

    def _observe(self, ask: Ask[_T]) -> Ask[_T]:
        """Returns `ask`. Instrumentation replaces this method with one that wraps `ask`."""
        return ask

    def _open_mux(self) -> ReplyMux:
        mux = self._mux = self._connection.reply_mux()
        return mux

    def _begin_futures(self, mux: ReplyMux) -> RequestContext:
        with late_import:  # as above
            from ._engine.futures import RequestContext
        post = self._connection.dispatcher.post
        self._futures = futures = RequestContext(mux, post, self._read_reply)
        return futures

    def _seconds(self, timeout: float | None | Default) -> float:
        if timeout is DEFAULT:
            return self._connection.options.request_timeout
        return wait_time(timeout)

    def _read_reply(self, subject: str, frame: Delivered) -> Msg:
        msg = ReceivedMsg(frame, self._host.respond)
        if not frame.payload and is_no_responders(msg):  # a quick look first
            raise NoRespondersError(subject)
        return msg

    def __reduce__(self) -> NoReturn:
        raise TypeError("a client cannot be pickled or copied: connect in each process")

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @before_exit
    def __del__(self) -> None:
        connection: Connection | None = vars(self).get("_current")
        if not connection or connection.status is Status.CLOSED:
            return
        if connection.process != os.getpid():
            connection.abandon()  # `inherit` was not called: the collector has freed the client first
        else:
            text = f"unclosed client {self!r}"
            connection.begin_close(CLOSE_TIMEOUT, "the garbage collector")
            # Last: a filter may turn the warning into an error.
            warnings.warn(text, ResourceWarning, source=self)

    def __repr__(self) -> str:
        name = self._connection.options.name
        return f"Client({f'{name!r}, ' if name else ''}{self.server}, {self.status.value})"


def _inside(context: HandlerContext, handler: Callable[[_M], object]) -> Callable[[_M], object]:
    def handle(msg: _M) -> object:
        with context(msg):
            return handler(msg)

    return handle
