"""nats-py on a loop in a thread of its own, as threaded programs use it: every call is handed over."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import deque
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any

import nats
import player
from player import PAUSE, SUBJECT, TIMEOUT, Clock, Counter, ready

loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()


def later(coroutine: Coroutine[Any, Any, Any]) -> Future[Any]:
    return asyncio.run_coroutine_threadsafe(coroutine, loop)


def now(coroutine: Coroutine[Any, Any, Any]) -> Any:
    return later(coroutine).result(TIMEOUT)


nc = now(nats.connect(f"nats://127.0.0.1:{sys.argv[1]}"))


def publish(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        now(nc.publish(SUBJECT, data))
    now(nc.flush(int(TIMEOUT)))
    return clock.stop()


def receive(size: int, count: int) -> Clock:
    done = threading.Event()
    counter = Counter(count, done.set)

    async def handle(msg: Any) -> None:
        if msg.data:
            counter.add()

    sub = now(nc.subscribe(SUBJECT, cb=handle))
    now(nc.flush())
    ready()
    done.wait(TIMEOUT)
    now(sub.unsubscribe())
    return counter.clock


def ask(data: bytes) -> Coroutine[Any, Any, Any]:
    return nc.request("echo", data, timeout=TIMEOUT)


def request(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        begun = time.perf_counter()
        now(ask(data))
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


def threads(size: int, count: int) -> Clock:
    data = b"x" * size

    def body() -> None:
        for _ in range(count // 16):
            now(ask(data))

    callers = [threading.Thread(target=body) for _ in range(16)]
    clock = Clock().start()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return clock.stop()


def flight(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    flying = deque(later(ask(data)) for _ in range(16))
    for _ in range(count - 16):
        flying.popleft().result(TIMEOUT)
        flying.append(later(ask(data)))
    for future in flying:
        future.result(TIMEOUT)
    return clock.stop()


def delay(size: int, count: int) -> Clock:
    clock = Clock().start()
    for _ in range(count):
        now(nc.publish("clock", b"%d" % time.monotonic_ns()))
        time.sleep(PAUSE)
    return clock.stop()


games = (publish, receive, request, threads, flight, delay)
player.play({game.__name__: game for game in games})
