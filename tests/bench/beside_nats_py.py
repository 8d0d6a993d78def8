"""The same work with natsync and with nats-py 2.16, in one run and in alternating rounds."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, process_time
from typing import Any

import pytest

import natsync
from natsync.jetstream import JetStream

from tests.bench.rounds import Taken, medians
from tests.support.servers import NatsServer

nats = pytest.importorskip("nats")

__all__ = ["Ours", "Theirs", "beside"]

ROUNDS = 5
TIMEOUT = 30.0
WINDOW = 4000
Ours = Callable[[JetStream], int]
Theirs = Callable[[Any], Awaitable[int]]
"""Work with a JetStream context; returns for how many messages, keys or the like."""


def beside(
    server: NatsServer, ours: Ours, theirs: Theirs, wanted: float | None, rounds: int = ROUNDS
) -> None:
    """Prints the medians of both; fails below the `wanted` ratio.

    Wall time says nothing while others use the machine; CPU time says enough then.
    """
    loop = asyncio.new_event_loop()
    other = loop.run_until_complete(nats.connect(server.url))
    with natsync.connect(server.url) as nc:
        js = nc.jetstream(timeout=TIMEOUT, publish_window=WINDOW)
        theirs_js = other.jetstream(timeout=TIMEOUT, publish_async_max_pending=WINDOW)
        runs = [
            (
                taken(lambda: ours(js)),
                taken(lambda: loop.run_until_complete(theirs(theirs_js))),
            )
            for _ in range(rounds)
        ]
    loop.run_until_complete(other.close())
    loop.close()
    mine, its, wall, cpu = medians(runs)
    print(
        f"\n{ours.__name__}: {mine.wall:.1f} us, CPU {mine.cpu:.1f}; {theirs.__name__}: "
        f"{its.wall:.1f} us, CPU {its.cpu:.1f}: x {wall:.2f}, CPU x {cpu:.2f}"
    )
    assert wanted is None or max(wall, cpu) >= wanted


def taken(action: Callable[[], int]) -> Taken:
    """The time for each of those that `action` counts."""
    wall, cpu = monotonic(), process_time()
    count = action()
    return Taken((monotonic() - wall) / count * 1e6, (process_time() - cpu) / count * 1e6)
