"""Publishing to a stream, beside nats-py 2.16: every figure in one run, in alternating rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from itertools import count
from statistics import median
from time import monotonic, process_time
from typing import Any

import pytest

import natsync
from natsync.jetstream import JetStream, StreamConfig

from tests.bench.rounds import machine
from tests.support.jetstream import JETSTREAM
from tests.support.servers import NatsServer, require_server

nats = pytest.importorskip("nats")

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

ROUNDS = 5
SOME = 2_000
MANY = 20_000
PAYLOAD = b"x" * 128
WINDOW = 4000
ids = count(1)


@dataclass(frozen=True)
class Taken:
    """Microseconds for a message, of wall and of CPU."""

    wall: float
    cpu: float


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer(JETSTREAM) as running, natsync.connect(running.url) as nc:
        nc.jetstream().create_stream(
            StreamConfig("P", storage="memory", max_msgs=1000, allow_batched=True)
        )
        print(f"\n\nJetStream, nats-server {running.version}, {machine()}")
        yield running


def one_by_one(js: JetStream, most: int) -> None:
    for _ in range(most):
        js.publish("P", PAYLOAD)


def in_a_window(js: JetStream, most: int) -> None:
    for _ in range(most):
        js.publish_async("P", PAYLOAD)
    assert js.wait_all(60)


def in_a_window_with_ids(js: JetStream, most: int) -> None:
    for _ in range(most):
        js.publish_async("P", PAYLOAD, msg_id=f"o{next(ids)}")
    assert js.wait_all(60)


def in_a_fast_batch(js: JetStream, most: int) -> None:
    with js.fast_batch() as batch:
        for _ in range(most):
            batch.add("P", PAYLOAD)
        batch.commit()


async def py_one_by_one(js: Any, most: int) -> None:
    for _ in range(most):
        await js.publish("P", PAYLOAD)


async def py_window(js: Any, most: int) -> None:
    for _ in range(most):
        await js.publish_async("P", PAYLOAD)
    await js.publish_async_completed()


async def py_window_with_ids(js: Any, most: int) -> None:
    for _ in range(most):
        await js.publish_async("P", PAYLOAD, headers={"Nats-Msg-Id": f"t{next(ids)}"})
    await js.publish_async_completed()


Ours = Callable[[JetStream, int], None]
Theirs = Callable[[Any, int], Awaitable[None]]


@pytest.mark.parametrize(
    ("ours", "theirs", "most", "wanted"),
    [
        (one_by_one, py_one_by_one, SOME, 1.5),
        (in_a_window, py_window, MANY, None),
        (in_a_window_with_ids, py_window_with_ids, MANY, None),
        (in_a_fast_batch, py_window, MANY, None),
    ],
)
def test_speed(
    server: NatsServer, ours: Ours, theirs: Theirs, most: int, wanted: float | None
) -> None:
    loop = asyncio.new_event_loop()
    other = loop.run_until_complete(nats.connect(server.url))
    with natsync.connect(server.url) as nc:
        js = nc.jetstream(publish_window=WINDOW)
        theirs_js = other.jetstream(publish_async_max_pending=WINDOW)
        runs = [
            (
                taken(lambda: ours(js, most), most),
                taken(lambda: loop.run_until_complete(theirs(theirs_js, most)), most),
            )
            for _ in range(ROUNDS)
        ]
    loop.run_until_complete(other.close())
    loop.close()
    mine, its = (
        Taken(median(run[at].wall for run in runs), median(run[at].cpu for run in runs))
        for at in (0, 1)
    )
    wall, cpu = its.wall / mine.wall, its.cpu / mine.cpu
    print(
        f"\n{ours.__name__}: {mine.wall:.1f} us, CPU {mine.cpu:.1f}; {theirs.__name__}: "
        f"{its.wall:.1f} us, CPU {its.cpu:.1f}: x {wall:.2f}, CPU x {cpu:.2f}"
    )
    if wanted:
        # Wall time says nothing while others use the machine; CPU time says enough then.
        assert max(wall, cpu) >= wanted


def taken(action: Callable[[], object], most: int) -> Taken:
    wall, cpu = monotonic(), process_time()
    action()
    return Taken((monotonic() - wall) / most * 1e6, (process_time() - cpu) / most * 1e6)
