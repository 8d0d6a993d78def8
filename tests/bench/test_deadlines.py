"""A request beside thousands of futures that wait, each with a timeout of its own."""

from __future__ import annotations

from contextlib import suppress
from statistics import median
from time import process_time

import pytest

import natsync

from tests.bench.rounds import machine
from tests.support.servers import NatsServer

pytestmark = [pytest.mark.bench, pytest.mark.server, pytest.mark.timeout(300)]

FUTURES = 16_000
REQUESTS = 1_000
ROUNDS = 7
WANTED = 1.2


def cpu(nc: natsync.Client) -> float:
    """The CPU seconds of some requests, which the server answers itself: nobody listens."""
    begun = process_time()
    for _ in range(REQUESTS):
        with suppress(natsync.errors.NoRespondersError):
            nc.request("nobody", b"x", timeout=30.0)
    return process_time() - begun


def test_a_request_beside_many_futures(server: NatsServer) -> None:
    with (
        natsync.connect(server.url) as other,
        natsync.connect(server.url) as idle,
        natsync.connect(server.url) as busy,
    ):
        other.subscribe("silence")
        other.flush()
        futures = [
            busy.request_async("silence", timeout=200.0 + (number * 7919 % FUTURES) / FUTURES)
            for number in range(FUTURES)
        ]
        cpu(idle), cpu(busy)
        rounds = [(cpu(idle), cpu(busy)) for _ in range(ROUNDS)]
        ratio = median(beside / alone for alone, beside in rounds)
        print(f"\n\na request beside {FUTURES:,} futures: x {ratio:.2f} of one alone, {machine()}")
        for future in futures:
            future.cancel()
    assert ratio <= WANTED
