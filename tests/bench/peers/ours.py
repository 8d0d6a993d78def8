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


def publish_varied(size: int, count: int) -> Clock:
    return publish_all(player.varied(count))


def publish_sized(size: int, count: int) -> Clock:
    return publish_all(player.sized(count))


def publish_all(messages: list[tuple[str, bytes]]) -> Clock:
    clock = Clock().start()
    for subject, data in messages:
        nc.publish(subject, data)
    nc.flush(TIMEOUT)
    return clock.stop()


def publish_reply(size: int, count: int) -> Clock:
    messages, replies = player.varied(count), player.replies(count)
    clock = Clock().start()
    for (subject, data), reply in zip(messages, replies):
        nc.publish(subject, data, reply=reply)
    nc.flush(TIMEOUT)
    return clock.stop()


def publish_headers(size: int, count: int) -> Clock:
    messages, headers = player.varied(count), player.headers(count)
    clock = Clock().start()
    for (subject, data), fields in zip(messages, headers):
        nc.publish(subject, data, headers=fields)
    nc.flush(TIMEOUT)
    return clock.stop()


def receive_varied(size: int, count: int) -> Clock:
    return receive(size, count, f"{player.VARIED}.>")


def receive(size: int, count: int, subject: str = SUBJECT) -> Clock:
    done = threading.Event()
    counter = Counter(count, done.set)
    with nc.subscribe(subject, handler=lambda msg: counter.add() if msg.data else None):
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


varied = (publish_varied, publish_sized, publish_reply, publish_headers, receive_varied)
games = (publish, receive, next_msg, request, threads, flight, delay, *varied)
player.play({game.__name__: game for game in games})
