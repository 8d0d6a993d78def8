"""OpenTelemetry: spans for what is sent and handled, and their context in the headers of messages.

    nc = natsync.connect(url, client_class=natsync.otel.TracedClient)

Follows the semantic conventions for messaging (opentelemetry.io/docs/specs/semconv/messaging): producer
spans for `publish` and `respond`, client spans for requests, consumer spans around handlers. The context
travels as the global propagator writes it, by default W3C `traceparent` and `tracestate`, which servers
know too (ADR-41). Needs the extra `otel`; nothing else of natsync imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Executor, Future
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider

from . import __version__
from ._engine.futures import ReplyFuture
from ._engine.pending_queue import Overflow
from .client import Client
from .errors import Error, ProtocolError
from .headers import Headers, HeadersLike
from .message import Data, Handler, Msg, message_parts
from .options import DEFAULT, FLUSH_TIMEOUT, PENDING_BYTES_LIMIT, PENDING_MSGS_LIMIT, Default
from .subscription import Replies, Subscription

__all__ = ["TracedClient", "processing"]

Attributes = dict[str, str | int | bool]


def processing(
    msg: Msg, template: str = "", *, tracer_provider: TracerProvider | None = None
) -> AbstractContextManager[Span]:
    """A span for the handling of `msg`, child of who sent it: for messages that no handler takes.

        for msg in sub:
            with natsync.otel.processing(msg, sub.subject):
                ...

    `template` is the subject subscribed to, which names the span; what is raised is recorded.
    """
    return _processing(_tracer_of(tracer_provider), msg, template or msg.subject, {})


class TracedClient(Client):
    """A Client whose messages, requests and handlers have spans; for `connect(client_class=...)`.

    Spans go to the global tracer provider, or to the `tracer_provider` of a subclass.
    """

    tracer_provider: TracerProvider | None = None

    def publish(
        self,
        subject: str | Msg,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
    ) -> None:
        """As `Client.publish`, with a span."""
        if isinstance(subject, Msg):
            subject, data, reply, headers = message_parts(subject, data, reply, headers)
        with self._sending("publish", SpanKind.PRODUCER, subject, data) as span:
            super().publish(subject, data, reply=reply, headers=self._inject(headers, span))

    def publish_confirmed(
        self,
        subject: str,
        data: Data = b"",
        *,
        reply: str | None = None,
        headers: HeadersLike | None = None,
        timeout: float | None = FLUSH_TIMEOUT,
    ) -> None:
        """As `Client.publish_confirmed`, with a span that lasts until the server has taken it."""
        with self._sending("publish", SpanKind.PRODUCER, subject, data) as span:
            super().publish_confirmed(
                subject,
                data,
                reply=reply,
                headers=self._inject(headers, span),
                timeout=timeout,
            )

    def request(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> Msg:
        """As `Client.request`, with a span that lasts until the reply."""
        with self._sending("request", SpanKind.CLIENT, subject, data) as span:
            headers = self._inject(headers, span)
            return super().request(subject, data, timeout=timeout, headers=headers)

    def request_async(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        headers: HeadersLike | None = None,
    ) -> ReplyFuture[Msg]:
        """As `Client.request_async`, with a span that lasts until the future is done."""
        span = self._span("request", SpanKind.CLIENT, subject, data)
        try:
            headers = self._inject(headers, span)
            future = super().request_async(subject, data, timeout=timeout, headers=headers)
        except BaseException as error:
            _end(span, error)
            raise
        future.add_done_callback(lambda done: _end(span, _failure(done)))
        return future

    def request_many(
        self,
        subject: str,
        data: Data = b"",
        *,
        timeout: float | None | Default = DEFAULT,
        max_msgs: int | None = None,
        stall: float | None = None,
        sentinel: Callable[[Msg], bool] | None = None,
        headers: HeadersLike | None = None,
    ) -> Replies:
        """As `Client.request_many`, with a span that lasts until the end of the iteration."""
        span = self._span("request", SpanKind.CLIENT, subject, data)
        try:
            with trace.use_span(span):
                replies = super().request_many(
                    subject,
                    data,
                    timeout=timeout,
                    max_msgs=max_msgs,
                    stall=stall,
                    sentinel=sentinel,
                    headers=self._inject(headers, span),
                )
        except BaseException as error:
            _end(span, error)
            raise
        return _TracedReplies(replies, span)

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
        """As `Client.subscribe`, with a span around each call of `handler`. See `processing`, too."""
        return super().subscribe(
            subject,
            queue=queue,
            handler=self._traced(handler, subject, queue) if callable(handler) else handler,
            max_msgs=max_msgs,
            pending_msgs_limit=pending_msgs_limit,
            pending_bytes_limit=pending_bytes_limit,
            overflow=overflow,
            workers=workers,
            executor=executor,
            on_close=on_close,
            on_outage=on_outage,
        )

    @cached_property
    def _tracer(self) -> Tracer:
        return _tracer_of(self.tracer_provider)

    def _traced(self, handler: Handler, subject: str, queue: str) -> Handler:
        group: Attributes = {"messaging.consumer.group.name": queue} if queue else {}

        def handle(msg: Msg) -> object:
            with _processing(self._tracer, msg, subject, self._place() | group):
                return handler(msg)

        return handle

    @contextmanager
    def _sending(self, name: str, kind: SpanKind, subject: str, data: Data) -> Iterator[Span]:
        span = self._span(name, kind, subject, data)
        failure: BaseException | None = None
        try:
            with trace.use_span(span, record_exception=False, set_status_on_exception=False):
                yield span
        except BaseException as error:
            failure = error
            raise
        finally:
            _end(span, failure)

    def _span(self, name: str, kind: SpanKind, subject: str, data: Data) -> Span:
        inbox = f"{self._connection.options.inbox_prefix}."
        attributes = self._place() | {
            "messaging.operation.name": name,
            "messaging.operation.type": "send",
            "messaging.destination.name": str(subject),
        }
        if isinstance(data, (bytes, bytearray, memoryview)):  # all else is about to be refused
            attributes["messaging.message.body.size"] = memoryview(data).nbytes
        if temporary := str(subject).startswith(inbox):
            attributes["messaging.destination.temporary"] = True
        shown = "(temporary)" if temporary else subject
        return self._tracer.start_span(f"{name} {shown}", kind=kind, attributes=attributes)

    def _place(self) -> Attributes:
        host, _, port = self.server.rpartition(":")
        return {
            "messaging.system": "nats",
            "messaging.client.id": str(self.server_info.client_id),
            "server.address": host.strip("[]"),
            "server.port": int(port),
        }

    def _inject(self, headers: HeadersLike | None, span: Span) -> HeadersLike | None:
        """`headers` with the context of `span`, where the server takes headers and there is one to tell."""
        told: dict[str, str] = {}
        if self.server_info.headers:
            propagate.inject(told, trace.set_span_in_context(span))
        if not told or not headers:
            return told or headers
        if isinstance(headers, Headers):
            headers = headers.to_dict()
        elif not isinstance(headers, Mapping):
            return headers  # it is about to be refused
        kept = {name: value for name, value in headers.items() if str(name).lower() not in told}
        return {**kept, **told}


def _tracer_of(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("natsync", __version__, provider)


@contextmanager
def _processing(tracer: Tracer, msg: Msg, template: str, attributes: Attributes) -> Iterator[Span]:
    """A consumer's span, which is current meanwhile; its parent is what the headers of `msg` tell."""
    attributes = {
        "messaging.system": "nats",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": msg.subject,
        "messaging.destination.template": template,
        "messaging.message.body.size": len(msg.data),
        **attributes,
    }
    with tracer.start_as_current_span(
        f"process {template}",
        context=_context_of(msg),
        kind=SpanKind.CONSUMER,
        attributes=attributes,
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            raise


def _context_of(msg: Msg) -> Context:
    """What the headers tell of who sent it. Names in any case: some clients write them as HTTP does."""
    try:
        told = {name.lower(): values for name, values in msg.headers.to_dict().items()}
    except ProtocolError:
        told = {}
    return propagate.extract(told)


class _TracedReplies(Replies):
    """Replies, and a span that lasts as long as they are asked for."""

    def __init__(self, replies: Replies, span: Span) -> None:
        self._replies = replies
        self._span: Span | None = span

    def __next__(self) -> Msg:
        try:
            return next(self._replies)
        except StopIteration:
            self.close()
            raise
        except Exception as error:
            self._end(error)
            raise

    def close(self) -> None:
        self._replies.close()
        self._end(None)

    def _end(self, failure: BaseException | None) -> None:
        span, self._span = self._span, None
        if span:
            _end(span, failure)


def _failure(done: Future[Msg]) -> BaseException | None:
    return CancelledError() if done.cancelled() else done.exception()


def _end(span: Span, failure: BaseException | None = None) -> None:
    if failure:
        span.record_exception(failure)
        span.set_attribute("error.type", type(failure).__qualname__)
        span.set_status(Status(StatusCode.ERROR, str(failure)))
    span.end()
