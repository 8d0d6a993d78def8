"""Spans: their names, kinds, attributes and parents, and what is left alone without a tracer. Metrics."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from time import monotonic

import pytest

import natsync
from natsync._extras import pip_install
from natsync.errors import NoRespondersError
from natsync.jetstream import ConsumerConfig, ConsumerDeletedError, JetStreamMsg, StreamConfig
from natsync.protocol import Err, HMsg, HPub, Msg, Pub

from tests.support.fake_server import INFO, Background, FakeServer, Peer
from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

try:
    from opentelemetry import trace
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from opentelemetry.trace import SpanKind, StatusCode
except ImportError:
    missing("opentelemetry-sdk", "pip install 'natsync[test]'")

from natsync.otel import Metrics, OpenTelemetry, processing

PROVIDER = TracerProvider()
EXPORTER = InMemorySpanExporter()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TIMEOUT = 10.0
TRACE, SENDER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SENDER}-01"
Connected = tuple[natsync.Client, Peer]


def connect(url: str) -> natsync.Client:
    # A provider of its own: the global one can be set only once.
    return natsync.connect(url, instrumentation=OpenTelemetry(PROVIDER), reconnect=False)


@pytest.fixture
def connected() -> Iterator[Connected]:
    EXPORTER.clear()
    with FakeServer() as server, server.client(connect) as (nc, peer):
        yield nc, peer


def spans() -> list[ReadableSpan]:
    return list(EXPORTER.get_finished_spans())


def only() -> ReadableSpan:
    (span,) = spans()
    return span


def attributes_of(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def traceparent(span: ReadableSpan) -> bytes:
    context = span.get_span_context()
    assert context
    ids = f"{context.trace_id:032x}-{context.span_id:016x}"
    return f"traceparent: 00-{ids}-{context.trace_flags:02x}".encode()


def test_a_publish_has_a_span_and_tells_of_it(connected: Connected) -> None:
    nc, peer = connected
    nc.publish("orders.new", b"xyz", headers={"K": ["1", "2"], "Traceparent": "old"})
    sent = peer.expect(HPub)
    span = only()
    host, port = nc.server.split(":")
    assert (span.name, span.kind) == ("publish orders.new", SpanKind.PRODUCER)
    assert attributes_of(span) == {
        "messaging.system": "nats",
        "messaging.operation.name": "publish",
        "messaging.operation.type": "send",
        "messaging.destination.name": "orders.new",
        "messaging.message.body.size": 3,
        "messaging.client.id": "7",
        "server.address": host,
        "server.port": int(port),
    }
    assert sent.headers == b"NATS/1.0\r\nK: 1\r\nK: 2\r\n" + traceparent(span) + b"\r\n\r\n"


def test_a_span_that_is_current_is_the_parent(connected: Connected) -> None:
    nc, peer = connected
    with PROVIDER.get_tracer("test").start_as_current_span("above") as above:
        nc.publish("a", memoryview(b"xyz").cast("B"))
    assert peer.expect(HPub).payload == b"xyz"
    child = spans()[0]
    assert child.parent and child.parent.span_id == above.get_span_context().span_id
    assert attributes_of(child)["messaging.message.body.size"] == 3


def test_what_is_refused_here_is_an_error_of_the_span(connected: Connected) -> None:
    nc, _ = connected
    with pytest.raises(natsync.ProtocolError):
        nc.publish("a b")
    span = only()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "ProtocolError"
    assert [event.name for event in span.events] == ["exception"]
    with pytest.raises(TypeError, match="headers must be a mapping"):
        nc.publish("a", headers=[("a", "b")])  # type: ignore[arg-type]  # the point
    with pytest.raises(TypeError, match="data must be bytes"):
        nc.publish("a", "text")  # type: ignore[arg-type]  # the point


def test_a_refused_publish_that_is_confirmed(connected: Connected) -> None:
    nc, peer = connected
    call = Background(lambda: nc.publish_confirmed("a", b"x"))
    peer.expect(HPub)
    peer.send(Err(b'Permissions Violation for Publish to "a"'))
    with pytest.raises(natsync.PermissionsViolationError):
        call.result()
    assert attributes_of(only())["error.type"] == "PermissionsViolationError"


def test_a_request_lasts_until_its_reply(connected: Connected) -> None:
    nc, peer = connected
    call = Background(lambda: nc.request("svc", b"?", timeout=5))
    asked = peer.until(HPub)
    assert spans() == []
    peer.send(Msg(asked.reply, b"1", b"", b"!"))
    assert call.result().data == b"!"
    span = only()
    assert (span.name, span.kind) == ("request svc", SpanKind.CLIENT)
    assert traceparent(span) in asked.headers


def test_futures_and_their_failures(connected: Connected) -> None:
    nc, peer = connected
    future = nc.request_async("svc", timeout=5)
    asked = peer.until(HPub)
    peer.send(HMsg(asked.reply, b"1", b"", b"NATS/1.0 503\r\n\r\n"))
    with pytest.raises(NoRespondersError):
        future.result(5)
    nc.request_async("svc", timeout=5).cancel()
    nc.close(0)  # callbacks are done then
    assert [attributes_of(span)["error.type"] for span in spans()] == [
        "NoRespondersError",
        "CancelledError",
    ]
    with pytest.raises(natsync.ConnectionClosedError):
        nc.request_async("svc")
    assert attributes_of(spans()[2])["error.type"] == "ConnectionClosedError"


def test_many_replies_are_one_span(connected: Connected) -> None:
    nc, peer = connected
    replies = nc.request_many("svc", max_msgs=2, timeout=5)
    asked = peer.until(HPub)
    peer.send(*[Msg(asked.reply, b"1", b"", b"%d" % number) for number in range(2)])
    assert [msg.data for msg in replies] == [b"0", b"1"]
    assert traceparent(only()) in asked.headers
    with pytest.raises(natsync.ProtocolError):
        nc.request_many("a b")
    assert attributes_of(spans()[1])["error.type"] == "ProtocolError"


@pytest.mark.parametrize("name", ["traceparent", "Traceparent"])
def test_a_handler_is_a_child_of_who_sent(connected: Connected, name: str) -> None:
    nc, peer = connected
    nc.subscribe("svc.*", queue="q", handler=lambda msg: msg.respond(b"!"))
    sid = peer.subscribed()
    block = f"NATS/1.0\r\n{name}: {PARENT}\r\ntracestate: k=v\r\n\r\n".encode()
    peer.send(HMsg(b"svc.a", sid, b"_INBOX.x.1", block, b"?"))
    answer = peer.until(HPub)
    nc.close(0)  # the handler is done then
    sending, handling = spans()
    assert (handling.name, handling.kind) == ("process svc.*", SpanKind.CONSUMER)
    assert handling.parent and f"{handling.parent.span_id:016x}" == SENDER
    attributes = attributes_of(handling)
    assert attributes["messaging.destination.name"] == "svc.a"
    assert attributes["messaging.destination.template"] == "svc.*"
    assert attributes["messaging.consumer.group.name"] == "q"
    assert sending.name == "publish (temporary)"
    assert attributes_of(sending)["messaging.destination.temporary"] is True
    assert sending.parent and handling.context
    assert sending.parent.span_id == handling.context.span_id
    assert TRACE.encode() in answer.headers and b"tracestate: k=v" in answer.headers


def test_a_handler_that_raises(connected: Connected) -> None:
    nc, peer = connected
    sub = nc.subscribe("a", handler=lambda msg: 1 // 0)
    peer.send(HMsg(b"a", peer.subscribed(), b"", b"broken\r\n\r\n", b""))
    call = Background(nc.flush)
    peer.answer()
    call.result()
    assert sub._sink.wait_idle(monotonic() + 5) == 0
    span = only()
    assert span.status.status_code is StatusCode.ERROR
    assert attributes_of(span)["error.type"] == "ZeroDivisionError"
    assert span.parent is None


def test_messages_taken_by_hand(connected: Connected) -> None:
    nc, peer = connected
    sub = nc.subscribe("a.*")
    block = f"NATS/1.0\r\ntraceparent: {PARENT}\r\n\r\n".encode()
    peer.send(HMsg(b"a.b", peer.subscribed(), b"", block, b""))
    msg = sub.next_msg(5)
    with processing(msg, sub.subject, tracer_provider=PROVIDER):
        assert trace.get_current_span().get_span_context().trace_id == int(TRACE, 16)
    assert only().name == "process a.*"
    with processing(msg):  # the global provider: there is none, so that nothing is recorded
        pass
    assert len(spans()) == 1


def test_a_server_without_headers_hears_nothing_of_it() -> None:
    old = INFO.replace(headers=False)
    with FakeServer() as server, server.client(connect, old) as (nc, peer):
        nc.publish("a", b"x")
        assert peer.expect(Pub).payload == b"x"


def test_without_a_provider_messages_are_as_they_are() -> None:
    def plain(url: str) -> natsync.Client:
        return natsync.connect(url, instrumentation=OpenTelemetry())

    with FakeServer() as server, server.client(plain) as (nc, peer):
        nc.publish("a", b"x")
        assert peer.expect(Pub) == Pub(b"a", b"", b"x")


class Meters:
    """Metrics, and what they show."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.provider = MeterProvider([self._reader])

    def values(self, name: str, *attributes: str) -> dict[tuple[object, ...], int]:
        """The values of a counter or gauge, or the counts of a histogram, by these attributes."""
        data = self._reader.get_metrics_data()
        assert data
        found: dict[tuple[object, ...], int] = {}
        for metric in data.resource_metrics[0].scope_metrics[0].metrics:
            for point in metric.data.data_points if metric.name == name else ():
                key = tuple((point.attributes or {}).get(each) for each in attributes)
                value = point.count if hasattr(point, "count") else point.value
                found[key] = found.get(key, 0) + value
        return found


