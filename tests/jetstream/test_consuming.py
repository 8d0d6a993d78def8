"""Handlers on threads: stopped, drained, failing; never a message more than is said."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

import natsync
from natsync import Client
from natsync.errors import (
    ConnectionReconnectingError,
    DrainTimeoutError,
    Error,
    HandlerError,
    OptionError,
)
from natsync.headers import HeadersLike
from natsync.instrumentation import Instrumentation
from natsync.jetstream import (
    Consumer,
    ConsumerConfig,
    ConsumerDeletedError,
    ConsumingError,
    JetStream,
    JetStreamMsg,
    OrderedConsumer,
    PushConsumer,
)
from natsync.message import Data

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    Gathered,
    durable,
    filled,
    later,
    publish,
    until_sent,
)
from tests.support.fake_server import Background
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_one_worker_keeps_the_order(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 300))
    gathered = Gathered()
    with consumer.consume(gathered, max_msgs=50) as consuming:
        assert gathered.wait(300) == list(range(300))
        assert consuming.running
    assert not consuming.running
    assert consuming.error is None
    eventually(lambda: consumer.info().num_ack_pending == 0)


def test_workers_handle_at_the_same_time(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 40))
    together = threading.Barrier(4)
    gathered = Gathered(lambda msg: together.wait(TIMEOUT))
    with consumer.consume(gathered, workers=4):
        assert sorted(gathered.wait(40)) == list(range(40))


def test_stop_says_what_is_left(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 10))
    begun, go = threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        begun.set()
        assert go.wait(TIMEOUT)
        msg.ack_sync()

    consuming = consumer.consume(handle)
    assert begun.wait(TIMEOUT)
    until_sent(js, consumer, 10)
    with later(0.1, go.set):
        assert consuming.stop() == 9
    assert not consuming.running
    assert (consumer.info().ack_floor.consumer_seq, consumer.info().num_ack_pending) == (1, 9)


def test_stop_gives_up_on_handlers_that_take_too_long(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 3))
    begun, go = threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        begun.set()
        assert go.wait(TIMEOUT)

    consuming = consumer.consume(handle)
    assert begun.wait(TIMEOUT)
    until_sent(js, consumer, 3)
    with pytest.raises(DrainTimeoutError) as caught:
        consuming.stop(0.05)
    assert caught.value.left == {f"{stream_name}.c": 3}
    go.set()
    assert consuming.wait(TIMEOUT)


def test_drain_handles_what_was_sent(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 100))
    gathered = Gathered(lambda msg: threading.Event().wait(0.002))
    consuming = consumer.consume(gathered, max_msgs=30)
    gathered.wait(1)
    consuming.drain(TIMEOUT)
    assert not consuming.running
    assert gathered.numbers == list(range(consumer.info().num_ack_pending))
    assert len(gathered.numbers) >= 30


@pytest.mark.parametrize("workers", [1, 2])
def test_a_drain_of_the_client_acknowledges_what_has_come(
    js: JetStream, js_server: NatsServer, stream_name: str, workers: int
) -> None:
    consumer = durable(filled(js, stream_name, 50))
    begun, go = threading.Event(), threading.Event()
    with natsync.connect(js_server.url) as nc:
        other = nc.jetstream().consumer(stream_name, "c")

        def handle(msg: JetStreamMsg) -> None:
            begun.set()
            assert go.wait(TIMEOUT)
            msg.ack()

        other.consume(handle, workers=workers)
        assert begun.wait(TIMEOUT)
        until_sent(nc.jetstream(), other, 50)  # the server sends to an inbox that has ended, too
        call = Background(lambda: nc.drain(TIMEOUT))
        go.set()
        call.result()
    eventually(lambda: consumer.info().num_ack_pending == 0)
    info = consumer.info()
    assert info.ack_floor.consumer_seq == info.delivered.consumer_seq


def test_a_drain_of_the_client_names_the_consumer_whose_handler_does_not_return(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    durable(filled(js, stream_name, 1))
    begun, go = threading.Event(), threading.Event()
    nc = natsync.connect(js_server.url)

    def handle(msg: JetStreamMsg) -> None:
        begun.set()
        assert go.wait(TIMEOUT)

    consuming = nc.jetstream().consumer(stream_name, "c").consume(handle)
    assert begun.wait(TIMEOUT)
    with pytest.raises(DrainTimeoutError) as caught:
        nc.drain(0.1)
    go.set()
    assert [name.rpartition("-")[2] for name in caught.value.left] == [f"{stream_name}.c"]
    assert consuming.wait(TIMEOUT)


@pytest.mark.parametrize("workers", [1, 2])
def test_drain_that_takes_too_long(js: JetStream, stream_name: str, workers: int) -> None:
    consumer = durable(filled(js, stream_name, 10))
    all_begun, go = threading.Barrier(workers + 1, timeout=TIMEOUT), threading.Event()
    handled = []

    def handle(msg: JetStreamMsg) -> None:
        handled.append(msg)
        all_begun.wait()
        assert go.wait(TIMEOUT)

    consuming = consumer.consume(handle, workers=workers)
    all_begun.wait()
    with pytest.raises(DrainTimeoutError) as caught:
        consuming.drain(0.1)
    assert caught.value.left == {f"{stream_name}.c": 10}
    go.set()
    assert consuming.wait(TIMEOUT)
    assert len(handled) == workers  # the others are left to be delivered again


def test_a_handler_may_stop_it(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 10))
    ready, left = threading.Event(), []

    def handle(msg: JetStreamMsg) -> None:
        assert ready.wait(TIMEOUT)
        left.append(consuming.stop())

    consuming = consumer.consume(handle)
    js.api.core.flush()
    ready.set()
    assert consuming.wait(TIMEOUT)
    assert len(left) == 1


def test_a_handler_that_raises(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 3), ack_wait=0.2)
    errors = Errors()
    failed: list[JetStreamMsg] = []

    def act(msg: JetStreamMsg) -> None:
        if not failed:
            failed.append(msg)
            raise SystemExit("no such order")
        msg.ack()

    gathered = Gathered(act)
    with consumer.consume(gathered, on_error=errors):
        assert gathered.wait(3) == [1, 2, 0]
    assert isinstance(errors.all[0], HandlerError)
    assert isinstance(errors.all[0].__cause__, SystemExit)


def test_an_error_callback_that_fails_ends_nothing(
    js: JetStream, stream_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def act(msg: JetStreamMsg) -> None:
        if msg.data == b"0":
            raise ValueError("no such order")

    def fail(error: Error) -> None:
        raise KeyError("no such error")

    stream = filled(js, stream_name, 3)
    push = ConsumerConfig(durable_name="p", deliver_subject=f"to.{stream_name}")
    stream.create_consumer(push)
    for consumer in (
        durable(stream),
        js.ordered_consumer(stream_name),
        js.push_consumer(stream_name, "p"),
    ):
        gathered = Gathered(act)
        with consumer.consume(gathered, on_error=fail) as consuming:
            assert gathered.wait(2) == [1, 2] and consuming.running
        assert "no such error" in caplog.text
        caplog.clear()


def test_a_consumer_that_is_deleted(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 0)
    errors = Errors()
    consuming = durable(stream).consume(print, workers=2, on_error=errors)
    assert not consuming.wait(0.05)
    stream.delete_consumer("c")
    for _ in range(2):  # its traceback grows with none of them
        with pytest.raises(ConsumerDeletedError) as caught:
            consuming.wait(TIMEOUT)
        assert caught.value is not consuming.error
    assert isinstance(consuming.error, ConsumerDeletedError)
    assert [type(error) for error in errors.all] == [ConsumerDeletedError]
    consuming.stop()


def test_a_client_that_is_closed_ends_it_quietly(
    js_client: Client, js: JetStream, stream_name: str
) -> None:
    errors = Errors()
    consuming = durable(filled(js, stream_name, 0)).consume(print, workers=2, on_error=errors)
    js_client.close()
    with pytest.raises(natsync.ConnectionClosedError):
        consuming.wait(TIMEOUT)
    assert errors.all == []


def test_a_handler_may_close_the_client(js_client: Client, js: JetStream, stream_name: str) -> None:
    consuming = durable(filled(js, stream_name, 1)).consume(lambda msg: js_client.close())
    with pytest.raises(natsync.ConnectionClosedError):
        consuming.wait(TIMEOUT)


def test_nothing_is_lost_when_connections_are(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    durable(filled(js, stream_name, 500), ack_wait=1.0)
    gathered = Gathered()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        with consumer.consume(gathered, workers=3, max_msgs=20, on_error=Errors()):
            for number in range(5):
                gathered.wait(80 * number + 20)
                proxy.cut()
            publish(js, stream_name, range(500, 550))
            assert set(gathered.wait(550)) == set(range(550))


def test_troubles_are_logged_without_a_callback(
    js: JetStream, stream_name: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(msg: JetStreamMsg) -> None:
        raise ValueError

    gathered = Gathered(fail)
    consumer = durable(filled(js, stream_name, 1), max_deliver=1)
    with consumer.consume(gathered) as consuming:
        while not caplog.records:
            consuming.wait(0.01)
    assert f"handler of {stream_name}.0 failed: ValueError" in caplog.text


def _consumers(js: JetStream, stream_name: str) -> list[Consumer | OrderedConsumer | PushConsumer]:
    """A reader of each kind, of a stream with a message."""
    stream = filled(js, stream_name, 1)
    stream.create_consumer(ConsumerConfig(durable_name="p", deliver_subject=f"to.{stream_name}"))
    return [durable(stream), js.ordered_consumer(stream_name), js.push_consumer(stream_name, "p")]


def test_the_callback_of_the_connection_hears_of_troubles_and_failures(
    js_server: NatsServer, stream_name: str
) -> None:
    def fail(msg: JetStreamMsg) -> None:
        raise ValueError("no such order")

    errors = Errors()
    with (
        Proxy(js_server.host, js_server.port) as proxy,
        natsync.connect(proxy.url, on_error=errors) as nc,
    ):
        for consumer in _consumers(nc.jetstream(), stream_name):
            with consumer.consume(fail):
                failure = errors.wait_for(HandlerError)
                assert isinstance(failure.__cause__, ValueError)
                proxy.cut()
                errors.wait_for(ConnectionReconnectingError)
                assert nc.wait_connected(TIMEOUT)
            errors.all.clear()
        consumer = nc.jetstream().consumer(stream_name, "c")
        consuming = consumer.consume(print)
        eventually(lambda: consumer.info().num_waiting)  # else nobody is told
        nc.jetstream().stream(stream_name).delete_consumer("c")
        errors.wait_for(ConsumerDeletedError)
        with pytest.raises(ConsumerDeletedError):
            consuming.wait(TIMEOUT)


class Notes(Instrumentation):
    """Notes what the program sends, and the handlers that run."""

    def __init__(self) -> None:
        self.sent: list[str] = []
        self.handled: list[tuple[str, str, str]] = []

    def begin(
        self, client: Client, operation: str, subject: str, data: Data, headers: HeadersLike | None
    ) -> tuple[object, HeadersLike | None]:
        if not subject.startswith("$JS.API."):
            self.sent.append(f"{operation} {subject}")
        return None, headers

    @contextmanager
    def handling(
        self, client: Client, msg: natsync.Msg, subject: str, queue: str
    ) -> Iterator[None]:
        yield
        self.handled.append((msg.subject, subject, queue))


def test_contexts_and_instrumentation_are_around_every_handler(
    js_server: NatsServer, stream_name: str
) -> None:
    contexts: list[str] = []
    notes = Notes()

    @contextmanager
    def context(msg: natsync.Msg) -> Iterator[None]:
        contexts.append("in")
        yield
        contexts.append("out")

    def settle(msg: JetStreamMsg) -> None:
        assert contexts[-1] == "in"
        if msg.reply.startswith(f"$JS.ACK.{stream_name}.c."):
            msg.in_progress()
            msg.nak() if msg.metadata.num_delivered == 1 else msg.ack()
        elif msg.reply.startswith(f"$JS.ACK.{stream_name}.p."):
            msg.ack_sync()
        settled.release()

    settled = threading.Semaphore(0)
    with natsync.connect(js_server.url, handler_context=context, instrumentation=notes) as nc:
        for consumer in _consumers(nc.jetstream(), stream_name):
            pull = isinstance(consumer, Consumer)
            with consumer.consume(settle):
                for _ in range(1 + pull):
                    assert settled.acquire(timeout=TIMEOUT)
        assert [
            msg.data for msg in nc.jetstream().consumer(stream_name, "c").fetch(1, timeout=0.1)
        ] == []
    subject = f"{stream_name}.0"
    handled = [(subject, stream_name, queue) for queue in ("c", "c", "", "p")]
    assert contexts == ["in", "out"] * 4 and notes.handled == handled
    assert notes.sent == [f"request {subject}"]


def test_arguments_that_make_no_sense(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    with pytest.raises(OptionError, match="workers"):
        consumer.consume(print, workers=0)
    with pytest.raises(TypeError, match="handler"):
        consumer.consume(None)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(TypeError, match="async"):

        async def handle(msg: JetStreamMsg) -> None: ...

        consumer.consume(handle)


def test_errors_of_reading_have_a_base() -> None:
    assert issubclass(ConsumerDeletedError, ConsumingError)


def test_a_closed_client_has_waited_for_the_handlers(
    js_server: NatsServer, stream_name: str
) -> None:
    """And no thread is left, of whichever kind of consumer."""
    before = set(threading.enumerate())
    begun, go, done = threading.Event(), threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        begun.set()
        assert go.wait(TIMEOUT)
        done.set()

    nc = natsync.connect(js_server.url)
    stream = filled(nc.jetstream(), stream_name, 1)
    push = ConsumerConfig(durable_name="p", deliver_subject=nc.new_inbox(), filter_subject="none")
    stream.create_consumer(push)
    contexts = [
        durable(stream).consume(handle),
        durable(stream, "other").consume(Gathered(), workers=3),
        nc.jetstream().ordered_consumer(stream_name).consume(lambda msg: None),
        nc.jetstream().push_consumer(stream_name, "p").consume(lambda msg: None),
    ]
    assert begun.wait(TIMEOUT)
    with later(0.1, go.set):
        nc.close(TIMEOUT)
        assert done.is_set()
    assert not any(context.running for context in contexts)
    assert set(threading.enumerate()) <= before
