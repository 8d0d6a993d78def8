"""natsync, as a threaded program uses it."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque

import player
from player import PAUSE, SUBJECT, TIMEOUT, Clock, Counter, ready

import natsync

nc = natsync.connect(f"nats://127.0.0.1:{sys.argv[1]}")


def publish(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        nc.publish(SUBJECT, data)
    nc.flush(TIMEOUT)
    return clock.stop()


def receive(size: int, count: int) -> Clock:
    done = threading.Event()
    counter = Counter(count, done.set)
    with nc.subscribe(SUBJECT, handler=lambda msg: counter.add() if msg.data else None):
        nc.flush()
        ready()
        done.wait(TIMEOUT)
    return counter.clock


def next_msg(size: int, count: int) -> Clock:
    clock = Clock()
    with nc.subscribe(SUBJECT) as sub:
        nc.flush()
        ready()
        clock.start()
        sub.next_msg(TIMEOUT)
        clock.first()
        for _ in range(count - 1):
            sub.next_msg(TIMEOUT)
        return clock.stop()


def request(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        begun = time.perf_counter()
        nc.request("echo", data, timeout=TIMEOUT)
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


def threads(size: int, count: int) -> Clock:
    data = b"x" * size

    def ask() -> None:
        for _ in range(count // 16):
            nc.request("echo", data, timeout=TIMEOUT)

    callers = [threading.Thread(target=ask) for _ in range(16)]
    clock = Clock().start()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return clock.stop()


def flight(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    flying = deque(nc.request_async("echo", data, timeout=TIMEOUT) for _ in range(16))
    for _ in range(count - 16):
        flying.popleft().result()
        flying.append(nc.request_async("echo", data, timeout=TIMEOUT))
    for future in flying:
        future.result()
    return clock.stop()


def delay(size: int, count: int) -> Clock:
    clock = Clock().start()
    for _ in range(count):
        nc.publish("clock", b"%d" % time.monotonic_ns())
        time.sleep(PAUSE)
    return clock.stop()


player.play(
    {
        "publish": publish,
        "receive": receive,
        "next_msg": next_msg,
        "request": request,
        "threads": threads,
        "flight": flight,
        "delay": delay,
    }
)
