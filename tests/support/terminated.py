"""A worker that is told to stop: `python -m tests.support.terminated URL BUSY STOPS`.

Its main thread does BUSY things all the time. At SIGTERM its signal handler publishes once more, and STOPS:
`drain` or `close`, after which the main thread's calls raise; or `exit`, which drains and exits. It prints
how many messages it published, and how long the handler took.
"""

from __future__ import annotations

import faulthandler
import json
import signal
import sys
from collections.abc import Callable
from time import monotonic

import natsync
from natsync import errors

TIMEOUT = 10.0


class Worker:
    """One worker's life."""

    def __init__(self, url: str, busy: str, stops: str) -> None:
        self.published = 0
        self.took = 0.0
        self.stopping = False
        self._stops = stops
        self._nc = natsync.connect(url, connect_timeout=TIMEOUT)
        self._nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        self._sub = self._nc.subscribe("work")
        self._calls: dict[str, Callable[[], object]] = {
            "iterate": lambda: next(iter(self._sub)),
            "next_msg": lambda: self._sub.next_msg(TIMEOUT),
            "request": lambda: self._nc.request("echo", timeout=TIMEOUT),
            "publish": self._publish,
            "flush": lambda: self._nc.flush(TIMEOUT),
        }
        self._call = self._calls[busy]

    def _publish(self) -> None:
        self._nc.publish("count", b"x")
        self.published += 1

    def stop(self, number: int, frame: object) -> None:
        """The signal handler."""
        begun = monotonic()
        self.stopping = True
        self._publish()
        if self._stops == "close":
            self._nc.close()
        else:
            self._nc.drain(8)
        self.took = monotonic() - begun
        if self._stops == "exit":
            sys.exit(0)

    def run(self) -> None:
        """Works until it is told to stop."""
        self._nc.flush(TIMEOUT)
        signal.signal(signal.SIGTERM, self.stop)
        print("ready", flush=True)
        try:
            while True:
                self._call()
        except (errors.Error, StopIteration):
            if not self.stopping:
                raise
        finally:
            print(json.dumps({"published": self.published, "took": self.took}), flush=True)
        self._nc.close()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(40, exit=True)
    Worker(*sys.argv[1:]).run()
