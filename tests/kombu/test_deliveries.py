"""Deliveries: requests for messages across lost connections and deleted queues."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import natsync
from natsync.jetstream import JetStream
from natsync.kombu.bindings import Bindings
from natsync.kombu.deliveries import Deliveries, Delivery
from natsync.kombu.naming import CONSUMER, Names
from natsync.kombu.queues import QueueOptions, Queues

from tests.support.waiting import eventually

pytestmark = pytest.mark.server


@pytest.fixture
def queues(js: JetStream, stream_name: str) -> Queues:
    names = Names(stream_name)
    return Queues(js, names, QueueOptions(), Bindings(js, names, 1))


@pytest.fixture
def deliveries(js_client: natsync.Client, js: JetStream, queues: Queues) -> Iterator[Deliveries]:
    def subject(queue: str) -> str:
        return js.api.subject(f"CONSUMER.MSG.NEXT.{queues.names.stream(queue)}.{CONSUMER}")

    made = Deliveries(js_client, subject, queues, 20.0)
    yield made
    made.close()


def next_of(deliveries: Deliveries, queue: str, wanted: int = 1) -> Delivery:
    found: list[Delivery] = []

    def comes() -> bool:
        deliveries.ask(queue, wanted)
        delivery = deliveries.receive(0.2)
        found.extend([delivery] if delivery else [])
        return bool(found)

    eventually(comes)
    return found[0]


def test_one_request_is_open_at_a_time(queues: Queues, deliveries: Deliveries) -> None:
    for queue in ("a", "b"):
        queues.declare(queue)
        queues.put(queue, queue.encode(), queue)
    for _ in range(3):
        deliveries.ask("a", 1)
        deliveries.ask("b", 1)
    got = [next_of(deliveries, "a"), next_of(deliveries, "b")]
    assert sorted(each.queue.encode() for each in got) == sorted(each.msg.data for each in got)
    for each in got:
        deliveries.ack(each)
    eventually(lambda: queues.get("a") is None and queues.get("b") is None)


def test_requests_are_sent_again_after_a_reconnect(
    queues: Queues, deliveries: Deliveries, js_client: natsync.Client
) -> None:
    queues.declare("q")
    deliveries.ask("q", 1)
    js_client.reconnect()
    assert js_client.wait_connected(5)
    queues.put("q", b"later", "1")
    delivery = next_of(deliveries, "q")
    assert delivery.msg.data == b"later"
    deliveries.ack(delivery)


def test_a_request_that_could_not_be_sent_is_not_waited_for(
    queues: Queues,
    deliveries: Deliveries,
    js_client: natsync.Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    queues.declare("q")
    queues.put("q", b"x", "1")

    def fail(*arguments: object, **options: object) -> None:
        raise natsync.OutboundBufferLimitError(1, 2.0)

    with monkeypatch.context() as patched:
        patched.setattr(js_client, "publish", fail)
        with pytest.raises(natsync.OutboundBufferLimitError):
            deliveries.ask("q", 1)
    deliveries.ask("q", 1)
    delivery = deliveries.receive(5)
    assert delivery and delivery.msg.data == b"x"
    deliveries.ack(delivery)


def test_a_queue_that_was_deleted_is_made_again(
    queues: Queues, deliveries: Deliveries, js: JetStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("natsync.kombu.deliveries._EXPIRES", 0.5)
    monkeypatch.setattr("natsync.kombu.deliveries._GRACE", 0.2)
    queues.declare("q")
    deliveries.ask("q", 1)
    js.delete_stream(queues.names.stream("q"))

    def is_there() -> bool:
        deliveries.receive(0.1)
        deliveries.ask("q", 1)
        return queues.exists("q")

    eventually(is_there)
    queues.put("q", b"1", "1")
    deliveries.ack(next_of(deliveries, "q"))


def test_cancelled_queues_give_back_what_has_come(queues: Queues, deliveries: Deliveries) -> None:
    queues.declare("q")
    for number in range(3):
        queues.put("q", b"%d" % number, str(number))
    first = next_of(deliveries, "q", 3)
    deliveries.cancel("q")
    assert deliveries.receive(0) is None
    eventually(lambda: queues.size("q") == 0 and queues.get("q") is not None)
    deliveries.ack(first)
