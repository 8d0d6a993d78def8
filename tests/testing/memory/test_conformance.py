"""The in-memory server and nats-server, told the same, answer the same: results, errors, sequences."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

import natsync
from natsync.jetstream import (
    APIError,
    ConsumerConfig,
    JetStreamMsg,
    StreamConfig,
)
from natsync.kv import KeyValueConfig
from natsync.testing import MemoryServer, NatsServer

from tests.support.servers import require_server

pytestmark = pytest.mark.server

TIMEOUT = 10.0

Scenario = Callable[[natsync.Client], Iterator[object]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    SCENARIOS[function.__name__] = function
    return function


def refused(call: Callable[[], object]) -> object:
    """The error of a call: its class, text and code."""
    try:
        return call()
    except natsync.Error as error:
        return type(error).__name__, str(error), getattr(error, "err_code", None)


def facts(value: object, *names: str) -> list[object]:
    return [getattr(value, name) for name in names]


def delivered(messages: list[JetStreamMsg]) -> list[object]:
    """What a consumer says of messages, without their times."""
    return [
        (msg.subject, msg.data, list(msg.headers.fields))
        + (msg.metadata.num_delivered, msg.metadata.num_pending)
        + (msg.metadata.stream_seq, msg.metadata.consumer_seq)
        for msg in messages
    ]


def state(nc: natsync.Client, stream: str) -> list[object]:
    info = nc.jetstream().stream(stream).info(deleted_details=True, subjects_filter=">").state
    names = "messages bytes first_seq last_seq num_subjects num_deleted consumer_count"
    return [*facts(info, *names.split()), dict(info.subjects), list(info.deleted)]


def position(nc: natsync.Client, stream: str, consumer: str) -> list[object]:
    info = nc.jetstream().stream(stream).consumer(consumer).info()
    places = [(each.consumer_seq, each.stream_seq) for each in (info.delivered, info.ack_floor)]
    names = "num_ack_pending num_redelivered num_waiting num_pending"
    return [*places, *facts(info, *names.split())]


@scenario
def core(nc: natsync.Client) -> Iterator[object]:
    all_, one = nc.subscribe("a.>"), nc.subscribe("a.*", max_msgs=2)
    for subject in ("a", "a.b", "a.b.c", "a.c", "a.d"):
        nc.publish(subject, subject.encode(), headers={"N": "1"} if subject == "a.c" else None)
    nc.flush(TIMEOUT)
    for sub, count in ((all_, 4), (one, 2)):
        msgs = [sub.next_msg(TIMEOUT) for _ in range(count)]
        yield [(msg.subject, msg.data, list(msg.headers.fields)) for msg in msgs]
        yield sub.pending_msgs
    yield refused(lambda: nc.request("nobody", timeout=TIMEOUT))
    nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data + b"!"))
    yield nc.request("echo", b"hello", timeout=TIMEOUT).data
    queues = [nc.subscribe("q", queue="g") for _ in range(3)]
    for _ in range(30):
        nc.publish("q")
    nc.flush(TIMEOUT)
    yield sum(sub.pending_msgs for sub in queues)
    yield [msg.data for msg in nc.request_many("echo", b"x", max_msgs=1, timeout=TIMEOUT)]


@scenario
def streams(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    config = StreamConfig("S", subjects=["s.>"], max_msgs_per_subject=2)
    made = js.create_stream(config).cached_info.config
    yield made.subjects, made.duplicate_window, made.max_msgs, made.max_age, made.retention
    for number in range(6):
        yield js.publish(f"s.{number % 2}", b"%d" % number, headers={"A": "b"})
    yield state(nc, "S")
    yield refused(lambda: js.create_stream(StreamConfig("S", subjects=["t"])))
    yield refused(lambda: js.create_stream(StreamConfig("T", subjects=["s.1"])))
    yield refused(lambda: js.create_stream(StreamConfig("T", num_replicas=3)))
    yield refused(lambda: js.stream("none"))
    yield refused(lambda: js.publish("none"))
    stream = js.stream("S")
    yield stream.get_msg(4).data, refused(lambda: stream.get_msg(1))
    yield stream.get_last_msg("s.1").seq, refused(lambda: stream.get_last_msg("s.9"))
    stream.delete_msg(4)
    yield refused(lambda: stream.delete_msg(4))
    yield state(nc, "S")
    yield stream.purge(subject="s.0"), state(nc, "S")
    yield list(js.stream_names()), list(js.stream_names("s.5")), list(js.stream_names("x"))
    js.delete_stream("S")
    yield refused(lambda: js.delete_stream("S"))


@scenario
def expectations(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    js.create_stream(StreamConfig("S", subjects=["s.>"], max_msg_size=100))
    yield js.publish("s.1", msg_id="a"), js.publish("s.2", msg_id="a"), js.publish("s.1")
    yield refused(lambda: js.publish("s.1", expected_stream="T"))
    yield refused(lambda: js.publish("s.1", expected_last_seq=1))
    yield refused(lambda: js.publish("s.1", expected_last_subject_seq=1))
    yield refused(lambda: js.publish("s.1", expected_last_msg_id="b"))
    yield js.publish("s.1", expected_last_seq=2, expected_last_subject_seq=2, msg_id="c")
    yield js.publish("s.1", expected_last_msg_id="c")
    yield refused(lambda: js.publish("s.1", bytes(200)))
    yield refused(lambda: js.publish("s.1", ttl=5))
    yield refused(lambda: js.publish("s.1", rollup="sub"))
    yield state(nc, "S")


@scenario
def limits(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    js.create_stream(StreamConfig("O", subjects=["o"], max_msgs=3))
    js.create_stream(StreamConfig("N", subjects=["n.*"], max_msgs=3, discard="new"))
    js.create_stream(StreamConfig("B", subjects=["b"], max_bytes=200, storage="memory"))
    for number in range(5):
        yield js.publish("o"), refused(lambda: js.publish(f"n.{number}")), js.publish(
            "b", bytes(50)
        )
    yield state(nc, "O"), state(nc, "N"), state(nc, "B")
    js.update_stream(StreamConfig("O", subjects=["o", "p"], max_msgs=1))
    yield state(nc, "O"), js.publish("p")
    yield refused(lambda: js.update_stream(StreamConfig("O", subjects=["n.1"])))
    yield refused(lambda: js.update_stream(StreamConfig("none")))


@scenario
def consuming(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig("S", subjects=["s.>"]))
    for number in range(10):
        js.publish(f"s.{number % 3}", b"%d" % number, headers={"N": str(number)})
    consumer = stream.create_consumer(ConsumerConfig(durable_name="c", filter_subject="s.1"))
    info = consumer.info()
    names = "ack_wait max_deliver max_ack_pending max_waiting deliver_policy inactive_threshold"
    yield facts(info.config, *names.split()), position(nc, "S", "c")
    first = consumer.fetch(2, timeout=TIMEOUT)
    yield delivered(first), position(nc, "S", "c")
    first[0].nak()
    first[1].ack_sync(timeout=TIMEOUT)  # its answer comes when the server has seen both
    again = consumer.fetch(1, timeout=TIMEOUT)
    yield delivered(again), position(nc, "S", "c")
    again[0].ack_sync(timeout=TIMEOUT)
    yield position(nc, "S", "c")
    rest = consumer.fetch_no_wait(10)
    yield delivered(rest), consumer.fetch_no_wait(10)
    rest[0].term()
    nc.flush(TIMEOUT)
    yield position(nc, "S", "c")
    yield refused(lambda: stream.consumer("none")), list(stream.consumer_names())
    stream.delete_consumer("c")
    yield refused(lambda: consumer.fetch(1, timeout=TIMEOUT))


@scenario
def policies(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig("S", subjects=["s.>"]))
    for number in range(9):
        js.publish(f"s.{number % 3}", b"%d" % number)
    for options in (
        {"deliver_policy": "all"},
        {"deliver_policy": "last"},
        {"deliver_policy": "last_per_subject", "filter_subject": "s.*"},
        {"deliver_policy": "by_start_sequence", "opt_start_seq": 7},
        {"filter_subjects": ["s.0", "s.2"]},
        {"headers_only": True, "deliver_policy": "last"},
        {"ack_policy": "none"},
        {"deliver_policy": "new"},
    ):
        config = ConsumerConfig(name="c", **options)
        consumer = stream.create_consumer(config)
        yield position(nc, "S", "c"), delivered(consumer.fetch_no_wait(20))
        yield position(nc, "S", "c")
        stream.delete_consumer("c")
    config = ConsumerConfig(name="d", ack_policy="all", max_ack_pending=4)
    consumer = stream.create_consumer(config)
    some = consumer.fetch(4, timeout=TIMEOUT)
    yield consumer.fetch(1, timeout=0.2), position(nc, "S", "d")
    some[2].ack_sync(timeout=TIMEOUT)
    yield position(nc, "S", "d")


@scenario
def redelivery(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig("S", subjects=["s"]))
    js.publish("s", b"1")
    config = ConsumerConfig(name="c", ack_wait=0.2, max_deliver=2)
    consumer = stream.create_consumer(config)
    for _ in range(2):
        yield delivered(consumer.fetch(1, timeout=TIMEOUT))
    yield consumer.fetch(1, timeout=0.6)
    yield position(nc, "S", "c")[2:]


@scenario
def work_queues(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig("S", subjects=["s.>"], retention="workqueue"))
    for number in range(4):
        js.publish(f"s.{number % 2}")
    consumer = stream.create_consumer(ConsumerConfig(name="c", filter_subject="s.0"))
    for config in (
        ConsumerConfig(name="d", filter_subject="s.0"),
        ConsumerConfig(name="d"),
        ConsumerConfig(name="d", filter_subject="s.1", ack_policy="none"),
        ConsumerConfig(name="d", filter_subject="s.1", deliver_policy="new"),
    ):
        yield refused(lambda: stream.create_consumer(config))
    for msg in consumer.fetch(2, timeout=TIMEOUT):
        msg.ack_sync(timeout=TIMEOUT)
    yield state(nc, "S")


@scenario
def reading(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    stream = js.create_stream(StreamConfig("S", subjects=["s"], allow_direct=True))
    for number in range(300):
        js.publish_async("s", b"%d" % number)
    yield js.wait_all(TIMEOUT)
    with js.ordered_consumer("S").messages() as messages:
        yield [messages.next(TIMEOUT).data for _ in range(300)]
    consumer = stream.create_consumer(ConsumerConfig(name="c"))
    with consumer.messages(max_msgs=7) as found:
        for _ in range(300):
            found.next(TIMEOUT).ack()
    nc.flush(TIMEOUT)
    yield position(nc, "S", "c")[:3]
    yield [msg.seq for msg in stream.get_msgs(seq=290)]
    yield refused(lambda: stream.get_msg(301, direct=True))


@scenario
def buckets(nc: natsync.Client) -> Iterator[object]:
    js = nc.jetstream()
    kv = js.create_key_value(KeyValueConfig("kv", history=3, limit_marker_ttl=1.0))
    with kv.watch() as watcher:
        yield watcher.next(TIMEOUT)
        yield [kv.put("a", b"1"), kv.put("a", b"2"), kv.create("b", b"3", ttl=1)]
        yield refused(lambda: kv.create("a", b"")), refused(lambda: kv.update("a", b"", 1))
        yield kv.update("a", b"4", 2), kv.get("a").value, kv.get("a", revision=1).value
        kv.delete("a")
        yield refused(lambda: kv.get("a")), refused(lambda: kv.get("c"))
        kv.purge("a")
        found = [watcher.next(TIMEOUT) for _ in range(7)]  # the last one says that b has expired
        yield [
            (each.key, each.value, each.revision, each.operation.value) for each in found if each
        ]
    yield list(kv.keys()), [entry.revision for entry in kv.history("a")]
    status = kv.status()
    yield status.values, status.history, status.config.limit_marker_ttl
    yield refused(lambda: js.key_value("none"))


@pytest.mark.parametrize("name", SCENARIOS)
def test_both_answer_the_same(name: str) -> None:
    require_server("current")
    with MemoryServer() as server, server.connect() as nc:
        in_memory = list(SCENARIOS[name](nc))
    with NatsServer() as real, real.connect() as nc:
        for number, expected in enumerate(SCENARIOS[name](nc)):
            assert in_memory[number] == expected, f"step {number}"
    assert len(in_memory) == number + 1


def test_what_it_does_not_have_is_refused_by_name() -> None:
    with MemoryServer() as server, server.connect() as nc:
        js = nc.jetstream()
        with pytest.raises(APIError, match="not supported by the in-memory server: republish"):
            js.create_stream(
                StreamConfig("S", republish=natsync.jetstream.RePublish(dest="x", src=">"))
            )
        stream = js.create_stream(StreamConfig("S"))
        with pytest.raises(APIError, match="in-memory server: deliver_subject"):
            stream.create_consumer(ConsumerConfig(name="c", deliver_subject="d"))
        with pytest.raises(natsync.jetstream.UnsupportedError, match="2.12"):
            js.create_stream(StreamConfig("T", allow_atomic=True))
