"""OpenTelemetry: spans for the messages that a client sends and handles, and their context in the headers.

    nc = natsync.connect(url, instrumentation=natsync.otel.OpenTelemetry())

Follows the semantic conventions for messaging (opentelemetry.io/docs/specs/semconv/messaging): producer
spans for messages, client spans for requests, consumer spans around handlers. The context travels as the
global propagator writes it, by default as W3C `traceparent` and `tracestate`, which servers understand,
too (ADR-41). Needs the extra `otel`; nothing else of natsync imports this module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import cast

try:
    from opentelemetry import propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as error:
    needs = "natsync.otel needs opentelemetry-api: pip install 'natsync[otel]'"
    raise ModuleNotFoundError(needs, name=error.name) from error

from . import __version__
from .client import Client
from .errors import ProtocolError
from .headers import Headers, HeadersLike
from .instrumentation import Instrumentation
from .message import Data, Msg

__all__ = ["OpenTelemetry", "processing"]

Attributes = dict[str, str | int | bool]


def processing(
    msg: Msg, template: str = "", *, tracer_provider: TracerProvider | None = None
) -> AbstractContextManager[Span]:
    """Returns a context manager with a span for the processing of `msg`, which came to no handler.

        for msg in sub:
            with natsync.otel.processing(msg, sub.subject):
                ...

    The span is a child of the sender's. `template` is the subject of the subscription, which names the span.
    An exception is recorded.
    """
    return _processing(_tracer_of(tracer_provider), msg, template or msg.subject, {})


class OpenTelemetry(Instrumentation):
    """Spans for `connect(instrumentation=...)`, sent to `tracer_provider` or else to the global one.

    A span of a message ends when the message is buffered or confirmed, a span of a request when its reply
    has arrived. One object may serve any number of clients.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None) -> None:
        self._tracer = _tracer_of(tracer_provider)

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        """Starts a span, and adds its context to the headers if the server supports them."""
        publishes = operation.startswith("publish")
        name = "publish" if publishes else "request"
        attributes = _place(client) | {
            "messaging.operation.name": name,
            "messaging.operation.type": "send",
            "messaging.destination.name": str(subject),
        }
        if isinstance(data, (bytes, bytearray, memoryview)):  # the client will refuse other types
            attributes["messaging.message.body.size"] = memoryview(data).nbytes
        if temporary := str(subject).startswith(client.new_inbox().rpartition(".")[0] + "."):
            attributes["messaging.destination.temporary"] = True
        shown = "(temporary)" if temporary else subject
        kind = SpanKind.PRODUCER if publishes else SpanKind.CLIENT
        span = self._tracer.start_span(f"{name} {shown}", kind=kind, attributes=attributes)
        return span, _inject(client, headers, span)

    def end(self, token: object, error: BaseException | None) -> None:
        """Ends the span, and records the error if there is one."""
        span = cast(Span, token)
        if error:
            span.record_exception(error)
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(Status(StatusCode.ERROR, str(error)))
        span.end()

    def handling(
        self, client: Client, msg: Msg, subject: str, queue: str
    ) -> AbstractContextManager[Span]:
        """Returns a context manager with a span, a child of the sender's."""
        group: Attributes = {"messaging.consumer.group.name": queue} if queue else {}
        return _processing(self._tracer, msg, subject, _place(client) | group)


def _place(client: Client) -> Attributes:
    host, _, port = client.server.rpartition(":")
    return {
        "messaging.system": "nats",
        "messaging.client.id": str(client.server_info.client_id),
        "server.address": host.strip("[]"),
        "server.port": int(port),
    }


def _inject(client: Client, headers: HeadersLike | None, span: Span) -> HeadersLike | None:
    """`headers` with the context of `span`, if the server supports headers and there is a context."""
    context: dict[str, str] = {}
    if client.server_info.headers:
        propagate.inject(context, trace.set_span_in_context(span))
    if not context or not headers:
        return context or headers
    if isinstance(headers, Headers):
        headers = headers.to_dict()
    elif not isinstance(headers, Mapping):
        return headers  # the client will refuse them
    kept = {name: value for name, value in headers.items() if str(name).lower() not in context}
    return {**kept, **context}


def _tracer_of(provider: TracerProvider | None) -> Tracer:
    return trace.get_tracer("natsync", __version__, provider)


@contextmanager
def _processing(tracer: Tracer, msg: Msg, template: str, attributes: Attributes) -> Iterator[Span]:
    """Makes a consumer span the current one inside the block. Its parent is in the headers of `msg`."""
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
    """The sender's context. The case of header names is ignored, since some clients capitalise them as in
    HTTP."""
    try:
        headers = {name.lower(): values for name, values in msg.headers.to_dict().items()}
    except ProtocolError:
        headers = {}
    return propagate.extract(headers)
