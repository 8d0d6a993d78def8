"""`Subscription`: the messages of a channel, passed to a handler or returned to callers.

The server sends at most `max_in_flight` unacknowledged messages, and sends a message again that is
not acknowledged within `ack_wait`. Pending messages therefore need no other limit here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import time_ns
from typing import TYPE_CHECKING

from .._checks import check_count, check_seconds
from ..errors import (
    BadSubscriptionError,
    ConnectionClosedError,
    ConnectionReconnectingError,
    Error,
    NextMsgTimeoutError,
    OptionError,
    OutboundBufferLimitError,
    SyncSubRequiredError,
    fresh,
)
from ..protocol.streaming import (
    Ack,
    MsgProto,
    StartPosition,
    SubscriptionRequest,
    SubscriptionResponse,
    UnsubscribeRequest,
)
from .errors import ManualAckError, RefusedError, ResponseError, UnsupportedError, read
from .message import Msg
from .session import Session, check_channel

if TYPE_CHECKING:
    from .. import message as core
    from ..subscription import Subscription as CoreSubscription

__all__ = ["Handler", "Start", "Subscription", "SubscriptionOptions"]

Handler = Callable[[Msg], object]
"""Called by a subscription with each message; the result is ignored."""

_MOST = 2**31 - 1  # the largest int32, the type in the protocol
_UNKNOWN = "stan: invalid subscription"
"""The server's response to a request to end a subscription that it does not have. If it comes after
a repeated request, the response to the first request was lost."""


@dataclass(frozen=True, slots=True)
class Start:
    """Where a subscription begins: a position and its number, as the protocol defines them."""

    position: StartPosition
    sequence: int = 0
    time_delta_ns: int = 0

    @classmethod
    def of(
        cls,
        position: StartPosition | None,
        sequence: int | None,
        time: datetime | None,
        time_delta: timedelta | float | None,
    ) -> Start:
        """Returns the start that the arguments select; at most one may be given. Raises
        OptionError, TypeError."""
        named = [each for each in (position, sequence, time, time_delta) if each is not None]
        if len(named) > 1:
            raise OptionError("start", "must be one of position, sequence, time and time delta")
        if sequence is not None:
            check_count(start_sequence=sequence)
            if not 0 < sequence < 2**64:
                raise OptionError("start_sequence", "must be from 1 to 2**64 - 1")
            return cls(StartPosition.SEQUENCE_START, sequence)
        if time is not None:
            if not isinstance(time, datetime):
                raise TypeError(f"start_time must be a datetime, not {type(time).__name__}")
            return cls._before_now("start_time", time_ns() - round(time.timestamp() * 1e6) * 1000)
        if isinstance(time_delta, timedelta):
            delta_ns = time_delta // timedelta(microseconds=1) * 1000
            return cls._before_now("start_time_delta", delta_ns)
        if time_delta is not None:
            check_seconds(start_time_delta=time_delta)
            return cls._before_now("start_time_delta", time_delta * 1e9)
        try:
            position = StartPosition.NEW_ONLY if position is None else StartPosition(position)
        except ValueError:
            raise OptionError("start", f"{position!r} is not a StartPosition") from None
        if position in (StartPosition.SEQUENCE_START, StartPosition.TIME_DELTA_START):
            raise OptionError("start", "needs start_sequence, start_time or start_time_delta")
        return cls(position)

    @classmethod
    def _before_now(cls, option: str, delta_ns: float) -> Start:
        if not -(2**63) <= delta_ns < 2**63:
            raise OptionError(option, "is more than 292 years from now")
        return cls(StartPosition.TIME_DELTA_START, 0, int(delta_ns))


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """The options of a subscription, checked before they are sent to the server."""

    channel: str
    queue: str
    durable: str
    start: Start
    max_in_flight: int
    ack_wait: float
    manual_acks: bool

    def __post_init__(self) -> None:
        check_channel(self.channel)
        check_count(max_in_flight=self.max_in_flight)
        check_seconds(ack_wait=self.ack_wait)
        if not 1 <= self.max_in_flight <= _MOST:
            raise OptionError("max_in_flight", f"must be from 1 to {_MOST}")
        if not 1 <= self.ack_wait <= _MOST or self.ack_wait != int(self.ack_wait):
            raise OptionError("ack_wait", "must be a whole number of seconds, at least 1")
        if self.queue and ":" in self.durable:
            raise OptionError("durable", "must not contain ':' together with a queue group")

    def request(self, client_id: str, inbox: str) -> SubscriptionRequest:
        return SubscriptionRequest(
            client_id=client_id,
            subject=self.channel,
            queue_group=self.queue,
            inbox=inbox,
            max_in_flight=self.max_in_flight,
            ack_wait=int(self.ack_wait),
            durable_name=self.durable,
            start_position=self.start.position,
            start_sequence=self.start.sequence,
            start_time_delta=self.start.time_delta_ns,
        )


class Subscription:
    """The messages of a channel; made by `StreamingConnection.subscribe`. For any number of
    threads.

    Without `manual_acks` a message is acknowledged when its handler returns, when the loop over the
    subscription asks for the next message, or before `next_msg` returns it. If the handler raises,
    the message is not acknowledged and is sent again.
    """

    def __init__(
        self,
        session: Session,
        options: SubscriptionOptions,
        handler: Handler | None,
        forget: Callable[[Subscription], None],
    ) -> None:
        self._session = session
        self._options = options
        self._handler = handler
        self._forget = forget
        self._acks: Future[str] = Future()
        self._ack_inbox = ""
        self._end: Error | None = None
        self._left = False
        """Whether the server has confirmed the end of the subscription."""
        nc = session.nc
        self._inner: CoreSubscription = nc.subscribe(
            nc.new_inbox(),
            handler=self._handle if handler else None,
            pending_msgs_limit=-1,
            pending_bytes_limit=-1,
        )

    def open(self) -> None:
        """Requests the subscription from the server. Raises RefusedError, ResponseError, and the
        errors of `Core.request`."""
        session, channel, inbox = self._session, self.channel, self._inner.subject
        request = self._options.request(session.client_id, inbox)
        try:
            answer = session.ask(
                f"subscribing to {channel!r}",
                session.subjects.sub_requests,
                request,
                SubscriptionResponse,
            )
            if not answer.ack_inbox:
                subject = session.subjects.sub_requests
                raise ResponseError(subject, "SubscriptionResponse without an inbox")
        except BaseException as error:
            self.end(BadSubscriptionError(channel))
            if session.subjects.sub_close_requests and not isinstance(error, RefusedError):
                # The server may have made it, and can find it by its inbox (as in stan.go).
                close = UnsubscribeRequest(session.client_id, channel, inbox)
                with suppress(Error):
                    session.nc.publish(session.subjects.sub_close_requests, close.to_bytes())
            raise
        self._ack_inbox = answer.ack_inbox
        self._acks.set_result(answer.ack_inbox)

    @property
    def channel(self) -> str:
        """The channel subscribed to."""
        return self._options.channel

    @property
    def queue(self) -> str:
        """The queue group; empty if there is none."""
        return self._options.queue

    @property
    def durable(self) -> str:
        """The durable name; empty if there is none."""
        return self._options.durable

    @property
    def pending_msgs(self) -> int:
        """The number of messages that wait to be taken."""
        return self._inner.pending_msgs

    @property
    def closed(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self._end is not None

    def next_msg(self, timeout: float | None = None) -> Msg:
        """Returns the next message; waits up to `timeout` seconds for it, or for ever.

        Raises NextMsgTimeoutError, BadSubscriptionError if the subscription has ended,
        ConnectionLostError if the session is lost, ResponseError for bytes that are not a message.
        """
        msg = self._next(timeout)
        self._acknowledge(msg)
        return msg

    def __iter__(self) -> Iterator[Msg]:
        """Iterates over the messages as they arrive, until the subscription is unsubscribed or
        closed.

        Raises ConnectionLostError if the session is lost, ResponseError for bytes that are not a
        message.
        """
        self._check_sync()
        return self._messages()

    def unsubscribe(self) -> None:
        """Ends the subscription. The server forgets a durable and its position; a durable queue
        group is forgotten when its last member unsubscribes.

        Raises RefusedError, ResponseError, and the errors of `Core.request`. Even then no more
        messages arrive; calling it again repeats the request to the server.
        """
        self._leave(f"unsubscribing from {self.channel!r}", self._session.subjects.unsub_requests)

    def close(self) -> None:
        """Ends the subscription. The server keeps a durable, so that a later subscription continues
        after the acknowledged messages.

        Raises as `unsubscribe` does, and UnsupportedError if the server does not support it.
        """
        operation = f"closing the subscription to {self.channel!r}"
        subject = self._session.subjects.sub_close_requests
        if not subject:
            raise UnsupportedError(operation)
        self._leave(operation, subject)

    def end(self, error: Error) -> None:
        """Ends the subscription on the client side only; waiting callers get `error`."""
        if self._end is None:
            self._end = error
        self._forget(self)
        self._acks.cancel()
        self._inner.unsubscribe()

    def _leave(self, operation: str, subject: str) -> None:
        if self._left or self._session.ended:
            return
        again = self._end is not None
        self.end(BadSubscriptionError(self.channel))
        request = UnsubscribeRequest(self._session.client_id, self.channel, self._ack_inbox)
        try:
            self._session.ask(operation, subject, request, SubscriptionResponse)
        except RefusedError as error:
            if not (again and error.text == _UNKNOWN):
                raise
        self._left = True

    def _check_sync(self) -> None:
        if self._handler:
            raise SyncSubRequiredError(self.channel)

    def _next(self, timeout: float | None) -> Msg:
        self._check_sync()
        try:
            return self._read(self._inner.next_msg(timeout))
        except NextMsgTimeoutError as error:
            raise NextMsgTimeoutError(self.channel, error.timeout) from None
        except (BadSubscriptionError, ConnectionClosedError) as error:
            raise fresh(self._end or error) from None

    def _messages(self) -> Iterator[Msg]:
        while True:
            try:
                msg = self._next(None)
            except BadSubscriptionError:
                return
            yield msg
            self._acknowledge(msg)

    def _read(self, msg: core.Msg) -> Msg:
        return Msg(read(MsgProto, f"channel {self.channel}", msg.data), self._ack)

    def _handle(self, raw: core.Msg) -> None:
        """Called on the handler's thread. A message may arrive before the response that names the
        inbox for acknowledgements."""
        if not self._ack_inbox:
            try:
                self._acks.result()
            except CancelledError:
                return
        if self._handler and self._end is None:
            msg = self._read(raw)
            self._handler(msg)
            self._acknowledge(msg)

    def _ack(self, msg: Msg) -> None:
        """Implements `Msg.ack`."""
        if not self._options.manual_acks:
            raise ManualAckError(self.channel)
        if self._end:
            raise fresh(self._end)
        self._send_ack(msg)

    def _acknowledge(self, msg: Msg) -> None:
        """Acknowledges a message that needs no manual ack, unless the subscription has ended: the
        server would ignore it. If nothing can be published now, the server sends the message
        again."""
        if not self._options.manual_acks and self._end is None:
            with suppress(ConnectionReconnectingError, OutboundBufferLimitError):
                self._send_ack(msg)

    def _send_ack(self, msg: Msg) -> None:
        self._session.nc.publish(self._ack_inbox, Ack(msg.channel, msg.sequence).to_bytes())

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with suppress(*([Error] if kind else [])):  # else it would hide the exception of the block
            self.close()

    def __repr__(self) -> str:
        named = {"queue": self.queue, "durable": self.durable}
        options = "".join(f", {name}={value!r}" for name, value in named.items() if value)
        return f"Subscription({self.channel!r}{options}, {self.pending_msgs} pending)"
