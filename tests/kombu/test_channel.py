"""Channels of kombu: exchanges, consumers, prefetch counts, acknowledgements."""

from __future__ import annotations

import socket
from contextlib import ExitStack
from datetime import datetime, timezone
from threading import Thread
from uuid import UUID

import pytest
from kombu import Connection, Exchange, Message, Queue
from kombu.exceptions import ChannelError

import natsync
import natsync.kombu
from natsync.kombu.naming import encode
from natsync.kv import Operation

from tests.kombu.conftest import Connect
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


class Worker:
    """A consumer of some queues that keeps what it gets."""

    def __init__(self, connection: Connection, *queues: Queue, prefetch: int = 0) -> None:
        self.connection = connection
        self.got: list[Message] = []
        self.consumer = connection.Consumer(
            list(queues), callbacks=[lambda body, msg: self.got.append(msg)]
        )
        if prefetch:
            self.consumer.qos(prefetch_count=prefetch)
        self.consumer.consume()

    def take(self, count: int, timeout: float = 5.0) -> list[object]:
        """The bodies of the next messages: so many, or those that come in time."""
        before = len(self.got)
        try:
            while len(self.got) < before + count:
                self.connection.drain_events(timeout=timeout)
        except socket.timeout:
            pass
        return [msg.payload for msg in self.got[before:]]


def test_messages_of_all_exchanges_arrive(broker: Connect) -> None:
    direct, topic, fanout = (Exchange(kind, kind) for kind in ("direct", "topic", "fanout"))
    queues = [
        Queue("red", direct, routing_key="red"),
        Queue("eu", topic, routing_key="orders.eu.#"),
        Queue("any", topic, routing_key="orders.*.new"),
        Queue("one", fanout),
        Queue("two", fanout),
    ]
    worker = Worker(broker(), *queues)
    producer = broker().Producer()  # of another process, which declares exchanges alone
    sent = [
        ("direct", "red", direct),
        ("nowhere", "blue", direct),
        ("both", "orders.eu.new", topic),
        ("first", "orders.eu.paid.late", topic),
        ("all", "", fanout),
    ]
    for body, key, exchange in sent:
        producer.publish(body, exchange=exchange, routing_key=key, declare=[exchange])
    got = worker.take(6)
    assert sorted(map(str, got)) == ["all", "all", "both", "both", "direct", "first"]
    assert worker.take(1, timeout=1.0) == []


def test_a_process_that_declares_nothing_reaches_all_exchanges(broker: Connect) -> None:
    """Celery declares nothing before it sends a task to a `Broadcast`."""
    topic, fanout = Exchange("topic", "topic"), Exchange("fanout", "fanout")
    early, late = broker().Producer(), broker().Producer()
    early.publish("lost", exchange="fanout", routing_key="")  # nobody has bound a queue yet
    queues = [Queue("eu", topic, routing_key="orders.#"), Queue("one", fanout, routing_key="any")]
    worker = Worker(broker(), *queues)
    for producer in (early, late):
        producer.publish("topic", exchange="topic", routing_key="orders.new")
        producer.publish("fanout", exchange="fanout", routing_key="")
    assert sorted(map(str, worker.take(4))) == ["fanout", "fanout", "topic", "topic"]
    assert worker.take(1, timeout=1.0) == []


def test_content_survives(broker: Connect) -> None:
    worker = Worker(broker(), Queue("q"))
    producer = worker.connection.Producer()
    producer.publish(
        b"\x00\xff",
        routing_key="q",
        content_type="application/data",
        content_encoding="binary",
        headers={"a": 1},
        correlation_id="c",
        priority=3,
    )
    producer.publish({"ü": [1, None]}, routing_key="q", compression="zlib")
    assert worker.take(2) == [b"\x00\xff", {"ü": [1, None]}]
    first = worker.got[0]
    assert (first.headers, first.properties["correlation_id"]) == ({"a": 1}, "c")
    assert first.delivery_info == {"exchange": "", "routing_key": "q", "redelivered": False}


def test_headers_have_the_values_of_kombus_json(broker: Connect) -> None:
    worker = Worker(broker(), Queue("q"))
    headers = {"at": datetime(2026, 1, 2, tzinfo=timezone.utc), "id": UUID(int=7), "raw": b"\xff"}
    worker.connection.Producer().publish("x", routing_key="q", headers=headers)
    assert worker.take(1) == ["x"]
    assert worker.got[0].headers == headers


