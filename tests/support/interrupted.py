"""Calls that are interrupted: `python -m tests.support.interrupted URL CALL RAISES SECONDS [shared]`.

A timer's signal handler raises an exception in the middle of one call after the other, as Ctrl-C does,
and as programs do to limit the time of a task. Then everything must still work, or have been reported.
`shared`: other threads and a handler use the connection meanwhile; else the main thread alone moves its
bytes.

Prints one line of JSON: how often what happened. Exit status 1, and a traceback of all threads, where a call
does not end.
"""

from __future__ import annotations

import collections
import faulthandler
import json
import random
import signal
import sys
import threading
from collections.abc import Callable
from time import monotonic

import natsync
from natsync import errors

TIMEOUT = 5.0
ENOUGH = 25  # interrupts, however slow the machine is


class SoftTimeLimit(Exception):
    """What task queues raise."""


class Alarm(TimeoutError):
    """What programs raise at SIGALRM."""


RAISES: dict[str, type[BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "exception": SoftTimeLimit,
    "timeout": Alarm,
}


class Interrupted:
    """One program's life."""

    def __init__(self, url: str, raises: type[BaseException]) -> None:
        self.url = url
        self.counts: collections.Counter[str] = collections.Counter()
        self.worst = 0.0
        self._raises = raises
        self._armed = False
        self._number = 0
        self._dice = random.Random(1)
        signal.signal(signal.SIGALRM, self._alarm)
        self.other = natsync.connect(url)
        self.other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        self.other.flush()
        self.nc = natsync.connect(url, reconnect_wait=0.01, reconnect_max_wait=0.05)
        self._sub = self.nc.subscribe("self")
        self._future()  # which imports modules: that takes longer than any interrupt waits
        self._closed = natsync.connect(url)
        self._closed.close(TIMEOUT)
        self.calls: dict[str, Callable[[], object]] = {
            "request": self._request,
            "future": self._future,
            "flush": lambda: self.nc.flush(TIMEOUT),
            "next_msg": lambda: self._sub.next_msg(0.002),
            "publish": lambda: self.nc.publish("nobody", bytes(1000)),
            "subscribe": self._subscribe,
            "close": lambda: self._leave(lambda nc: nc.close(TIMEOUT)),
            "drain": lambda: self._leave(lambda nc: nc.drain(TIMEOUT)),
            "first request": lambda: self._leave(lambda nc: self._ask_first(nc)),
            "refused drain": lambda: self._refused(lambda nc: nc.drain(TIMEOUT)),
            "refused request": lambda: self._refused(
                lambda nc: nc.request("echo", timeout=TIMEOUT)
            ),
        }

    def work(self, call: Callable[[], object], seconds: float) -> None:
        """Calls, and interrupts, for so long, and until there were enough interrupts."""
        until = monotonic() + seconds
        while monotonic() < until or self.counts["raised"] < ENOUGH:
            begun = monotonic()
            try:
                self._tried(call)
                self.counts["done"] += 1
            except self._raises:
                self.counts["raised"] += 1
            except (errors.ConnectionReconnectingError, errors.OutboundBufferLimitError):
                self.counts["reconnecting"] += 1
                self.nc.wait_connected(TIMEOUT)
            except errors.NextMsgTimeoutError:
                self.counts["no message"] += 1
            self.worst = max(self.worst, monotonic() - begun)

    def finish(self) -> None:
        """All is well, or was reported."""
        try:
            self.nc.flush(TIMEOUT)
        except errors.ConnectionReconnectingError:  # the last one may be noticed only now
            assert self.nc.wait_connected(TIMEOUT)
        assert self.nc.request("echo", b"end", timeout=TIMEOUT).data == b"end"
        stats = self._sub.stats
        assert stats.received == stats.delivered + stats.dropped + stats.pending_msgs
        self.counts["reconnects"] = self.nc.stats.reconnects
        for nc in (self._closed, self.nc, self.other):
            nc.close(TIMEOUT)

    def beside(self, stop: threading.Event) -> None:
        """What another thread does on the same connection meanwhile."""
        number = 0
        while not stop.is_set():
            data = b"beside %d" % number
            number += 1
            try:
                assert self.nc.request("echo", data, timeout=TIMEOUT).data == data
            except errors.ConnectionReconnectingError:
                self.nc.wait_connected(TIMEOUT)
        self.counts["beside"] = number

    def _tried(self, call: Callable[[], object]) -> None:
        try:
            self._arm()
            call()
        finally:
            self._armed = False

    def _arm(self) -> None:
        self._armed = True
        longest = self._dice.choice((1e-4, 3e-4, 1e-3))
        signal.setitimer(signal.ITIMER_REAL, self._dice.uniform(1e-6, longest))

    def _alarm(self, *_: object) -> None:
        if self._armed:
            self._armed = False
            raise self._raises

    def _request(self) -> None:
        self._number += 1
        data = b"%d" % self._number
        assert self.nc.request("echo", data, timeout=TIMEOUT).data == data

    def _future(self) -> None:
        self._number += 1
        data = b"%d" % self._number
        assert self.nc.request_async("echo", data, timeout=TIMEOUT).result(TIMEOUT).data == data

    def _subscribe(self) -> None:
        # Without a handler: `Thread.start` of the standard library does not stand interrupts.
        self._number += 1
        with self.nc.subscribe(
            f"other.{self._number}"
        ):  # one that was interrupted may stay for a while
            self.nc.publish("other")

    def _ask_first(self, nc: natsync.Client) -> None:
        """Which subscribes to the inbox."""
        assert nc.request("echo", b"first", timeout=TIMEOUT).data == b"first"

    def _refused(self, call: Callable[[natsync.Client], object]) -> None:
        """By a client that is closed: every lock of it must still be free."""
        try:
            call(self._closed)
        except errors.ConnectionClosedError:
            self.counts["refused"] += 1

    def _leave(self, end: Callable[[natsync.Client], None]) -> None:
        self._armed = False
        nc = natsync.connect(self.url)
        nc.subscribe("other", handler=lambda msg: None)
        nc.publish("other")
        try:
            self._tried(lambda: end(nc))
        finally:
            nc.close(TIMEOUT)


def main(url: str, call: str, raises: str, seconds: str, *shared: str) -> None:
    """Runs it, and prints what happened."""
    faulthandler.dump_traceback_later(float(seconds) + 4 * TIMEOUT, exit=True)
    program = Interrupted(url, RAISES[raises])
    stop, threads = threading.Event(), []
    if shared:
        program.nc.subscribe("echo.own", handler=lambda msg: None)
        threads = [threading.Thread(target=program.beside, args=(stop,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    program.work(program.calls[call], float(seconds))
    stop.set()
    for thread in threads:
        thread.join()
    program.finish()
    left = [thread.name for thread in threading.enumerate()]
    assert left == ["MainThread"], left
    print(json.dumps({**program.counts, "worst": program.worst}))


if __name__ == "__main__":
    main(*sys.argv[1:])
