"""A consumer with a clock of the test's own: requests, heartbeats, redelivery, and its end."""

from __future__ import annotations

import json

import pytest

from natsync.jetstream import ConsumerConfig, StreamConfig
from natsync.testing.memory.consumer import MemoryConsumer
from natsync.testing.memory.router import Interest, Message, Router
from natsync.testing.memory.stream import MemoryStream

SECOND = 1_000_000_000


class Desk:
    """A stream with a consumer, and the inbox `r`."""

    def __init__(self, **options: object) -> None:
        self.now = SECOND
        self.got: list[Message] = []
        self.router = Router()
        self.inbox = Interest(b"r", lambda message: self.got.append(message) is None)
        self.router.add(self.inbox)
        self.stream = MemoryStream(StreamConfig("S"), 0)
        config = ConsumerConfig(durable_name="c", **options)  # type: ignore[arg-type]  # as a test says
        self.consumer = MemoryConsumer(
            self.stream, "c", config, self.router, lambda: self.now, lambda: None
        )
        self.stream.followers["c"] = self.consumer

    def publish(self, *payloads: bytes) -> None:
        for payload in payloads:
            self.stream.publish(b"S", b"", payload, self.now)

    def pull(self, **request: object) -> None:
        self.consumer.pull(b"r", json.dumps(request).encode())

    def run(self, seconds: float = 0.0) -> list[bytes]:
        """What comes after that time: payloads, or the status lines."""
        self.now += round(seconds * SECOND)
        self.consumer.run()
        got, self.got = self.got, []
        return [each.payload or each.headers.partition(b"\r\n")[0] for each in got]


def test_a_request_is_answered_and_ends() -> None:
    desk = Desk()
    desk.pull(batch=3, expires=2 * SECOND, idle_heartbeat=SECOND)
    assert desk.run() == []
    desk.publish(b"1", b"2")
    assert desk.run(0.5) == [b"1", b"2"]
    assert desk.run(1.0) == [b"NATS/1.0 100 Idle Heartbeat"]
    assert desk.run(0.5) == [b"NATS/1.0 408 Request Timeout"]
    assert desk.consumer.waiting == []


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"batch": 3}, b"409 Exceeded MaxRequestBatch of 2"),
        ({"batch": 1, "max_bytes": 200}, b"409 Exceeded MaxRequestMaxBytes of 100"),
        ({"expires": 9 * SECOND}, b"409 Exceeded MaxRequestExpires of 5s"),
        ({"idle_heartbeat": SECOND}, b"400 Bad Request - heartbeat value too large"),
        ({"no_wait": True}, b"404 No Messages"),
        ({"group": "g"}, b"400 Bad Request - priority groups are not supported"),
    ],
)
def test_requests_that_are_refused(request_: dict[str, object], status: bytes) -> None:
    desk = Desk(max_batch=2, max_expires=5.0, max_bytes=100)
    desk.pull(**request_)
    (line,) = desk.run()
    assert line.startswith(b"NATS/1.0 " + status)


def test_bodies_of_requests() -> None:
    desk = Desk(max_waiting=2)
    for body in (b"", b"2"):
        desk.consumer.pull(b"r", body)
    assert [pull.left for pull in desk.consumer.waiting] == [1, 2]
    desk.consumer.pull(b"r", b"")
    desk.consumer.pull(b"r", b"{")
    assert desk.run() == [
        b"NATS/1.0 409 Exceeded MaxWaiting",
        b"NATS/1.0 400 Bad Request - invalid JSON",
    ]


def test_bytes_are_a_limit() -> None:
    desk = Desk()
    desk.publish(bytes(50), bytes(50))
    desk.pull(batch=5, max_bytes=80, expires=SECOND)
    assert desk.run() == [bytes(50), b"NATS/1.0 409 Message Size Exceeds MaxBytes"]


def test_messages_are_delivered_again() -> None:
    desk = Desk(ack_wait=10.0, backoff=[1.0, 3.0], max_deliver=4)
    desk.publish(b"1")
    desk.pull(batch=9)
    assert [desk.run(wait) for wait in (0, 0.9, 0.1, 2.9, 0.1)] == [[b"1"], [], [b"1"], [], [b"1"]]
    desk.consumer.ack(1, b"+WPI", b"")
    assert desk.run(2.9) == []
    desk.consumer.ack(1, b"-NAK", b'{"delay": 500000000}')
    assert [desk.run(wait) for wait in (0.4, 0.1, 3.0)] == [[], [b"1"], []]
    assert desk.consumer.num_ack_pending == 0


def test_a_request_whose_inbox_is_gone_loses_nothing() -> None:
    desk = Desk()
    desk.pull(batch=1)
    desk.router.remove(desk.inbox)
    desk.publish(b"1")
    assert desk.run() == [] and desk.consumer.waiting == []
    desk.router.add(desk.inbox)
    desk.pull(batch=1)
    assert desk.run() == [b"1"]


def test_its_end_is_told() -> None:
    desk = Desk(inactive_threshold=5.0)
    assert not desk.consumer.is_abandoned()
    desk.pull(batch=1)
    desk.now += 60 * SECOND
    assert not desk.consumer.is_abandoned()
    desk.consumer.end()
    assert desk.run() == [b"NATS/1.0 409 Consumer Deleted"]
    desk.now += 5 * SECOND
    assert desk.consumer.is_abandoned()


def test_a_message_that_is_gone_is_not_waited_for() -> None:
    desk = Desk()
    desk.publish(b"1", b"2")
    desk.pull(batch=1)
    desk.run()
    desk.stream.purge()
    assert (desk.consumer.num_pending, desk.consumer.num_ack_pending) == (0, 0)
