"""What the client keeps: nothing of a million messages each way, and no thread for a subscription alone."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import natsync

from tests.bench.peers.raw import Raw
from tests.support.servers import NatsServer, require_server

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(300)]

MILLION = 1_000_000
PART = 100_000
PENDING = 10_000  # that many messages may wait to be taken
SUBSCRIPTIONS = 1_000
# What an allocator keeps differs by half of that; the smallest object left of a message would be 5 times it.
GROWTH_BYTES = 10_000_000


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    require_server("current")
    with NatsServer() as server:
        yield server


def resident_bytes() -> int:
    gc.collect()
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    pytest.skip("this system does not tell how much memory is used")


def publish(nc: natsync.Client, count: int) -> None:
    for _ in range(count):
        nc.publish("bench.memory", b"x" * 16)
    nc.flush(60)


def receive(nc: natsync.Client, server: NatsServer, count: int) -> None:
    got = 0
    with Raw(server.port) as raw, nc.subscribe("bench.memory") as sub:
        nc.flush()
        while got < count:
            raw.feed("bench.memory", 16, PENDING)
            for _ in range(PENDING):
                sub.next_msg(60)
            got += PENDING


def test_a_million_messages_each_way_leave_nothing_behind(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        publish(nc, PART)
        receive(nc, server, PART)
        before = resident_bytes()
        publish(nc, MILLION)
        after_publishing = resident_bytes()
        receive(nc, server, MILLION)
        after = resident_bytes()
    print(
        f"\n\na million publishes: {(after_publishing - before) / 1e3:+,.0f} kB,"
        f" a million receives: {(after - after_publishing) / 1e3:+,.0f} kB"
    )
    assert after - before < GROWTH_BYTES


def test_a_thousand_subscriptions_start_no_thread(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        threads = threading.active_count()
        memory = resident_bytes()
        subs = [nc.subscribe(f"bench.many.{number}") for number in range(SUBSCRIPTIONS)]
        nc.publish("bench.many.7", b"x")
        assert subs[7].next_msg(10).data == b"x"
        more = (resident_bytes() - memory) / SUBSCRIPTIONS / 1e3
        print(f"\n\n1,000 subscriptions: {more:.1f} kB each, {threading.active_count()} threads")
        assert threading.active_count() == threads