def test_no_more_than_the_prefetch_count(broker: Connect) -> None:
    queue = Queue("q")
    worker = Worker(broker(), queue, prefetch=2)
    other = Worker(broker(), queue)
    for number in range(5):
        worker.connection.Producer().publish(number, routing_key="q")
    assert worker.take(3, timeout=1.0) == [0, 1]
    assert other.take(4, timeout=1.0) == [2, 3, 4]
    worker.connection.Producer().publish(5, routing_key="q")
    other.consumer.cancel()
    # Threads of a pool acknowledge, while the consumer's own one waits.
    thread = Thread(target=worker.got[0].ack)
    thread.start()
    assert worker.take(1) == [5]
    thread.join()


def test_what_is_refused_comes_again_or_not(broker: Connect) -> None:
    worker = Worker(broker(), Queue("q"))
    for number in range(3):
        worker.connection.Producer().publish(number, routing_key="q")
    assert worker.take(3) == [0, 1, 2]
    worker.got[0].requeue()
    worker.got[1].reject()
    worker.got[2].ack()
    assert worker.take(2, timeout=1.0) == [0]
    assert worker.got[3].delivery_info["redelivered"]


def test_what_a_closed_channel_had_goes_to_others(broker: Connect) -> None:
    queue = Queue("q")
    first, second = Worker(broker(), queue), Worker(broker(), queue)
    second.consumer.cancel()
    for number in range(3):
        first.connection.Producer().publish(number, routing_key="q")
    assert first.take(2) == [0, 1]
    first.got[0].ack()
    first.connection.release()
    second.consumer.consume()
    assert sorted(map(int, second.take(2))) == [1, 2]  # type: ignore[call-overload]  # numbers


def test_a_message_is_kept_while_its_worker_lives(broker: Connect) -> None:
    queue = Queue("q")
    first = Worker(broker(visibility_timeout=1.5), queue)
    first.connection.Producer().publish("task", routing_key="q")
    assert first.take(1) == ["task"]
    other = Worker(broker(visibility_timeout=1.5), queue)
    assert other.take(1, timeout=2.5) == []
    # The process dies: nothing says any more that the message is in progress.
    first.connection.transport.nats.close()
    assert other.take(1) == ["task"]
    assert other.got[0].delivery_info["redelivered"]


def test_consumers_without_acknowledgement(broker: Connect) -> None:
    connection = broker()
    queue = Queue("q")
    channel = connection.channel()
    bound = queue(channel)
    bound.declare()
    connection.Producer().publish(1, routing_key="q")
    connection.Producer().publish(2, routing_key="q")
    got = bound.get(no_ack=True)
    assert got is not None and got.payload == 1
    kept: list[object] = []
    with connection.Consumer([queue], no_ack=True, on_message=lambda msg: kept.append(msg.payload)):
        connection.drain_events(timeout=5)
    assert kept == [2]
    assert bound.get() is None
    assert channel.connection.deliveries._held == {}


def test_queues_are_deleted_unbound_and_missed(broker: Connect) -> None:
    connection = broker()
    exchange = Exchange("x", "direct")
    channel = connection.channel()
    queue = Queue("q", exchange, routing_key="k")(channel)
    queue.declare()
    assert channel.get_table("x") == [("k", None, "q")]
    queue.unbind_from(exchange, "k")
    assert channel.get_table("x") == []
    connection.Producer().publish(1, routing_key="q")
    queue.delete(if_empty=True)
    assert queue.queue_declare(passive=True).message_count == 1
    worker = Worker(broker(), Queue("q"), prefetch=1)
    assert worker.take(1) == [1]
    queue.purge()
    worker.got[0].ack()
    queue.delete()
    with pytest.raises(ChannelError, match="no queue 'q'"):
        queue.queue_declare(passive=True)


def test_a_closed_channel_is_replaced(broker: Connect) -> None:
    """Celery keeps producers of connections that were lost meanwhile."""
    worker, connection = Worker(broker(), Queue("q")), broker()
    producer = connection.Producer()
    producer.channel.close()
    with pytest.raises(natsync.ConnectionClosedError, match="the channel is closed"):
        producer.publish("lost", routing_key="q")
    connection.default_channel.close()
    producer.publish("sent", routing_key="q", retry=True, retry_policy={"max_retries": 3})
    assert worker.take(1) == ["sent"]


