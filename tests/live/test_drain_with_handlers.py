"""Handlers that still run when the connection is drained: every call works until they are done.

With core NATS, a message whose handler fails is lost; so nothing that a handler does may fail because of the
drain, on whatever thread it runs.
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors, micro, streaming
from natsync.jetstream import ConsumerConfig, JetStream, StreamConfig
from natsync.kv import BucketMapping, KeyValueConfig
from natsync.object_store import ObjectStoreConfig
from natsync.protocol import streaming as stan

from tests.support.fake_server import Background
from tests.support.fake_streaming import FakeStreaming
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

TIMEOUT = 10.0
Call = Callable[[natsync.Client, str], object]


def _js(nc: natsync.Client) -> JetStream:
    return nc.jetstream(timeout=TIMEOUT)


def subscribe(nc: natsync.Client, name: str) -> object:
    with nc.subscribe(inbox := nc.new_inbox()) as sub:
        nc.publish(inbox, b"3")
        return sub.next_msg(TIMEOUT).data


def subscribe_a_handler(nc: natsync.Client, name: str) -> object:
    got: SimpleQueue[bytes] = SimpleQueue()
    with nc.subscribe(inbox := nc.new_inbox(), handler=lambda msg: got.put(msg.data)):
        nc.publish(inbox, b"3")
        return got.get(timeout=TIMEOUT)


def request_many(nc: natsync.Client, name: str) -> object:
    return [msg.data for msg in nc.request_many(f"{name}-echo", b"3", max_msgs=1, timeout=TIMEOUT)]


def discover(nc: natsync.Client, name: str) -> object:
    return [one.name for one in micro.ServiceClient(nc).ping(name)] == [name]


def fetch(nc: natsync.Client, name: str) -> object:
    return len(_js(nc).consumer(name, "pull").fetch(2, timeout=TIMEOUT))


def messages(nc: natsync.Client, name: str) -> object:
    with _js(nc).consumer(name, "pull").messages(max_msgs=1) as found:
        return bool(found.next(TIMEOUT).data)


def push(nc: natsync.Client, name: str) -> object:
    with _js(nc).push_consumer(name, "push").messages() as found:
        return bool(found.next(TIMEOUT).data)


def ordered(nc: natsync.Client, name: str) -> object:
    with _js(nc).ordered_consumer(name) as consumer:
        return [msg.data for msg in consumer.fetch(2, timeout=TIMEOUT)]


def publish_async(nc: natsync.Client, name: str) -> object:
    return _js(nc).publish_async(f"{name}.later", b"").result(TIMEOUT).stream == name


def fast_batch(nc: natsync.Client, name: str) -> object:
    with _js(nc).fast_batch() as batch:
        batch.add(f"{name}.batch", b"1")
        return batch.commit(f"{name}.batch", b"2").stream == name


def snapshot(nc: natsync.Client, name: str) -> object:
    file = io.BytesIO()
    _js(nc).stream(name).snapshot(file)
    return len(file.getvalue()) > 0


def keys(nc: natsync.Client, name: str) -> object:
    return sorted(_js(nc).key_value(name).keys())


def on_another_thread(nc: natsync.Client, name: str) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(keys, nc, name).result(TIMEOUT)


def history(nc: natsync.Client, name: str) -> object:
    return [entry.value for entry in _js(nc).key_value(name).history("a")]


def watch(nc: natsync.Client, name: str) -> object:
    with _js(nc).key_value(name).watch() as watcher:
        return sorted(entry.key for entry in watcher.initial(TIMEOUT))


def mapping(nc: natsync.Client, name: str) -> object:
    return dict(BucketMapping(_js(nc).key_value(name)).items())


def get_object(nc: natsync.Client, name: str) -> object:
    with _js(nc).object_store(name).get("o") as file:
        return len(file.read())


def list_objects(nc: natsync.Client, name: str) -> object:
    return [info.name for info in _js(nc).object_store(name).list()]


CALLS: dict[Call, object] = {
    subscribe: b"3",
    subscribe_a_handler: b"3",
    request_many: [b"3"],
    discover: True,
    fetch: 2,
    messages: True,
    push: True,
    ordered: [b"0", b"1"],
    publish_async: True,
    fast_batch: True,
    snapshot: True,
    keys: ["a", "b"],
    on_another_thread: ["a", "b"],
    history: [b"1", b"2"],
    watch: ["a", "b"],
    mapping: {"a": b"2", "b": b"3"},
    get_object: 300_000,
    list_objects: ["o"],
}


@pytest.fixture
def name(js: JetStream, stream_name: str) -> Iterator[str]:
    """A stream, bucket and store of this name, and a service that echoes."""
    name = stream_name
    nc = js.api.core
    assert isinstance(nc, natsync.Client)
    config = StreamConfig(name, subjects=[f"{name}.>"], allow_batched=True)
    stream = js.create_stream(config)
    for number in range(6):
        js.publish(f"{name}.n", b"%d" % number)
    stream.create_consumer(ConsumerConfig(durable_name="pull", filter_subject=f"{name}.n"))
    stream.create_consumer(ConsumerConfig(durable_name="push", deliver_subject=nc.new_inbox()))
    bucket = js.create_key_value(KeyValueConfig(name, history=3))
    for key, value in (("a", b"1"), ("a", b"2"), ("b", b"3")):
        bucket.put(key, value)
    js.create_object_store(ObjectStoreConfig(name)).put("o", b"x" * 300_000)
    with (
        nc.subscribe(f"{name}-echo", handler=lambda msg: msg.respond(msg.data)),
        micro.add_service(nc, name, "1.0.0"),
    ):
        nc.flush()
        yield name
    js.delete_stream(name)
    js.delete_key_value(name)
    js.delete_object_store(name)


class Handler:
    """Makes every call when the drain waits for it, and keeps what the calls return."""

    def __init__(self, nc: natsync.Client, name: str) -> None:
        self.nc, self.name = nc, name
        self.entered, self.release = threading.Event(), threading.Event()
        self.found: dict[Call, object] = {}

    def __call__(self, msg: object) -> None:
        self.entered.set()
        assert self.release.wait(TIMEOUT)
        for call in CALLS:
            try:
                self.found[call] = call(self.nc, self.name)
            except errors.Error as error:
                self.found[call] = error


Begin = Callable[[ExitStack, Handler, NatsServer], str]


def plain(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    handler.nc.subscribe(inbox := handler.nc.new_inbox(), handler=handler)
    return inbox


def workers(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    handler.nc.subscribe(inbox := handler.nc.new_inbox(), handler=handler, workers=3)
    return inbox


def executor(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    pool = stack.enter_context(ThreadPoolExecutor(2))
    handler.nc.subscribe(inbox := handler.nc.new_inbox(), handler=handler, executor=pool)
    return inbox


def ended_before(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    """The subscription has ended with this message, before the drain."""
    handler.nc.subscribe(inbox := handler.nc.new_inbox(), handler=handler, max_msgs=1)
    return inbox


def service(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    micro.add_service(handler.nc, "drained", "1.0.0").add_endpoint(
        "work", handler, subject=(subject := f"{handler.name}-work")
    )
    return subject


def consume(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    stream = handler.nc.jetstream().stream(handler.name)
    config = ConsumerConfig(durable_name="work", filter_subject=(subject := f"{handler.name}.work"))
    stream.create_consumer(config).consume(handler)
    return subject


def consume_pushed(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    js = handler.nc.jetstream()
    config = ConsumerConfig(
        durable_name="work",
        filter_subject=(subject := f"{handler.name}.work"),
        deliver_subject=handler.nc.new_inbox(),
    )
    js.stream(handler.name).create_consumer(config)
    js.push_consumer(handler.name, "work").consume(handler)
    return subject


def consume_in_order(stack: ExitStack, handler: Handler, server: NatsServer) -> str:
    js = handler.nc.jetstream()
    config = ConsumerConfig(filter_subject=(subject := f"{handler.name}.work"))
    js.ordered_consumer(handler.name, config).consume(handler)
    return subject


BEGIN: list[Begin] = [
    plain,
    workers,
    executor,
    ended_before,
    service,
    consume,
    consume_pushed,
    consume_in_order,
]


@pytest.mark.parametrize("begin", BEGIN)
def test_a_handler_may_make_every_call_during_a_drain(
    js_server: NatsServer, js_client: natsync.Client, name: str, begin: Begin
) -> None:
    reported: SimpleQueue[errors.Error] = SimpleQueue()
    with ExitStack() as stack:
        nc = natsync.connect(js_server.url, on_error=reported.put)
        stack.callback(nc.close)
        handler = Handler(nc, name)
        subject = begin(stack, handler, js_server)
        nc.flush()
        js_client.publish(subject, b"work", reply=js_client.new_inbox())
        assert handler.entered.wait(TIMEOUT)
        drain = Background(lambda: nc.drain(30))
        eventually(lambda: nc.status is natsync.Status.DRAINING)
        with pytest.raises(errors.ConnectionDrainingError):  # the program begins nothing new
            nc.subscribe("new")
        nc.flush()  # the drain's own flush was earlier: what the server had sent has arrived
        assert not drain.done
        handler.release.set()
        drain.result(30)
        assert handler.found == CALLS
        assert not nc._connection.table.subscriptions()
        assert reported.empty()


Wait = Callable[[natsync.Client, str, Callable[[], object]], object]


def wait_fetch(nc: natsync.Client, name: str, waits: Callable[[], object]) -> object:
    consumer = _js(nc).consumer(name, "waits")
    waits()
    return consumer.fetch(1, timeout=TIMEOUT)[0].data


def wait_messages(nc: natsync.Client, name: str, waits: Callable[[], object]) -> object:
    with _js(nc).consumer(name, "waits").messages() as found:
        waits()
        return found.next(TIMEOUT).data


def wait_watch(nc: natsync.Client, name: str, waits: Callable[[], object]) -> object:
    with _js(nc).key_value(name).watch("new", updates_only=True) as watcher:
        assert watcher.next(TIMEOUT) is None
        waits()
        entry = watcher.next(TIMEOUT)
        return entry and entry.value


def wait_subscription(nc: natsync.Client, name: str, waits: Callable[[], object]) -> object:
    with nc.subscribe(f"{name}.waits") as sub:
        nc.flush()
        waits()
        return sub.next_msg(TIMEOUT).data


@pytest.mark.parametrize("again", [False, True], ids=["connected", "reconnected"])
@pytest.mark.parametrize("wait", [wait_fetch, wait_messages, wait_watch, wait_subscription])
def test_what_a_handler_waits_for_arrives_after_the_drain_has_begun(
    js_server: NatsServer, js: JetStream, name: str, wait: Wait, again: bool
) -> None:
    js.stream(name).create_consumer(
        ConsumerConfig(durable_name="waits", filter_subject=f"{name}.waits")
    )
    waits = threading.Event()
    got: list[object] = []
    with natsync.connect(js_server.url) as nc:
        nc.subscribe(f"{name}-wait", handler=lambda msg: got.append(wait(nc, name, waits.set)))
        nc.flush()
        js.api.core.publish(f"{name}-wait")
        assert waits.wait(TIMEOUT)
        drain = Background(lambda: nc.drain(TIMEOUT))
        eventually(lambda: nc.status is natsync.Status.DRAINING)
        nc.flush()
        if again:
            nc.reconnect()
            assert nc.wait_connected(TIMEOUT) and nc.status is natsync.Status.DRAINING
            nc.flush()
        js.key_value(name).put("new", b"late")
        js.publish(f"{name}.waits", b"late")
        drain.result()
        assert got == [b"late"]


def test_readers_of_the_program_end_when_the_drain_begins(
    js_server: NatsServer, js: JetStream, name: str
) -> None:
    """Also while a handler still runs, and though they were reading on other threads."""
    entered, release = threading.Event(), threading.Event()

    def handler(msg: natsync.Msg) -> None:
        entered.set()
        assert release.wait(TIMEOUT)

    with natsync.connect(js_server.url) as nc:
        nc.subscribe(f"{name}-work", handler=handler)
        consumer = nc.jetstream().consumer(name, "pull")
        messages, watcher = consumer.messages(), nc.jetstream().key_value(name).watch()
        readers = [Background(lambda: sum(1 for _ in messages))]
        readers += [Background(lambda: sum(1 for entry in watcher if entry))]
        nc.flush()
        js.api.core.publish(f"{name}-work")
        assert entered.wait(TIMEOUT)
        drain = Background(lambda: nc.drain(TIMEOUT))
        assert [reader.result() for reader in readers] == [6, 2]
        assert not drain.done
        for begin in (consumer.messages, nc.jetstream().key_value(name).watch):
            with pytest.raises(errors.ConnectionDrainingError):
                begin()
        with pytest.raises(errors.ConnectionDrainingError):
            consumer.consume(print)
        assert nc.jetstream().key_value(name).history("b")  # a call still works
        release.set()
        drain.result()


def test_a_callback_that_subscribes_again_does_not_keep_the_drain_from_ending(
    server: NatsServer,
) -> None:
    """Such as an `on_close` that does so whenever its subscription ends."""
    refused: SimpleQueue[BaseException] = SimpleQueue()

    with natsync.connect(server.url) as nc:

        def again(error: errors.Error) -> None:
            try:
                nc.subscribe("a", handler=print, on_close=again)
            except errors.Error as refusal:
                refused.put(refusal)

        nc.subscribe("a", handler=print, on_close=again)
        nc.drain(TIMEOUT)
        assert isinstance(refused.get(timeout=TIMEOUT), errors.ConnectionDrainingError)


def test_a_handler_drains_while_another_one_works(
    js_server: NatsServer, js: JetStream, name: str
) -> None:
    entered = threading.Event()
    found: list[object] = []
    drained = threading.Event()
    with natsync.connect(js_server.url) as nc:

        def works(msg: natsync.Msg) -> None:
            entered.set()
            eventually(lambda: nc.status is natsync.Status.DRAINING)
            found.append(keys(nc, name))

        def drains(msg: natsync.Msg) -> None:
            assert entered.wait(TIMEOUT)
            nc.drain(TIMEOUT)
            drained.set()

        nc.subscribe(f"{name}-work", handler=works)
        nc.subscribe(f"{name}-drain", handler=drains)
        nc.flush()
        js.api.core.publish(f"{name}-work")
        js.api.core.publish(f"{name}-drain")
        assert drained.wait(TIMEOUT)
        assert found == [["a", "b"]]
        assert nc.status is natsync.Status.CLOSED


def test_the_time_of_a_drain_limits_what_handlers_wait_for(
    js_server: NatsServer, js: JetStream, name: str
) -> None:
    waits, ended = threading.Event(), threading.Event()
    failed: list[BaseException] = []
    with natsync.connect(js_server.url) as nc:

        def handler(msg: natsync.Msg) -> None:
            watcher = nc.jetstream().key_value(name).watch(updates_only=True)
            waits.set()
            try:
                watcher.next(), watcher.next()
            except errors.Error as error:
                failed.append(error)
            ended.set()

        nc.subscribe(f"{name}-work", handler=handler)
        nc.flush()
        js.api.core.publish(f"{name}-work")
        assert waits.wait(TIMEOUT)
        with pytest.raises(errors.DrainTimeoutError) as caught:
            nc.drain(0.2)
        assert caught.value.left == {f"{name}-work": 1}
        assert ended.wait(TIMEOUT) and failed


def test_a_session_of_nats_streaming_outlives_its_handlers(server: NatsServer) -> None:
    """Its heartbeats are answered, and acknowledgements sent, until they are done."""
    entered, release, published = threading.Event(), threading.Event(), threading.Event()
    lost: list[str] = []

    def handler(msg: streaming.Msg) -> None:
        entered.set()
        assert release.wait(TIMEOUT)
        sc.publish("other", b"a result")
        assert not lost
        published.set()

    with FakeStreaming(server.url) as fake, natsync.connect(server.url) as nc:
        sc = streaming.connect(
            "fake", "me", nc=nc, on_connection_lost=lambda error: lost.append(str(error))
        )
        sc.subscribe("in", handler=handler)
        inbox = stan.SubscriptionRequest.parse(fake.wait_request("fake.sub")).inbox
        fake.nc.publish(inbox, stan.MsgProto(1, "in", "", b"work", 5).to_bytes())
        assert entered.wait(TIMEOUT)
        drain = Background(lambda: nc.drain(TIMEOUT))
        eventually(lambda: nc.status is natsync.Status.DRAINING)
        nc.flush()
        release.set()
        drain.result()
        assert fake.wait_request("fake.acks") and published.is_set()
