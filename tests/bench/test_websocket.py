"""The client over WebSocket beside nats-py over WebSocket (aiohttp), in one run and alternating rounds.

Wanted: publish 1.5 times as fast, receive twice as fast. Another process sends what is received, over TCP. It
sends less than a server keeps for a slow client (64 MB). Every wait has a limit.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from importlib.util import find_spec
from time import monotonic, process_time

import pytest

import natsync

from tests.bench.rounds import Taken, machine, medians
from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import require_server
from tests.support.websocket_server import WebSocketServer

pytestmark = [
    pytest.mark.bench,
    pytest.mark.server,
    pytest.mark.timeout(600),
    # aiohttp warns of how nats-py calls it. As an error that would be a server that refuses: nats-py tries
    # again for minutes.
    pytest.mark.filterwarnings("ignore:parameter 'timeout':DeprecationWarning"),
]

ROUNDS, TIMEOUT = 5, 60.0
PUBLISHED, RECEIVED, PAYLOAD = 50_000, 100_000, b"x" * 128
SENDER = """
import sys, natsync
url, count, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with natsync.connect(url) as nc:
    for _ in range(count):
        nc.publish("to.all", bytes(size))
    nc.flush(60)
"""


class Clock:
    """Measures from when it is made."""

    def __init__(self) -> None:
        self._wall, self._cpu = monotonic(), process_time()

    def taken(self, count: int) -> Taken:
        wall, cpu = monotonic() - self._wall, process_time() - self._cpu
        return Taken(wall / count * 1e6, cpu / count * 1e6)


@pytest.fixture(scope="module")
def server() -> Iterator[WebSocketServer]:
    if not (find_spec("nats") and find_spec("aiohttp")):  # nats-py's WebSocket
        missing("nats-py or aiohttp", "pip install 'natsync[bench]'")
    require_server("current")
    server = WebSocketServer('ping_interval: "1h"')
    with server:
        print(f"\n\nWebSocket, nats-server {server.version}, {machine()}")
        yield server


def sending(server: WebSocketServer) -> subprocess.Popen[bytes]:
    tcp = f"nats://127.0.0.1:{server.port}"
    command = [sys.executable, "-c", SENDER, tcp, str(RECEIVED), str(len(PAYLOAD))]
    return subprocess.Popen(command, cwd=ROOT)


def publish(server: WebSocketServer) -> Taken:
    with natsync.connect(server.url) as nc:
        clock = Clock()
        for _ in range(PUBLISHED):
            nc.publish("to.none", PAYLOAD)
        nc.flush(TIMEOUT)
        return clock.taken(PUBLISHED)


async def publish_theirs(server: WebSocketServer) -> Taken:
    import nats

    nc = await nats.connect(server.url)
    clock = Clock()
    for _ in range(PUBLISHED):
        await nc.publish("to.none", PAYLOAD)
    await nc.flush(int(TIMEOUT))
    taken = clock.taken(PUBLISHED)
    await nc.close()
    return taken


def receive(server: WebSocketServer) -> Taken:
    with natsync.connect(server.url) as nc, nc.subscribe("to.all") as sub:
        nc.flush()
        with sending(server):
            sub.next_msg(TIMEOUT)
            clock = Clock()
            for _ in range(RECEIVED - 1):
                sub.next_msg(TIMEOUT)
            return clock.taken(RECEIVED - 1)


async def receive_theirs(server: WebSocketServer) -> Taken:
    import nats

    nc = await nats.connect(server.url)
    count, begun, done = 0, asyncio.Event(), asyncio.Event()

    async def handle(_: object) -> None:
        nonlocal count
        count += 1
        if count == 1:
            begun.set()
        if count == RECEIVED:
            done.set()

    await nc.subscribe("to.all", cb=handle, pending_msgs_limit=-1, pending_bytes_limit=-1)
    await nc.flush()
    with sending(server):
        await begun.wait()
        clock = Clock()
        await done.wait()
        taken = clock.taken(RECEIVED - 1)
    await nc.close()
    return taken


@pytest.mark.parametrize(
    "ours, theirs, wanted, sure",
    [(publish, publish_theirs, 1.5, 1.5), (receive, receive_theirs, 2.0, 1.3)],
    ids=["publish", "receive"],
)
def test_speed(
    server: WebSocketServer,
    ours: Callable[[WebSocketServer], Taken],
    theirs: Callable[[WebSocketServer], Coroutine[object, object, Taken]],
    wanted: float,
    sure: float,
) -> None:
    async def limited() -> Taken:
        return await asyncio.wait_for(theirs(server), TIMEOUT)

    runs = [(ours(server), asyncio.run(limited())) for _ in range(ROUNDS)]
    mine, its, wall, cpu = medians(runs)
    print(
        f"\nWebSocket, {ours.__name__} {len(PAYLOAD)} B: {mine.wall:.1f} us, CPU {mine.cpu:.1f}; "
        f"nats-py: {its.wall:.1f} us, CPU {its.cpu:.1f}: x {wall:.2f}, CPU x {cpu:.2f} (wanted: {wanted})"
    )
    assert max(wall, cpu) >= sure
