"""Push consumers: alone, in queue groups, with flow control and heartbeats."""

from __future__ import annotations

import threading

import pytest

import natsync
from natsync.errors import ConnectionReconnectingError, NextMsgTimeoutError, OptionError
from natsync.jetstream import (
    ConsumerConfig,
    ConsumerDeletedError,
    ConsumerHasActiveSubscriptionError,
    JetStream,
    JetStreamMsg,
    MessagesClosedError,
    NoHeartbeatError,
    NotJSMessageError,
    NotPushConsumerError,
    PushConsumer,
    SequenceGapError,
)

from tests.jetstream.streams import (
    TIMEOUT,
    Errors,
    Gathered,
    durable,
    filled,
    later,
    numbers,
    publish,
    publish_status,
    raise_it,
    until_sent,
)
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def pushed(js: JetStream, stream: str, **options: object) -> PushConsumer:
    """A push consumer `c` of a stream."""
    config = {"durable_name": "c", "deliver_subject": f"to.{stream}", **options}
    js.stream(stream).create_consumer(ConsumerConfig(**config))  # type: ignore[arg-type]  # any
    return js.push_consumer(stream, "c")


def test_messages_as_they_come(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 10)
    consumer = pushed(js, stream_name)
    with consumer.messages() as messages:
        for number in range(10):
            msg = messages.next(TIMEOUT)
            assert (int(msg.data), msg.metadata.consumer_seq) == (number, number + 1)
            msg.ack_sync(TIMEOUT)
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.05)
        assert js.consumer(stream_name, "c").cached_info.num_ack_pending == 0
        messages.stop()
        with pytest.raises(MessagesClosedError):
            messages.next()


