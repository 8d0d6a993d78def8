"""The request calls of a client: for one reply, for many, for futures, or in a window."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING, TypeVar

from ._checks import check_call, check_count, check_seconds, check_text
from ._engine.connection import Connection
from ._engine.encoding import LARGE
from ._engine.forks import notice_fork, same_process
from ._engine.outbound_buffer import RequestChunks
from ._engine.reply_stream import ReplyStream, StreamHost
from ._engine.request_window import Ask, RequestWindow
from ._late import late_import
from .errors import NoRespondersError, OptionError, RequestTimeoutError
from .headers import HeadersLike
from .message import Data, Delivered, Msg, ReceivedMsg, is_no_responders, request_parts
from .options import DEFAULT, Default, check_max_msgs, wait_time
from .subscription import Replies

if TYPE_CHECKING:
    from ._engine.futures import RequestContext, RequestFuture, WindowFuture
    from ._engine.reply_mux import ReplyMux
    from ._engine.router import Router
    from ._engine.sink import SubscriptionHost

__all__ = ["Requests"]

_T = TypeVar("_T")


class Requests:
    """The request calls of `Client`, which inherits from this class."""

    _current: Connection
    _router: Router
    _put: Callable[..., float]
    _host: SubscriptionHost
    _mux: ReplyMux | None = None
    _futures: RequestContext | None = None

    @property
    def _connection(self) -> Connection:
        """The connection of this process."""
        if not same_process[0]:
            notice_fork()
        return self._current

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