def test_a_late_watch_does_not_bring_back_what_was_unbound(
    broker: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    channel = broker().channel()
    queue = Queue("q", exchange := Exchange("x", "direct"), routing_key="k")(channel)
    assert channel.get_table("x") == []
    bindings = channel.connection.bindings
    with monkeypatch.context() as late:
        late.setattr(bindings, "_follow", lambda: None)
        queue.declare()
        # Taken from the watch before the purge, which may otherwise replace it in the bucket.
        put = bindings._watcher.next(timeout=5)
        queue.unbind_from(exchange, "k")
    bindings._take(put)
    assert (put.operation, bindings._table) == (Operation.PUT, {encode("x"): {}})
    queue.declare()
    assert channel.get_table("x") == [("k", None, "q")]


def test_the_limits_of_a_queue_are_honoured(
    broker: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    connection, other = broker(), broker()
    channel = connection.channel()
    queue = Queue("q", expires=90, message_ttl=60, max_length=2, max_length_bytes=10_000)(channel)
    queue.declare()
    queues = channel.connection.queues
    stream = queues._js.stream(queues.names.stream("q")).cached_info.config
    assert (stream.max_age, stream.max_msgs, stream.max_bytes) == (60.0, 2, 10_000)
    assert stream.storage == "file"  # it is durable

    def expiry() -> float:
        return float(queues._js.consumer(stream.name, "kombu").config.inactive_threshold)

    assert expiry() == 90.0
    assert Queue("q")(other.channel()).queue_declare(passive=True).queue == "q"
    assert not caplog.records
    Queue("q")(other.channel()).declare()
    assert "queue 'q' exists with other arguments, which it keeps" in caplog.text
    assert expiry() == 90.0


def test_a_queue_that_another_process_deleted_is_bound_again(broker: Connect) -> None:
    fanout = Exchange("all", "fanout")
    mine, theirs = broker().channel(), broker().channel()
    Queue("q", fanout)(mine).declare()
    theirs.queue_delete("q")
    Queue("q", fanout)(mine).declare()
    assert [queue for _, _, queue in mine.get_table("all")] == ["q"]


def test_an_exchange_is_deleted_and_its_queues_are_not(broker: Connect) -> None:
    channel = broker().channel()
    exchange = Exchange("x", "direct")(channel)
    Queue("q", exchange, routing_key="k")(channel).declare()
    exchange.delete(if_unused=True)
    assert channel.get_table("x") != []
    exchange.delete()
    assert channel.get_table("x") == []
    assert Queue("q")(channel).queue_declare(passive=True).queue == "q"


def test_a_queue_in_use_or_with_messages_is_not_deleted_by_mistake(broker: Connect) -> None:
    worker = Worker(broker(), Queue("q"), prefetch=1)
    worker.connection.Producer().publish(1, routing_key="q")
    assert worker.take(1) == [1]
    other = broker().channel()
    other.queue_delete("q", if_empty=True)  # its message is with the worker
    other.queue_delete("q", if_unused=True)  # that asks for no more, as it may have one
    worker.got[0].ack()
    worker.connection.Producer().publish(2, routing_key="q")
    assert worker.take(1) == [2]


def test_bindings_are_there_again_after_the_server_was(stream_name: str) -> None:
    natsync.kombu.register()
    fanout = Exchange("all", "fanout")
    options = {"prefix": stream_name, "storage": "memory"}
    with ExitStack() as stack:
        server = stack.enter_context(NatsServer(JETSTREAM))

        def connect() -> Connection:
            return stack.enter_context(Connection(server.url, transport_options=options))

        worker = Worker(connect(), Queue("q", fanout))
        assert worker.take(1, timeout=0.2) == []
        server.stop()
        server.start()
        producer = connect().Producer()

        def arrives() -> bool:
            producer.publish("here", exchange=fanout, declare=[fanout])
            return bool(worker.take(1, timeout=0.5))

        eventually(arrives)


def test_what_is_no_message_of_kombu_is_deleted(
    broker: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(broker(), Queue("q"))
    producer = worker.connection.Producer()
    queues = worker.connection.transport.queues
    for number, body in enumerate([b"", b"\xff", b"[]", b"{}", b'{"properties": {}}']):
        queues.put("q", body, str(number))
    producer.publish("good", routing_key="q")
    assert worker.take(1) == ["good"]
    assert caplog.text.count("are no message of kombu, and are deleted") == 5
    worker.got[0].ack()
    worker.consumer.cancel()
    queues.put("q", b"[]", "6")
    producer.publish("also", routing_key="q")
    got = Queue("q")(worker.connection.default_channel).get()
    assert got is not None and got.payload == "also"
