"""nats-python: blocking, one thread for one connection; 16 threads have 16 of them."""

from __future__ import annotations

import sys
import threading
import time
import warnings

warnings.simplefilter("ignore")  # of the old setuptools that it needs

import player  # noqa: E402  # after the line above, as are the rest
from player import PAUSE, SUBJECT, Clock, Counter, ready  # noqa: E402  # as above
from pynats import NATSClient  # noqa: E402  # as above
from pynats.client import PING_RE, PONG_RE  # noqa: E402  # as above


def connected() -> NATSClient:
    client = NATSClient(f"nats://127.0.0.1:{sys.argv[1]}")
    client.connect()
    return client


nc = connected()
others = [connected() for _ in range(16)]


def flush() -> None:
    """Its own `ping`, which fails where the server asks at the same time."""
    nc._send(b"PING")
    while nc._recv(PING_RE, PONG_RE)[0] is PING_RE:
        nc._send(b"PONG")


def publish(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        nc.publish(SUBJECT, payload=data)
    flush()
    return clock.stop()


def receive(size: int, count: int) -> Clock:
    counter = Counter(count, lambda: None)
    sub = nc.subscribe(SUBJECT, callback=lambda msg: counter.add() if msg.payload else None)
    flush()
    ready()
    nc.wait(count=count)
    nc.unsubscribe(sub)
    return counter.clock


def request(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        begun = time.perf_counter()
        nc.request("echo", payload=data)
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


def threads(size: int, count: int) -> Clock:
    data = b"x" * size

    def ask(client: NATSClient) -> None:
        for _ in range(count // 16):
            client.request("echo", payload=data)

    callers = [threading.Thread(target=ask, args=(client,)) for client in others]
    clock = Clock().start()
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    return clock.stop()


def delay(size: int, count: int) -> Clock:
    clock = Clock().start()
    for _ in range(count):
        nc.publish("clock", payload=b"%d" % time.monotonic_ns())
        time.sleep(PAUSE)
    return clock.stop()


games = (publish, receive, request, threads, delay)
player.play({game.__name__: game for game in games})