@pytest.mark.server
def test_metrics_of_what_a_client_sends_and_handles(js_server: NatsServer) -> None:
    EXPORTER.clear()
    meters = Meters()
    hook = Metrics(meters.provider, template=lambda to: None if "INBOX" in to else to)
    failed = threading.Event()

    def handler(msg: natsync.Msg) -> None:
        if msg.data == b"fail":
            raise ValueError
        msg.respond(b"!")

    with natsync.connect(
        js_server.url,
        instrumentation=[OpenTelemetry(PROVIDER), hook],
        on_error=lambda error: failed.set(),
    ) as nc:
        sub = nc.subscribe("metrics.*", queue="q", handler=handler)
        nc.request("metrics.a", b"?", timeout=TIMEOUT)
        nc.publish("metrics.b", b"fail")
        with pytest.raises(NoRespondersError):
            nc.request("nobody.here", timeout=TIMEOUT)
        assert failed.wait(TIMEOUT)
        sub.drain(TIMEOUT)

    error, operation = "error.type", "messaging.operation.name"
    template, group = "messaging.destination.template", "messaging.consumer.group.name"
    sent = {
        ("request", "metrics.a", None): 1,
        ("request", "nobody.here", "NoRespondersError"): 1,
        ("publish", "metrics.b", None): 1,
        ("publish", None, None): 1,  # the answer, which went to an inbox
    }
    for name in ("messaging.client.sent.messages", "messaging.client.operation.duration"):
        assert meters.values(name, operation, template, error) == sent
    handled = {("metrics.*", "q", None): 1, ("metrics.*", "q", "ValueError"): 1}
    process = "messaging.process.duration"
    assert meters.values(process, template, group, error) == handled
    consumed = meters.values("messaging.client.consumed.messages", template, group)
    assert consumed == {("metrics.*", "q"): 2}
    assert meters.values("nats.client.errors", error) == {("HandlerError",): 1}
    place = meters.values(process, "messaging.system", "server.address", "server.port")
    assert set(place) == {("nats", js_server.host, js_server.port)}
    kinds = {SpanKind.PRODUCER, SpanKind.CONSUMER, SpanKind.CLIENT}
    assert {span.kind for span in spans()} == kinds


