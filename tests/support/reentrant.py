"""Calls made while a call is under way: `python -m tests.support.reentrant URL OUTER INNER TIMES HOW`.

The main thread makes OUTER calls all the time. At random instants, in the middle of them, the same thread
makes an INNER call: from a signal handler (HOW `signal`), or from `__del__`, called by a garbage collector
that runs as often as it can (`finalizer`; then on any thread). Each inner call must work, or raise
ReentrantCallError; then everything published must have arrived.

Prints one line of JSON: how often what happened. Exit status 1, and a traceback of all threads, where a call
does not end.
"""

from __future__ import annotations

import collections
import faulthandler
import gc
import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic

import natsync
from natsync import errors

TIMEOUT = 10.0


class Cycle:
    """Garbage that only the collector finds, and that calls when it does."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.call = call
        self.me = self

    def __del__(self) -> None:
        self.call()


class Program:
    """One program's life."""

    def __init__(self, url: str) -> None:
        self.counts: collections.Counter[str] = collections.Counter()
        self.worst = 0.0
        self._dice = random.Random(1)
        self._arrived = 0
        self._published: list[None] = []
        self._over = threading.Event()
        self.other = natsync.connect(url, name="other")
        self.other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        self.other.subscribe("count", handler=self._count)
        self.other.flush()
        self.nc = natsync.connect(url)
        self.sub = self.nc.subscribe("self")
        self.stream = iter(self.sub)
        self.quiet = self.nc.subscribe("quiet")
        self.full = self.nc.subscribe("count", pending_msgs_limit=5, overflow="drop_old")
        self.nc.request("echo", timeout=TIMEOUT)
        self.calls: dict[str, Callable[[], object]] = {
            "publish": lambda: self._publish(100),
            "next_msg": self._next_msg,
            "iteration": self._iterate,
            "request": lambda: self.nc.request("echo", b"x", timeout=TIMEOUT),
            "future": lambda: self.nc.request_async("echo", timeout=TIMEOUT).result(TIMEOUT),
            "flush": lambda: self.nc.flush(TIMEOUT),
            "stats": lambda: (self.sub.stats, self.full.delivered, self.nc.stats),
            "subscribe": lambda: self.nc.subscribe("count").unsubscribe(),
            "taken": lambda: next(self.full.messages(0), None),
        }

    def _count(self, msg: natsync.Msg) -> None:
        if msg.data == b"end":
            self._over.set()
        else:
            self._arrived += 1

    def _next_msg(self) -> None:
        self.nc.publish("self")
        self.sub.next_msg(TIMEOUT)

    def _iterate(self) -> None:
        self.nc.publish("self")
        next(self.stream)

    def _publish(self, many: int) -> None:
        for _ in range(many):
            self.nc.publish("count", b"x")
            self._published.append(None)  # at once: `+= 1` would lose what comes in the middle

    def inner(self, name: str) -> None:
        """One inner call."""
        begun = monotonic()
        try:
            if name == "publish":
                self._publish(1)
            else:
                self.calls[name]()
            self.counts["inner"] += 1
        except errors.ReentrantCallError:
            self.counts["refused"] += 1
        except Exception as error:
            self.counts[repr(error)[:80]] += 1
        self.worst = max(self.worst, monotonic() - begun)

    def interrupted(self, outer: str, inner: str, times: int) -> None:
        """Makes inner calls in a signal handler."""

        def handler(number: int, frame: object) -> None:
            self.inner(inner)
            if self.counts["inner"] + self.counts["refused"] < times:
                signal.setitimer(signal.ITIMER_REAL, self._dice.random() * 0.0008 + 0.00002)

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while self.counts["inner"] + self.counts["refused"] < times:
            self.calls[outer]()
            self.counts["outer"] += 1

    def collected(self, outer: str, inner: str, times: int) -> None:
        """Makes inner calls while garbage is collected."""
        threshold = gc.get_threshold()
        busy = threading.local()

        def call() -> None:
            # The threads of the client that answers cannot wait for an answer.
            answers = threading.current_thread().name.startswith("natsync-other")
            if not (answers or getattr(busy, "calling", False)):
                busy.calling = True
                self.inner(inner)
                busy.calling = False

        gc.set_threshold(1)
        while self.counts["inner"] + self.counts["refused"] < times:
            Cycle(call)
            self.calls[outer]()
            self.counts["outer"] += 1
        gc.set_threshold(*threshold)
        gc.collect()

    def finish(self) -> None:
        """Everything arrived, and everything still works."""
        assert self.nc.request("echo", b"end", timeout=TIMEOUT).data == b"end"
        self.nc.publish("count", b"end")
        self.nc.flush(TIMEOUT)
        assert self._over.wait(TIMEOUT)
        self.counts["arrived"] = self._arrived
        self.counts["published"] += len(self._published)
        self.counts["reconnects"] = self.nc.stats.reconnects
        for sub in (self.sub, self.full, self.quiet):
            stats = sub.stats
            assert stats.received == stats.delivered + stats.dropped + stats.pending_msgs, stats
        self.nc.close()
        self.other.close()


def main(url: str, outer: str, inner: str, times: str, how: str) -> None:
    """Runs it, and prints what happened."""
    faulthandler.dump_traceback_later(50, exit=True)
    sys.setswitchinterval(0.0005)
    program = Program(url)
    if how == "signal":
        program.interrupted(outer, inner, int(times))
    else:
        program.collected(outer, inner, int(times))
    program.finish()
    with suppress(BrokenPipeError):
        print(json.dumps({**program.counts, "worst": round(program.worst, 3)}))


if __name__ == "__main__":
    main(*sys.argv[1:])
