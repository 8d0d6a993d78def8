"""What every peer's script does: takes orders as JSON lines, plays, and says what it took.

A game is called with `size` and `count`. It measures with a `Clock`, so that what comes before and after is
not counted, and returns it. A game that receives calls `ready` once it is subscribed: then it is fed.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from typing import Any

SUBJECT = "bench.of.clients"
VARIED = "bench.varied"
TIMEOUT = 60.0
PAUSE = 0.001


class Clock:
    """Wall and CPU time between `start` and `stop`; the CPU time is that of all threads. `delays` are
    seconds that single things took."""

    def __init__(self) -> None:
        self.delays: list[float] = []

    def start(self) -> Clock:
        self._cpu = time.process_time()
        self._wall = time.perf_counter()
        return self

    def first(self) -> None:
        """The first thing has come: the wall time begins here, the CPU time has begun before."""
        self._wall = time.perf_counter()

    def stop(self) -> Clock:
        self.wall = time.perf_counter() - self._wall
        self.cpu = time.process_time() - self._cpu
        return self


class Counter:
    """For a game that receives in a callback: `add` for each message; `done` is called at the last."""

    def __init__(self, count: int, done: Callable[[], object]) -> None:
        self.clock = Clock().start()
        self._left = count
        self._count = count
        self._done = done

    def add(self) -> None:
        if self._left == self._count:
            self.clock.first()
        self._left -= 1
        if not self._left:
            self.clock.stop()
            self._done()


def varied(count: int) -> list[tuple[str, bytes]]:
    """Subjects and payloads that do not repeat, as in real traffic: 20,000 subjects, 0 to 400 B."""
    rng = random.Random(1)
    numbers = rng.choices(range(20_000), k=count)
    return [(f"{VARIED}.{number}", b"x" * rng.randrange(401)) for number in numbers]


def sized(count: int) -> list[tuple[str, bytes]]:
    """One subject, payloads of 0 to 6,000 B."""
    rng = random.Random(1)
    return [(SUBJECT, b"x" * rng.randrange(6001)) for _ in range(count)]


def replies(count: int) -> list[str]:
    """A reply subject for each message."""
    return [f"_INBOX.Qy2bTxJ8cLkqE0pW.{number}" for number in range(count)]


def headers(count: int) -> list[dict[str, str]]:
    """Two headers for each message, whose values are new."""
    return [{"Nats-Msg-Id": f"order-{n}", "Trace-Id": f"{n * 7919:032x}"} for n in range(count)]


def ready() -> None:
    """Says that this peer listens."""
    print(json.dumps({"ready": True}), flush=True)


def play(games: dict[str, Callable[[int, int], Clock]]) -> None:
    """Plays what it is told to, until there are no more orders."""
    print(json.dumps({"games": list(games), "python": sys.version.split()[0]}), flush=True)
    for line in sys.stdin:
        order: dict[str, Any] = json.loads(line)
        clock = games[order["game"]](order["size"], order["count"])
        report = {"wall": clock.wall, "cpu": clock.cpu, "delays": clock.delays}
        print(json.dumps(report), flush=True)