@pytest.mark.server
def test_metrics_of_connections(js_server: NatsServer) -> None:
    meters = Meters()
    with natsync.connect(js_server.url, instrumentation=Metrics(meters.provider)) as nc:
        sub = nc.subscribe("a")
        for _ in range(3):
            nc.publish("a", b"12345")
        nc.flush()
        eventually(lambda: sub.pending_msgs == 3)
        assert nc.stats.pending_msgs == 3
        assert meters.values("nats.client.pending.messages") == {(): 3}
        sub.next_msg(TIMEOUT)
        assert meters.values("nats.client.pending.messages") == {(): 2}
        nc.reconnect()
        eventually(lambda: nc.stats.reconnects == 1)
        nc.flush(TIMEOUT)
        assert meters.values("nats.client.reconnects") == {(): 1}
        seen = meters.values("nats.client.io", "network.io.direction", "messaging.client.id")
        stats = nc.stats
        assert seen == {("transmit", "1"): stats.out_bytes, ("receive", "1"): stats.in_bytes}
        assert min(seen.values()) > 3 * len(b"PUB a 5\r\n12345\r\n") - 1
        seen = meters.values("nats.client.messages", "network.io.direction")
        assert seen == {("transmit",): 3, ("receive",): 3}


@pytest.mark.server
def test_metrics_of_consumers_and_of_errors_without_a_callback(js_server: NatsServer) -> None:
    meters = Meters()
    with natsync.connect(js_server.url, instrumentation=Metrics(meters.provider)) as nc:
        js = nc.jetstream()
        stream = js.create_stream(StreamConfig("otel_metrics", subjects=["otel.metrics.>"]))
        js.publish("otel.metrics.1", b"x")
        consumer = stream.create_consumer(
            ConsumerConfig(durable_name="d", filter_subject="otel.metrics.*")
        )
        done = threading.Event()

        def handler(msg: JetStreamMsg) -> None:
            msg.ack()
            done.set()

        with consumer.consume(handler) as consuming:
            assert done.wait(TIMEOUT)
            stream.delete_consumer("d")
            with pytest.raises(ConsumerDeletedError):
                consuming.wait(TIMEOUT)
        eventually(lambda: bool(meters.values("nats.client.errors")))
        js.delete_stream("otel_metrics")
    name = "messaging.client.consumed.messages"
    template, group = "messaging.destination.template", "messaging.consumer.group.name"
    assert meters.values(name, template, group) == {("otel.metrics.*", "d"): 1}
    sent = meters.values("messaging.client.sent.messages", "messaging.operation.name")
    assert ("publish",) not in sent, "an acknowledgement is no message"
    assert meters.values("nats.client.errors", "error.type") == {("ConsumerDeletedError",): 1}


def test_without_opentelemetry_it_names_the_extra() -> None:
    code = "import sys; sys.modules['opentelemetry'] = None\nimport natsync.otel"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: natsync.otel needs opentelemetry-api: {pip_install('otel')}"
    )
