"""Publishing to a stream, beside nats-py 2.16: every figure in one run, in alternating rounds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

import natsync
from natsync.jetstream import JetStream, StreamConfig

from tests.bench.beside_nats_py import Ours, Theirs, beside
from tests.bench.rounds import machine
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

SOME = 2_000
MANY = 20_000
PAYLOAD = b"x" * 128
ids = count(1)


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer(JETSTREAM) as running, natsync.connect(running.url) as nc:
        nc.jetstream().create_stream(
            StreamConfig("P", storage="memory", max_msgs=1000, allow_batched=True)
        )
        print(f"\n\nJetStream, nats-server {running.version}, {machine()}")
        yield running


def one_by_one(js: JetStream) -> int:
    for _ in range(SOME):
        js.publish("P", PAYLOAD)
    return SOME


def in_a_window(js: JetStream) -> int:
    for _ in range(MANY):
        js.publish_async("P", PAYLOAD)
    assert js.wait_all(60)
    return MANY


def in_a_window_with_ids(js: JetStream) -> int:
    for _ in range(MANY):
        js.publish_async("P", PAYLOAD, msg_id=f"o{next(ids)}")
    assert js.wait_all(60)
    return MANY


def in_a_fast_batch(js: JetStream) -> int:
    with js.fast_batch() as batch:
        for _ in range(MANY):
            batch.add("P", PAYLOAD)
        batch.commit()
    return MANY


async def py_one_by_one(js: Any) -> int:
    for _ in range(SOME):
        await js.publish("P", PAYLOAD)
    return SOME


async def py_window(js: Any) -> int:
    for _ in range(MANY):
        await js.publish_async("P", PAYLOAD)
    await js.publish_async_completed()
    return MANY


async def py_window_with_ids(js: Any) -> int:
    for _ in range(MANY):
        await js.publish_async("P", PAYLOAD, headers={"Nats-Msg-Id": f"t{next(ids)}"})
    await js.publish_async_completed()
    return MANY


@pytest.mark.parametrize(
    ("ours", "theirs", "wanted"),
    [
        (one_by_one, py_one_by_one, 1.5),
        (in_a_window, py_window, 3.0),
        (in_a_window_with_ids, py_window_with_ids, None),
        (in_a_fast_batch, py_window, None),
    ],
)
def test_speed(server: NatsServer, ours: Ours, theirs: Theirs, wanted: float | None) -> None:
    beside(server, ours, theirs, wanted)
