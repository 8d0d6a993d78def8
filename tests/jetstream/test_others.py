"""Behaviours that the suites of nats.go (`jetstream/test`: pull, ordered, push, consumer, message)
and nats-py (`nats/tests/test_js.py`) hold, as far as the tests of single modules do not have them.

What does not apply stands in docs/other-clients.md. Domains and accounts are in test_domains.py; what the
nats command reads and writes, in the packages' tests of interoperability.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from itertools import islice
from time import monotonic

import pytest

import natsync
from natsync.errors import Error, NextMsgTimeoutError
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerNotFoundError,
    JetStream,
    MessagesClosedError,
    PullRefusedError,
    Schedule,
    StreamConfig,
    StreamConsumerSource,
    StreamSource,
)
from natsync.jetstream.configs import PriorityPolicy

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    Gathered,
    durable,
    filled,
    later,
    numbers,
    publish,
)
from tests.support.fake_server import Background
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, StartServer, Which
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def test_more_fetches_than_may_wait(js: JetStream, stream_name: str) -> None:
    """The one too many is refused, and tries again in a while."""
    consumer = durable(filled(js, stream_name, 0), max_waiting=1)
    waiting = Background(lambda: consumer.fetch(1, timeout=1.0))
    while not consumer.info().num_waiting:
        pass
    begun = monotonic()
    with pytest.raises(PullRefusedError, match="Exceeded MaxWaiting"):
        consumer.fetch(1, timeout=0.3)
    assert monotonic() - begun >= 0.3
    assert waiting.result() == []
    publish(js, stream_name, [1])
    assert numbers(consumer.fetch(1)) == [1]


def test_an_inbox_prefix_of_ones_own(
    js_server: NatsServer, js: JetStream, stream_name: str
) -> None:
    durable(filled(js, stream_name, 3))
    with natsync.connect(js_server.url, inbox_prefix="replies.of.mine") as nc:
        consumer = nc.jetstream().consumer(stream_name, "c")
        assert numbers(consumer.fetch(2)) == [0, 1]
        assert numbers(nc.jetstream().ordered_consumer(stream_name).messages(), 3) == [0, 1, 2]


def test_headers_come_along(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    js.publish(f"{stream_name}.0", b"x", headers={"Kind": ["a", "b"]})
    assert consumer.next().headers.get_all("Kind") == ["a", "b"]


def test_as_many_as_one_likes(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 20))
    with consumer.messages(max_msgs=3) as messages:
        assert [int(msg.data) for msg in islice(messages, 10)] == list(range(10))


def test_a_batch_that_is_full_before_its_bytes_are(js: JetStream, stream_name: str) -> None:
    """`409 Batch Completed` does not stall it."""
    consumer = durable(filled(js, stream_name, 300))
    with consumer.messages(max_bytes=10_000) as messages:
        assert numbers(messages, 300) == list(range(300))


def test_two_readers_of_one_consumer(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    first, second = Gathered(), Gathered()
    with consumer.consume(first, max_msgs=10), consumer.consume(second, max_msgs=10):
        publish(js, stream_name, range(200))
        end = monotonic() + TIMEOUT
        while len(first.numbers) + len(second.numbers) < 200 and monotonic() < end:
            threading.Event().wait(0.01)
    assert sorted(first.numbers + second.numbers) == list(range(200))


def test_stop_and_drain_at_the_same_time(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 100))
    for _ in range(10):
        messages = consumer.messages(max_msgs=5)
        calls = [Background(call) for call in (messages.stop, messages.drain, messages.stop)]
        for call in calls:
            call.result()
        while True:
            try:
                messages.next(TIMEOUT)
            except MessagesClosedError:
                break


def test_ending_twice_does_nothing(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 0))
    consuming = consumer.consume(print)
    consuming.drain()
    consuming.drain()
    assert consuming.stop() == 0
    assert consuming.wait(0)
    with js.ordered_consumer(stream_name).messages() as messages:
        messages.drain()
        messages.drain()
        assert messages.stop() == messages.stop() == 0


def test_an_error_callback_may_stop_it(js: JetStream, stream_name: str) -> None:
    def fail(msg: object) -> None:
        raise ValueError

    def stop(error: Error) -> None:
        errors(error)
        consuming.stop()

    errors, ready = Errors(), threading.Event()
    consumer = durable(filled(js, stream_name, 0))
    consuming = consumer.consume(fail, on_error=stop)
    publish(js, stream_name, [1])
    assert consuming.wait(TIMEOUT)
    assert len(errors.all) == 1 and not ready.is_set()


def test_a_client_that_gives_up(start_server: StartServer) -> None:
    """No more attempts to reconnect: readers end, and say so."""
    server = start_server(JETSTREAM)
    with natsync.connect(server.url, max_reconnects=1, reconnect_wait=0.05) as nc:
        js = nc.jetstream()
        consumer = durable(filled(js, "S", 0))
        consuming = consumer.consume(print, on_error=Errors())
        messages = consumer.messages(on_error=Errors())
        ordered = js.ordered_consumer("S").messages(on_error=Errors())
        server.stop()
        with pytest.raises(natsync.ConnectionClosedError):
            messages.next(TIMEOUT)
        with pytest.raises(natsync.ConnectionClosedError):
            ordered.next(TIMEOUT)
        with pytest.raises(natsync.ConnectionClosedError):
            consuming.wait(TIMEOUT)


def test_info_of_a_consumer_that_is_gone(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 0)
    consumer = durable(stream)
    stream.delete_consumer("c")
    with pytest.raises(ConsumerNotFoundError):
        consumer.info()
    assert consumer.cached_info.name == "c"


def grouped(js: JetStream, stream: str, policy: PriorityPolicy) -> ConsumerConfig:
    return ConsumerConfig(
        durable_name="c", priority_groups=["A"], priority_policy=policy, priority_timeout=5.0
    )


def test_prioritized_readers(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 0)
    consumer = stream.create_consumer(grouped(js, stream_name, "prioritized"))
    with (
        consumer.messages(max_msgs=5, priority=5) as low,
        consumer.messages(max_msgs=5, priority=1) as high,
    ):
        js.api.core.flush()
        while consumer.info().num_waiting < 2:
            pass
        publish(js, stream_name, range(3))
        assert numbers(high, 3) == [0, 1, 2]
        with pytest.raises(NextMsgTimeoutError):
            low.next(0.05)


def test_a_pinned_client_may_fetch(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 4)
    stream.create_consumer(grouped(js, stream_name, "pinned_client"))
    first, second = (js.consumer(stream_name, "c") for _ in range(2))
    assert numbers(first.fetch(1)) == [0]
    assert numbers(first.fetch(1)) == [1]
    assert second.fetch(1, timeout=0.1) == []
    stream.unpin_consumer("c", "A")
    assert numbers(second.fetch(1)) == [2]
    with later(0.2, lambda: stream.unpin_consumer("c", "A")):
        assert numbers(first.fetch(1, timeout=TIMEOUT)) == [3]  # its pin is gone: it stands by


def test_overflow_fetches(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 3)
    consumer = stream.create_consumer(grouped(js, stream_name, "overflow"))
    assert consumer.fetch(1, timeout=0.1, min_pending=5) == []
    publish(js, stream_name, range(3, 8))
    assert numbers(consumer.fetch(1, timeout=TIMEOUT, min_pending=5)) == [0]
    assert numbers(consumer.fetch(1, timeout=TIMEOUT, min_ack_pending=1)) == [1]


def test_nak_with_a_delay_and_term(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 2), ack_wait=30.0)
    first, second = consumer.fetch(2)
    first.nak(0.2)
    second.term("never")
    begun = monotonic()
    again = consumer.next(TIMEOUT)
    assert (again.data, again.metadata.num_delivered) == (b"0", 2)
    assert monotonic() - begun >= 0.15
    again.nak()
    assert consumer.next(TIMEOUT).metadata.num_delivered == 3
    assert consumer.fetch(1, timeout=0.1) == []


def test_progress_keeps_a_message(js: JetStream, stream_name: str) -> None:
    consumer = durable(filled(js, stream_name, 1), ack_wait=0.4)
    msg = consumer.next()
    for _ in range(4):
        threading.Event().wait(0.2)
        msg.in_progress()
    assert consumer.fetch(1, timeout=0.1) == []
    msg.ack_sync()
    assert consumer.fetch(1, timeout=0.6) == []


def test_a_second_form_of_ack_subjects_is_acknowledged(start_server: StartServer) -> None:
    """As servers of 2.14 and later write with a feature flag."""
    config = JETSTREAM.replace("store_dir", "domain: hub, store_dir")
    server = start_server(config + "feature_flags { js_ack_fc_v2: true }\n")
    with natsync.connect(server.url) as nc:
        consumer = durable(filled(nc.jetstream(), "S", 1))
        msg = consumer.next()
        assert len(msg.reply.split(".")) >= 11
        assert (msg.metadata.domain, msg.metadata.stream_seq) == ("hub", 1)
        msg.ack_sync()
        assert consumer.info().num_ack_pending == 0
        with nc.jetstream().ordered_consumer("S").messages() as messages:
            assert numbers(messages, 1) == [0]


def test_a_scheduled_message_is_delivered(js: JetStream, stream_name: str) -> None:
    config = StreamConfig(stream_name, subjects=[f"{stream_name}.>"], allow_msg_schedules=True)
    stream = js.create_stream(config)
    soon = datetime.now(timezone.utc) + timedelta(seconds=1)
    once, ticks = f"{stream_name}.once", f"{stream_name}.ticks"
    js.publish(f"{stream_name}.a", b"later", schedule=Schedule(soon, once))
    js.publish(f"{stream_name}.b", b"tick", schedule=Schedule(1.0, ticks))

    def counted() -> Mapping[str, int]:
        return stream.info(subjects_filter=">").state.subjects

    eventually(lambda: counted().get(once) == 1 and counted().get(ticks, 0) >= 2)
    assert stream.get_last_msg(once).data == b"later"
    assert f"{stream_name}.a" not in counted()  # it is done


def test_a_stream_that_reads_by_a_consumer_of_its_source(js: JetStream, stream_name: str) -> None:
    origin = js.create_stream(StreamConfig(stream_name))
    target = js.api.core.new_inbox()
    config = ConsumerConfig(
        durable_name="c", deliver_subject=target, ack_policy="flow_control", idle_heartbeat=1.0
    )
    origin.create_consumer(config)
    consumer = StreamConsumerSource("c", deliver_subject=target)
    sources = [StreamSource(stream_name, consumer=consumer)]
    below = js.create_stream(StreamConfig(f"{stream_name}-2", sources=sources))
    js.publish(stream_name, b"hello")
    eventually(lambda: below.info().state.messages == 1)
    assert origin.consumer("c").info().config.ack_policy == "flow_control"


def test_what_a_user_may_not_publish_is_an_error_at_once(start_server: StartServer) -> None:
    server = start_server(JETSTREAM + """authorization { users: [
            { user: u, password: p, permissions: { publish: { deny: ["$O.>", "$KV.>", "S"] } } }
        ] }""")
    errors = Errors()
    with natsync.connect(server.url, user="u", password="p", on_error=errors) as nc:
        js = nc.jetstream(timeout=60)
        js.create_stream(StreamConfig("S", allow_atomic=True, allow_batched=True))
        store, bucket = js.create_object_store("o"), js.create_key_value("b")
        for call in (
            lambda: js.publish("S"),
            lambda: js.publish("S", msg_id="1"),
            lambda: js.publish_async("S").result(20),
            lambda: js.publish_async("S", msg_id="1").result(20),
            lambda: js.atomic_batch().add("S"),
            lambda: js.fast_batch().add("S"),
            lambda: bucket.put("k", b""),
            lambda: store.put("x", bytes(1_000_000)),
        ):
            with pytest.raises(natsync.PermissionsViolationError):
                call()


@pytest.mark.parametrize("ordered", [False, True])
def test_stop_while_the_server_is_away(start_server: StartServer, ordered: bool) -> None:
    server = start_server(JETSTREAM)
    lost = threading.Event()
    with natsync.connect(server.url, on_disconnect=lambda error: lost.set()) as nc:
        consumer = durable(filled(nc.jetstream(), "S", 1))
        reader = nc.jetstream().ordered_consumer("S") if ordered else consumer
        messages = reader.messages(on_error=Errors())
        assert messages.next(TIMEOUT).data == b"0"
        waiting = Background(messages.next)
        consuming = consumer.consume(print, on_error=Errors())
        server.stop()
        assert lost.wait(TIMEOUT)
        messages.stop()
        with pytest.raises(MessagesClosedError):
            waiting.result()
        assert consuming.stop(TIMEOUT) == 0 and not consuming.running


@pytest.mark.parametrize("which", ["current", "old"])
def test_pulling_without_permission_is_an_error(start_server: StartServer, which: Which) -> None:
    """Not a consumer without messages."""
    denied = 'publish: { deny: "$JS.API.CONSUMER.MSG.NEXT.>" }'
    users = f"{{ user: a, password: a }}, {{ user: b, password: b, permissions: {{ {denied} }} }}"
    server = start_server(f"{JETSTREAM} authorization {{ users: [ {users} ] }}", which=which)
    reported: list[natsync.Error] = []
    with (
        natsync.connect(server.url, user="a", password="a") as nc,
        natsync.connect(server.url, user="b", password="b", on_error=reported.append) as other,
    ):
        durable(filled(nc.jetstream(), "orders", 3), "c")
        js = other.jetstream()
        consumer = js.consumer("orders", "c")
        kv = nc.jetstream().create_key_value("settings")
        kv.put("a", b"")
        for read in (
            lambda: consumer.fetch(3, timeout=TIMEOUT),
            lambda: consumer.fetch_no_wait(3, timeout=TIMEOUT),
            lambda: consumer.next(TIMEOUT),
            lambda: consumer.messages().next(TIMEOUT),
            lambda: js.ordered_consumer("orders").next(TIMEOUT),
            lambda: [*js.key_value("settings").keys()],
        ):
            with pytest.raises(natsync.PermissionsViolationError, match="MSG.NEXT"):
                read()
        consuming = consumer.consume(print, on_error=reported.append)
        with pytest.raises(natsync.PermissionsViolationError):
            consuming.wait(TIMEOUT)
