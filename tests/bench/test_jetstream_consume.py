"""Reading a stream, beside nats-py 2.16: every figure in one run, on one real server, in alternating rounds.

The equal of each of our loops, with the ratio that is wanted, is the loop of nats-py that asks the server for
the same and hands messages to the program in the same way:

- `consume` reads a pull consumer. A pull subscription of nats-py takes no callback, so its programs repeat
  `fetch` and acknowledge: `py_fetch`.
- `push` has messages pushed to a function, as `subscribe(cb=)` of nats-py has: `py_push`.
- `ordered` iterates over an ordered consumer, as `async for msg in sub.messages` does: `py_ordered`.

The other pairs show what a program gains or loses that changes its loop, too. BENCH_ORDERED=1000000 in the
environment makes the stream, and the reading of all of it, as long as that.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest

import natsync
from natsync.jetstream import (
    Consumer,
    ConsumerConfig,
    JetStream,
    JetStreamMsg,
    PushConsumer,
    StreamConfig,
)

from tests.bench.beside_nats_py import Ours, Theirs, beside
from tests.bench.rounds import machine
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

STORED = int(os.environ.get("BENCH_ORDERED", "200000"))
SOME = 20_000
PAYLOAD = b"x" * 64
names = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer(JETSTREAM) as running, natsync.connect(running.url) as nc:
        js = nc.jetstream(timeout=60)
        js.create_stream(StreamConfig("S", subjects=["s.*"], storage="memory"))
        for number in range(STORED):  # a server drops what comes too fast and asks for no answer
            js.publish_async(f"s.{number % 100}", PAYLOAD)
        assert js.wait_all()
        print(f"\n\nJetStream, nats-server {running.version}, {machine()}")
        yield running


def fetch(js: JetStream) -> int:
    consumer = pull(js)
    for _ in range(SOME // 100):
        for msg in consumer.fetch(100):
            msg.ack()
    return SOME


def consume(js: JetStream) -> int:
    return handled(pull(js))


def push(js: JetStream) -> int:
    name = f"pushed{next(names)}"
    config = ConsumerConfig(durable_name=name, deliver_subject=js.api.core.new_inbox())
    js.stream("S").create_consumer(config)
    return handled(js.push_consumer("S", name))


def handled(consumer: Consumer | PushConsumer) -> int:
    done = threading.Event()
    left = iter(range(SOME - 1))

    def handle(msg: JetStreamMsg) -> None:
        msg.ack()
        if next(left, None) is None:
            done.set()

    with consumer.consume(handle):
        assert done.wait(60)
    return SOME


def ordered(js: JetStream) -> int:
    with js.ordered_consumer("S").messages() as messages:
        return sum(1 for _ in islice(messages, STORED))


def pull(js: JetStream) -> Consumer:
    config = ConsumerConfig(durable_name=f"ours{next(names)}", max_ack_pending=-1)
    return js.stream("S").create_consumer(config)


async def py_fetch(js: Any) -> int:
    sub = await js.pull_subscribe("s.*", durable=f"theirs{next(names)}", stream="S")
    for _ in range(SOME // 100):
        for msg in await sub.fetch(100):
            await msg.ack()
    await sub.unsubscribe()
    return SOME


async def py_push(js: Any) -> int:
    return await py_callback(js, SOME, ack=True, durable=f"theirs{next(names)}", manual_ack=True)


async def py_next(js: Any) -> int:
    sub = await js.subscribe("s.*", ordered_consumer=True)
    for _ in range(SOME):
        await sub.next_msg()
    await sub.unsubscribe()
    return SOME


async def py_ordered(js: Any) -> int:
    sub = await js.subscribe("s.*", ordered_consumer=True)
    seen = 0
    async for _ in sub.messages:
        seen += 1
        if seen == STORED:
            break
    await sub.unsubscribe()
    return seen


async def py_ordered_callback(js: Any) -> int:
    return await py_callback(js, STORED, ack=False, ordered_consumer=True)


async def py_callback(js: Any, most: int, ack: bool, **options: object) -> int:
    done = asyncio.Event()
    seen = 0

    async def handle(msg: Any) -> None:
        nonlocal seen
        if ack:
            await msg.ack()
        seen += 1
        if seen == most:
            done.set()

    sub = await js.subscribe("s.*", cb=handle, **options)
    await asyncio.wait_for(done.wait(), 300)
    await sub.unsubscribe()
    return most


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        (fetch, py_fetch, 2.0),
        (consume, py_fetch, 2.0),
        (consume, py_push, None),
        (push, py_push, None),
        (ordered, py_ordered, 3.0),
        (ordered, py_next, 3.0),
        (ordered, py_ordered_callback, None),
    ],
)
def test_speed(server: NatsServer, ours: Ours, theirs: Theirs, wanted: float | None) -> None:
    rounds = 1 if STORED > 200_000 else 5
    beside(server, ours, theirs, wanted, rounds)
