"""The least that does the job: a blocking socket, no checks, no threads, nothing made again. What it takes
is what the machine, the server and who answers take; no client can be faster."""

from __future__ import annotations

import os
import sys
import time

import player
from player import SUBJECT, Clock
from raw import Raw

AT_ONCE = 256 << 10
INBOX = b"_INBOX.probe%d" % os.getpid()

raw = Raw(int(sys.argv[1]))
raw.send(b"SUB %b.* 1\r\n" % INBOX)
raw.ping()


def publish(size: int, count: int) -> Clock:
    data = b"x" * size
    head = b"PUB %b %d\r\n" % (SUBJECT.encode(), size)
    clock = Clock().start()
    parts: list[bytes] = []
    gathered = 0
    for _ in range(count):
        parts += head, data, b"\r\n"
        gathered += size
        if gathered >= AT_ONCE:
            raw.send(b"".join(parts))
            parts.clear()
            gathered = 0
    raw.send(b"".join(parts))
    raw.ping()
    return clock.stop()


def ask(number: int, data: bytes) -> bytes:
    return b"PUB echo %b.%d %d\r\n%b\r\n" % (INBOX, number, len(data), data)


def request(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    for number in range(count):
        begun = time.perf_counter()
        raw.send(ask(number, data))
        while not raw.receive():
            pass
        clock.delays.append(time.perf_counter() - begun)
    return clock.stop()


def flight(size: int, count: int) -> Clock:
    data = b"x" * size
    clock = Clock().start()
    raw.send(b"".join(ask(number, data) for number in range(16)))
    asked, answered = 16, 0
    while answered < count:
        came = len(raw.receive())
        answered += came
        more = min(came, count - asked)
        raw.send(b"".join(ask(number, data) for number in range(asked, asked + more)))
        asked += more
    return clock.stop()


player.play({"publish": publish, "request": request, "flight": flight})
