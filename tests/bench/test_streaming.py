"""NATS Streaming: messages a second of natsync, stan.go and asyncio-nats-streaming, on one server.

The last one runs on no Python since 3.10: NATSYNC_STAN_PYTHON names an older one that has it
(`pip install asyncio-nats-streaming==0.4.0 'protobuf<4'`); without it, its column is empty.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from statistics import median

import pytest

from natsync import streaming
from natsync.streaming import Msg, StartPosition

from tests.bench.rounds import machine
from tests.support.streaming_servers import CLUSTER, StreamingServer, stan_go

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(600)]

ROUNDS = 5
PUBLISHED, WINDOWED = 1000, 20_000
SIZE = 128
DATA = b"x" * SIZE
PEER = Path(__file__).parent / "peers" / "asyncio_stan.py"
Rates = dict[str, float]


def rate(count: int, action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return count / (time.perf_counter() - begin)


def ours(server: StreamingServer, channel: str) -> Rates:
    with streaming.connect(CLUSTER, "ours", servers=server.url) as sc:

        def publish() -> None:
            for _ in range(PUBLISHED):
                sc.publish(channel, DATA)

        def publish_async() -> None:
            for future in [sc.publish_async(channel, DATA) for _ in range(WINDOWED)]:
                future.result()

        def iterate() -> None:
            sub = sc.subscribe(channel, start=StartPosition.FIRST)
            for _ in range(WINDOWED):
                sub.next_msg()
            sub.close()

        def handle() -> None:
            done: SimpleQueue[None] = SimpleQueue()

            def count(msg: Msg) -> None:
                if msg.sequence == WINDOWED:
                    done.put(None)

            sc.subscribe(channel, start=StartPosition.FIRST, handler=count)
            done.get()

        return {
            "publish": rate(PUBLISHED, publish),
            "publish_async": rate(WINDOWED, publish_async),
            "next_msg": rate(WINDOWED, iterate),
            "handler": rate(WINDOWED, handle),
        }


def go(server: StreamingServer, channel: str) -> Rates:
    def rate(*arguments: object) -> float:
        _, count, seconds = stan_go(server, "go", *arguments)[-1].split()
        return int(count) / float(seconds)

    return {
        "publish": rate("pub", channel, PUBLISHED, SIZE),
        "publish_async": rate("pub", channel, WINDOWED, SIZE, "async"),
        "handler": rate("sub", channel, WINDOWED, "start=first", "quiet=yes"),
    }


def asynchronous(server: StreamingServer, channel: str) -> Rates:
    python = os.environ.get("NATSYNC_STAN_PYTHON")
    if not python:
        return {}
    command = [python, PEER, server.url, channel, str(PUBLISHED), str(WINDOWED), str(SIZE)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return {name: float(value) for name, value in (line.split() for line in printed.splitlines())}


def test_messages_a_second(streaming_server: StreamingServer) -> None:
    clients = {"natsync": ours, "stan.go": go, "asyncio": asynchronous}
    rounds: dict[str, list[Rates]] = {name: [] for name in clients}
    for number in range(ROUNDS):
        for name, run in clients.items():
            rounds[name].append(run(streaming_server, f"{name.replace('.', '-')}-{number}"))
    print(f"\n{machine()}; {SIZE} bytes, medians of {ROUNDS} rounds, messages a second")
    print(f"{'':14}" + "".join(f"{name:>12}" for name in clients))
    for call in rounds["natsync"][0]:
        rates = [median(each.get(call, 0.0) for each in rounds[name]) for name in clients]
        print(f"{call:14}" + "".join(f"{value:12.0f}" for value in rates))
        assert rates[0] > 0