def test_a_second_reader_is_refused(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    """Without a queue group, both would get every message."""
    filled(js, stream_name, 0)
    consumer = pushed(js, stream_name)
    with natsync.connect(js_server.url) as nc:
        with consumer.consume(lambda msg: None):
            with pytest.raises(ConsumerHasActiveSubscriptionError, match="has a reader already"):
                consumer.messages()
            other = nc.jetstream()
            elsewhere = other.push_consumer(stream_name, "c")
            while not elsewhere.cached_info.push_bound:
                elsewhere = other.push_consumer(stream_name, "c")
            with pytest.raises(ConsumerHasActiveSubscriptionError):
                elsewhere.consume(lambda msg: None)
        for reader in (elsewhere, consumer, js.push_consumer(stream_name, "c")):
            reader.messages().stop()  # the server notices a little later that it has ended


def test_readers_without_acknowledgements_may_be_several(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 3)
    consumer = pushed(js, stream_name, ack_policy="none")
    with consumer.messages() as first, consumer.messages() as second:
        publish(js, stream_name, [3])
        assert int(second.next(TIMEOUT).data) in range(4) and first.next(TIMEOUT)


def test_a_queue_group_shares_the_messages(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 0)
    consumer = pushed(js, stream_name, deliver_group="workers")
    first, second = Gathered(), Gathered()
    with consumer.consume(first), consumer.consume(second):
        js.api.core.flush()
        publish(js, stream_name, range(200))
        while set(first.numbers) | set(second.numbers) != set(range(200)):
            first.wait(len(first.numbers)) if first.numbers else second.wait(1)
    assert len(first.numbers) + len(second.numbers) == 200
    assert first.numbers and second.numbers


def test_flow_control_of_a_push_consumer_is_answered(js: JetStream, stream_name: str) -> None:
    """The server stops after two megabytes unless its requests are answered."""
    filled(js, stream_name, 0)
    for _ in range(64):
        js.api.core.publish(f"{stream_name}.0", bytes(100_000))
    js.api.core.flush()
    consumer = pushed(js, stream_name, flow_control=True, idle_heartbeat=0.5, ack_policy="none")
    with consumer.messages() as messages:
        found = [messages.next(TIMEOUT) for _ in range(64)]
    assert {len(msg.data) for msg in found} == {100_000}
    assert [msg.metadata.stream_seq for msg in found] == list(range(1, 65))


def test_a_stalled_consumer_goes_on(js: JetStream, stream_name: str) -> None:
    """A reader that takes nothing until the server waits for it, and says so in heartbeats."""
    filled(js, stream_name, 0)
    for _ in range(64):
        js.api.core.publish(f"{stream_name}.0", bytes(100_000))
    js.api.core.flush()
    consumer = pushed(js, stream_name, flow_control=True, idle_heartbeat=0.1, ack_policy="none")
    with consumer.messages() as messages:
        for number in range(64):
            if number == 5:
                js.api.core.request_async("nobody.answers", timeout=0.3).exception()
            assert messages.next(TIMEOUT).metadata.stream_seq == number + 1


def test_a_consumer_that_is_deleted(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 1)
    consumer = pushed(js, stream_name, idle_heartbeat=0.1)
    errors = Errors()
    with consumer.messages(on_error=errors) as messages:
        messages.next(TIMEOUT)
        stream.delete_consumer("c")
        with pytest.raises(ConsumerDeletedError):
            messages.next(TIMEOUT)
        assert isinstance(messages.error, ConsumerDeletedError)
        with pytest.raises(ConsumerDeletedError):
            messages.next(TIMEOUT)
    assert [type(error) for error in errors.all] == [NoHeartbeatError]


def test_a_connection_that_is_lost(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    filled(js, stream_name, 5)
    pushed(js, stream_name, ack_wait=0.5, idle_heartbeat=0.5)
    errors = Errors()
    found: set[int] = set()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        with nc.jetstream().push_consumer(stream_name, "c").messages(on_error=errors) as messages:
            while len(found) < 5:
                msg = messages.next(TIMEOUT)
                found.add(int(msg.data))
                msg.ack()
            proxy.cut()
            publish(js, stream_name, range(5, 10))
            while len(found) < 10:
                msg = messages.next(TIMEOUT)
                found.add(int(msg.data))
                msg.ack()
    assert isinstance(errors.all[0], ConnectionReconnectingError)


def test_a_gap_is_reported(js: JetStream, js_server: NatsServer, stream_name: str) -> None:
    """Messages that went to a connection which was lost before it had them."""
    filled(js, stream_name, 1)
    pushed(js, stream_name, ack_policy="none", idle_heartbeat=0.3)
    errors = Errors()
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        with nc.jetstream().push_consumer(stream_name, "c").messages(on_error=errors) as messages:
            assert messages.next(TIMEOUT).data == b"0"
            proxy.link(0).to_client.swallow()
            publish(js, stream_name, [1, 2])
            consumer = js.consumer(stream_name, "c")
            while consumer.info().delivered.consumer_seq < 3:
                pass
            proxy.cut()
            proxy.link(1)
            assert nc.wait_connected(TIMEOUT)
            nc.flush()
            publish(js, stream_name, [3])
            assert messages.next(TIMEOUT).data == b"3"
    gap = errors.wait_for(SequenceGapError)
    assert isinstance(gap, SequenceGapError)
    assert (gap.expected, gap.found) == (2, 4)


def test_an_on_error_that_raises_loses_no_message(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 0)
    with pushed(js, stream_name, ack_policy="none").messages(on_error=raise_it) as messages:
        for seq in (1, 3, 4):
            reply = f"imported.$JS.ACK.{stream_name}.c.1.{seq}.{seq}.1.0"
            js.api.core.publish(f"to.{stream_name}", b"%d" % seq, reply=reply)
        assert messages.next(TIMEOUT).data == b"1"
        with pytest.raises(SequenceGapError):
            messages.next(TIMEOUT)
        assert [messages.next(TIMEOUT).data for _ in range(2)] == [b"3", b"4"]


def test_stop_says_what_one_worker_has_left(js: JetStream, stream_name: str) -> None:
    """It takes all that has arrived at once."""
    filled(js, stream_name, 10)
    entered, go_on = threading.Event(), threading.Event()

    def handle(msg: JetStreamMsg) -> None:
        entered.set()
        go_on.wait(TIMEOUT)
        msg.ack()

    consumer = pushed(js, stream_name)
    consuming = consumer.consume(handle)
    assert entered.wait(TIMEOUT)
    until_sent(js, js.consumer(stream_name, "c"), 10)
    with later(0.1, go_on.set):
        assert consuming.stop() == 9
    assert not consuming.running


@pytest.mark.parametrize("line", ["100 Idle Heartbeat", "100 FlowControl Request"])
def test_a_message_that_was_published_with_a_status(
    old_js: JetStream, old_js_server: NatsServer, stream_name: str, line: str
) -> None:
    """A server before 2.14 keeps the status; the message must not be acknowledged unread."""
    filled(old_js, stream_name, 0)
    publish_status(old_js_server, f"{stream_name}.0", line)
    with pushed(old_js, stream_name, idle_heartbeat=0.1).messages() as messages:
        assert messages.next(TIMEOUT).data == b""
        with pytest.raises(NextMsgTimeoutError):
            messages.next(0.5)  # heartbeats are none
    assert old_js.consumer(stream_name, "c").cached_info.num_ack_pending == 1


@pytest.mark.parametrize("stray", [b"", b"stray"])
def test_a_message_that_no_consumer_delivered_ends_nothing(
    js: JetStream, stream_name: str, stray: bytes
) -> None:
    """Any client may publish to a deliver subject."""
    filled(js, stream_name, 1)
    with pushed(js, stream_name).messages() as messages:
        assert messages.next(TIMEOUT).data == b"0"
        js.api.core.publish(f"to.{stream_name}", stray, headers={"a": "b"})
        msg = messages.next(TIMEOUT)
        assert (msg.subject, msg.data) == (f"to.{stream_name}", stray)
        with pytest.raises(NotJSMessageError):
            msg.ack()
        publish(js, stream_name, [1])
        assert messages.next(TIMEOUT).data == b"1"


def test_drain_of_a_push_reader_leaves_what_has_arrived(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 10)
    messages = pushed(js, stream_name).messages()
    messages.next(TIMEOUT)
    messages.drain()
    assert numbers(messages) == list(range(1, 10))


def test_stop_ends_who_waits(js: JetStream, stream_name: str) -> None:
    filled(js, stream_name, 0)
    messages = pushed(js, stream_name).messages()
    with later(0.1, messages.stop):
        assert numbers(messages) == []


def test_consumers_that_cannot_be(js: JetStream, stream_name: str) -> None:
    stream = filled(js, stream_name, 0)
    durable(stream, "pull")
    with pytest.raises(NotPushConsumerError, match="is a pull consumer"):
        js.push_consumer(stream_name, "pull")
    with pytest.raises(OptionError, match="flow control"):
        pushed(js, stream_name, deliver_group="workers", idle_heartbeat=1.0)


def test_a_flow_control_answer_that_is_lost_is_sent_again(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """The server repeats its request until it is answered, also on another connection."""
    filled(js, stream_name, 0)
    for _ in range(64):
        js.api.core.publish(f"{stream_name}.0", bytes(100_000))
    js.api.core.flush()
    pushed(js, stream_name, flow_control=True, idle_heartbeat=0.1, ack_policy="none")
    with Proxy(js_server.host, js_server.port) as proxy, natsync.connect(proxy.url) as nc:
        with nc.jetstream().push_consumer(stream_name, "c").messages(on_error=Errors()) as messages:
            found = [messages.next(TIMEOUT)]
            proxy.link(0).to_server.swallow()
            with pytest.raises(NextMsgTimeoutError):
                while True:
                    found.append(messages.next(0.5))
            assert len(found) < 64
            proxy.cut()
            while len(found) < 64:
                found.append(messages.next(TIMEOUT))
    assert [msg.metadata.stream_seq for msg in found] == list(range(1, 65))


def test_flow_control_during_an_outage_does_not_end_it(
    js: JetStream, js_server: NatsServer, stream_name: str
) -> None:
    """Where nothing can be published meanwhile, the request is answered later."""
    filled(js, stream_name, 0)
    for _ in range(64):
        js.api.core.publish(f"{stream_name}.0", bytes(100_000))
    js.api.core.flush()
    pushed(js, stream_name, flow_control=True, idle_heartbeat=0.1, ack_policy="none")
    with (
        Proxy(js_server.host, js_server.port) as proxy,
        natsync.connect(proxy.url, reconnect_buffer=0) as nc,
    ):
        before = nc.stats.in_msgs
        gathered: list[int] = []
        over = threading.Event()

        def handle(msg: JetStreamMsg) -> None:
            eventually(lambda: over.is_set() or nc.stats.in_msgs > before + 15)
            if not over.is_set():  # with the first request in what has arrived
                proxy.admit(Admission.REFUSE)
                proxy.cut()
                eventually(lambda: nc.status is natsync.Status.RECONNECTING)
                over.set()
            gathered.append(msg.metadata.stream_seq)

        consumer = nc.jetstream().push_consumer(stream_name, "c")
        with consumer.consume(handle, on_error=Errors()) as consuming:
            assert over.wait(TIMEOUT)
            eventually(lambda: len(gathered) > 12 or not consuming.running)
            proxy.admit(Admission.FORWARD)
            eventually(lambda: gathered[-1] == 64 or not consuming.running)
            assert consuming.running and consuming.error is None
