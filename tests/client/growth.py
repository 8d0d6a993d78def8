"""Whether a client's process grows: `python -m tests.client.growth [SECONDS] [--seed S]`.

One client does what programs do, all at once: it publishes to many subjects, with and without headers, in all
sizes; requests, one at a time and sixteen in flight; takes messages by handler, by iteration and by short
subscriptions; and connects anew every few seconds. Server and responder are processes of their own, so
that this process has nothing but the client, its threads and its callers. Subscriptions hold little, and
drop the rest, so that a machine that stalls does not make this process pile up messages. Nothing here calls
the garbage collector or trims the allocator: what is printed is what an operator sees of the process.
MALLOC_ARENA_MAX=1 in the environment leaves out what glibc keeps for each thread, which takes half an hour to
reach its size (docs/natsync.md).

A run of twenty minutes or more ends with status 1 if the resident memory grows by more than half a megabyte
an hour after the first ten. A shorter one says how much it grew after a third of its time.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import linear_regression
from time import monotonic

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.memory import resident
from tests.support.servers import NatsServer

ECHO = Path(__file__).parent.parent / "bench" / "peers" / "echo.py"
SIZES = (0, 10, 10, 100, 100, 1000, 20_000)
SUBJECTS = 20_000
RECONNECT_EVERY = 5.0
LOOK_EVERY = 10.0
WARM_UP = 600.0
REST = 0.01  # of each thread after each step: together they take a quarter of a processor
IN_FLIGHT = 16
PENDING = 256 << 10
TIMEOUT = 5.0
LOST = (errors.ConnectionReconnectingError, errors.RequestTimeoutError, errors.NextMsgTimeoutError)
MOST_GROWTH = 0.5  # megabytes an hour


class Load:
    """The threads that use the client, until `stop`, which raises what one of them did not expect."""

    def __init__(self, nc: natsync.Client, rng: random.Random) -> None:
        self.nc = nc
        self.count: Counter[str] = Counter()
        self._stop = threading.Event()
        self._pool = ThreadPoolExecutor(4)
        handle = partial(self._note, "handled")
        nc.subscribe("load.handler.>", handler=handle, workers=2, pending_bytes_limit=PENDING)
        self._iterated = nc.subscribe("load.iterated.>", pending_bytes_limit=PENDING)
        steps: tuple[Callable[[], None], ...] = (
            *[partial(self._publish, random.Random(rng.random())) for _ in range(3)],
            self._request,
            self._request,
            self._request_many,
            self._subscribe_shortly,
            self._submit,
            self._iterate,
        )
        self._threads = [Background(partial(self._work, step)) for step in steps]

    def stop(self) -> None:
        """Ends the threads."""
        self._stop.set()
        for thread in self._threads:
            thread.result()
        self._pool.shutdown()

    def check(self) -> None:
        """Raises what a thread ended with, too early."""
        for thread in self._threads:
            if thread.done:
                thread.result()

    def _note(self, what: str, msg: object) -> None:
        self.count[what] += 1

    def _work(self, step: Callable[[], None]) -> None:
        while not self._stop.wait(REST):
            try:
                step()
            except LOST as error:
                self.count[type(error).__name__] += 1

    def _publish(self, rng: random.Random) -> None:
        for _ in range(10):
            kind = rng.choice(("handler", "iterated"))
            subject = f"load.{kind}.{rng.randrange(SUBJECTS)}"
            headers = {"Id": str(rng.random())} if rng.random() < 0.5 else None
            self.nc.publish(subject, bytes(rng.choice(SIZES)), headers=headers)
            self.count["published"] += 1

    def _request(self) -> None:
        data = os.urandom(random.choice(SIZES))
        assert self.nc.request("echo", data, timeout=TIMEOUT).data == data
        self.count["replies"] += 1

    def _request_many(self) -> None:
        asked = [
            self.nc.request_async("echo", b"%d" % number, timeout=TIMEOUT + number)
            for number in range(IN_FLIGHT)
        ]
        for future in asked:
            future.result()
            self.count["replies"] += 1

    def _subscribe_shortly(self) -> None:
        with self.nc.subscribe("load.short") as sub:
            self.nc.publish("load.short", b"x")
            assert sub.next_msg(TIMEOUT) is not None
            self.count["short subscriptions"] += 1

    def _submit(self) -> None:
        self._pool.submit(self._request).result()

    def _iterate(self) -> None:
        for msg in self._iterated.messages(timeout=0):
            self._note("iterated", msg)


@contextmanager
def echo(server: NatsServer) -> Iterator[None]:
    """A responder, in a process of its own."""
    command = [sys.executable, str(ECHO), str(server.port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout and process.stdout.readline() == b"ready\n"
            yield
        finally:
            process.kill()


def growth(seen: list[tuple[float, float, int]], seconds: float) -> tuple[float, str]:
    """The growth in megabytes an hour, and a report."""
    warm = [each for each in seen if each[0] >= min(WARM_UP, seconds / 3)]
    if len(warm) < 2:
        return 0.0, "RSS: too short a run"
    times, sizes, blocks = zip(*warm)
    slope, more = (3600 * linear_regression(times, each).slope for each in (sizes, blocks))
    report = (
        f"RSS {seen[0][1]:.1f} MB at first, {sizes[0]:.1f} MB after {times[0]:.0f} s,"
        f" {sizes[-1]:.1f} MB at the end: {slope:+.2f} MB/h\n"
        f"memory blocks {blocks[0]:,}, at the end {blocks[-1]:,}: {more:+,.0f}/h"
    )
    return slope, report


def run(seconds: float, seed: int) -> int:
    """Loads a client for so long; prints what happened, and returns the status."""
    logging.getLogger("natsync").setLevel(logging.CRITICAL)  # slow consumers are part of it
    seen: list[tuple[float, float, int]] = []
    begun = monotonic()
    with NatsServer() as server, echo(server), natsync.connect(server.url) as nc:
        load, looked, never = Load(nc, random.Random(seed)), 0.0, threading.Event()
        while (now := monotonic() - begun) < seconds:
            never.wait(min(RECONNECT_EVERY, seconds - now))
            load.check()
            nc.reconnect()
            load.count["reconnects"] += 1
            if now - looked >= LOOK_EVERY:
                looked = now
                seen.append((now, resident(), sys.getallocatedblocks()))
                print(f"{now:6.0f} s {seen[-1][1]:8.2f} MB {seen[-1][2]:9,} blocks", flush=True)
        nc.wait_connected(TIMEOUT)
        load.stop()
    for what, times in sorted(load.count.items()):
        print(f"{times:12,} {what}")
    slope, report = growth(seen, seconds)
    print(report)
    return int(slope > MOST_GROWTH and seconds >= 2 * WARM_UP)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.client.growth", description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=3600.0)
    parser.add_argument(
        "--seed", type=int, default=None, help="the random numbers of an earlier run"
    )
    parsed = parser.parse_args(arguments)
    seed = random.randrange(2**32) if parsed.seed is None else parsed.seed
    print(f"seed {seed}", flush=True)
    return run(parsed.seconds, seed)


if __name__ == "__main__":
    sys.exit(main())
