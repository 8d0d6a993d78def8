"""OpenTelemetry: spans for the messages that a client sends and handles, with their context in the headers;
and metrics.

    nc = natsync.connect(url, instrumentation=[natsync.otel.OpenTelemetry(), natsync.otel.Metrics()])

Follows the semantic conventions for messaging (opentelemetry.io/docs/specs/semconv/messaging): producer
spans for messages, client spans for requests, consumer spans around handlers. The context travels as the
global propagator writes it, by default as W3C `traceparent` and `tracestate`, which servers understand,
too (ADR-41). Needs the extra `otel`; nothing else of natsync imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from time import perf_counter
from typing import cast
from weakref import WeakKeyDictionary

try:
    from opentelemetry import metrics, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, MeterProvider, Observation
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ModuleNotFoundError as error:
    from ._extras import pip_install

    needs = f"natsync.otel needs opentelemetry-api: {pip_install('otel')}"
    raise ModuleNotFoundError(needs, name=error.name) from error

from . import __version__
from ._engine.connection import Stats
from .client import Client
from .errors import Error, HandlerError, ProtocolError
from .headers import Headers, HeadersLike
from .instrumentation import Instrumentation
from .message import Data, Msg

__all__ = ["Metrics", "OpenTelemetry", "processing"]

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
        name = _name_of(operation)
        attributes = _place(client) | {
            "messaging.client.id": str(client.server_info.client_id),
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
        group: Attributes = {"messaging.client.id": str(client.server_info.client_id)}
        if queue:
            group["messaging.consumer.group.name"] = queue
        return _processing(self._tracer, msg, subject, _place(client) | group)


class Metrics(Instrumentation):
    """Metrics for `connect(instrumentation=...)`, sent to `meter_provider` or else to the global one. One
    object may serve any number of clients.

    Subjects often contain ids, so that the subjects of sent messages are no attribute, unless `template`
    returns a text for a subject, such as `orders.*` for `orders.17`. It returns None for a subject that shall
    not be an attribute. Handlers have the subject of their subscription.
    """

    def __init__(
        self,
        meter_provider: MeterProvider | None = None,
        *,
        template: Callable[[str], str | None] | None = None,
    ) -> None:
        meter = metrics.get_meter("natsync", __version__, meter_provider)
        self._template = template
        self._clients: WeakKeyDictionary[Client, int] = WeakKeyDictionary()
        self._numbers = count(1)
        self._sent = meter.create_counter(
            "messaging.client.sent.messages", "{message}", "Messages that were sent, or failed."
        )
        self._took = meter.create_histogram(
            "messaging.client.operation.duration",
            "s",
            "Time until a message was buffered or confirmed, or a request was answered.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._consumed = meter.create_counter(
            "messaging.client.consumed.messages", "{message}", "Messages that handlers got."
        )
        self._processed = meter.create_histogram(
            "messaging.process.duration",
            "s",
            "Time in handlers.",
            explicit_bucket_boundaries_advisory=_BOUNDARIES,
        )
        self._errors = meter.create_counter(
            "nats.client.errors", "{error}", "Errors passed to on_error, by type."
        )
        meter.create_observable_counter(
            "nats.client.messages",
            [self._observe_messages],
            "{message}",
            "Messages on the wire, with acknowledgements and other requests to the server.",
        )
        meter.create_observable_counter(
            "nats.client.io", [self._observe_bytes], "By", "Bytes on the wire."
        )
        meter.create_observable_counter(
            "nats.client.reconnects",
            [self._observe_reconnects],
            "{reconnect}",
            "How often a lost connection was replaced.",
        )
        meter.create_observable_up_down_counter(
            "nats.client.pending.messages",
            [self._observe_pending],
            "{message}",
            "Messages that wait in subscriptions to be taken or handled.",
        )

    def attached(self, client: Client) -> None:
        """Begins to observe the client."""
        self._clients[client] = next(self._numbers)

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        """Notes the time."""
        attributes = _place(client) | {
            "messaging.operation.name": _name_of(operation),
            "messaging.operation.type": "send",
        }
        if self._template and (template := self._template(str(subject))):
            attributes["messaging.destination.template"] = template
        return (perf_counter(), attributes), headers

    def end(self, token: object, error: BaseException | None) -> None:
        """Records the operation, with the type of its error if there is one."""
        began, attributes = cast("tuple[float, Attributes]", token)
        if error:
            attributes["error.type"] = type(error).__qualname__
        self._sent.add(1, attributes)
        self._took.record(perf_counter() - began, attributes)

    @contextmanager
    def handling(self, client: Client, msg: Msg, subject: str, queue: str) -> Iterator[None]:
        """Records the handling of a message, with the type of what the handler raises."""
        attributes = _place(client) | {
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.destination.template": subject,
        }
        if queue:
            attributes["messaging.consumer.group.name"] = queue
        self._consumed.add(1, attributes)
        began = perf_counter()
        try:
            yield
        except BaseException as error:
            attributes["error.type"] = type(error).__qualname__
            raise
        finally:
            self._processed.record(perf_counter() - began, attributes)

    def reported(self, client: Client, error: Error) -> None:
        """Counts the error; each of the failures that a HandlerError stands for."""
        failures = error.failures if isinstance(error, HandlerError) else 1
        attributes = _place(client) | {"error.type": type(error).__qualname__}
        self._errors.add(failures, attributes)

    def _observed(self) -> Iterator[tuple[Stats, Attributes]]:
        for client, number in list(self._clients.items()):
            yield client.stats, {"messaging.system": "nats", "messaging.client.id": str(number)}

    def _observe_messages(self, _: CallbackOptions) -> Iterable[Observation]:
        for stats, attributes in self._observed():
            yield Observation(stats.out_msgs, attributes | _TRANSMITTED)
            yield Observation(stats.in_msgs, attributes | _RECEIVED)

    def _observe_bytes(self, _: CallbackOptions) -> Iterable[Observation]:
        for stats, attributes in self._observed():
            yield Observation(stats.out_bytes, attributes | _TRANSMITTED)
            yield Observation(stats.in_bytes, attributes | _RECEIVED)

    def _observe_reconnects(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(stats.reconnects, about) for stats, about in self._observed()]

    def _observe_pending(self, _: CallbackOptions) -> Iterable[Observation]:
        return [Observation(stats.pending_msgs, about) for stats, about in self._observed()]


_BOUNDARIES = [0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10]
"""Of the histograms, in seconds; those of the semantic conventions."""

_TRANSMITTED: Attributes = {"network.io.direction": "transmit"}
_RECEIVED: Attributes = {"network.io.direction": "receive"}


def _name_of(operation: str) -> str:
    return "publish" if operation.startswith("publish") else "request"


def _place(client: Client) -> Attributes:
    host, _, port = client.server.rpartition(":")
    return {
        "messaging.system": "nats",
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
