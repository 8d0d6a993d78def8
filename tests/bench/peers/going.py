"""goingnats: blocking, with a thread that reads; one request at a time.

It has no flush, in place of which a game that publishes ends with a request: up to a quarter of what it
published is still in buffers of the system when its calls have returned. It cannot unsubscribe, so each game
that receives has a connection of its own.
"""

from __future__ import annotations

import sys
import time

import player
from goingnats import Client
from player import PAUSE, SUBJECT, Clock, Counter, ready

nc = Client(name="bench", port=int(sys.argv[1]))
nc.__enter__()
while not nc.information:
    time.sleep(PAUSE)


def publish(size: int, count: int) -> Clock:
    data = b"x" * size
    subject = SUBJECT.encode()
    clock = Clock().start()
    for _ in range(count):
        nc.publish(subject=subject, payload=data)
    nc.request(subject=b"echo", payload=b"")
    return clock.stop()


def receive(size: int, count: int) -> Clock:
    counter = Counter(count, lambda: None)
    with Client(name="bench", port=int(sys.argv[1])) as own:
        own.subscribe(subject=SUBJECT.encode())
        while not own.information:
            time.sleep(PAUSE)
        time.sleep(0.05)  # it cannot tell when the server has heard
        ready()
        left = count
        while left > 0:
            for message in own.get(wait=1000):
                if message.payload:
                    counter.add()
                left -= 1
    return counter.clock


def request(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for _ in range(count):
        begun = time.perf_counter()
        nc.request(subject=b"echo", payload=data)
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


def delay(size: int, count: int) -> Clock:
    clock = Clock().start()
    for _ in range(count):
        nc.publish(subject=b"clock", payload=b"%d" % time.monotonic_ns())
        time.sleep(PAUSE)
    return clock.stop()


games = (publish, receive, request, delay)
player.play({game.__name__: game for game in games})
nc.__exit__(None, None, None)
