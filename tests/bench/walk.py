"""The walk of a call through the client: `python -m tests.bench.walk [URL]`.

Counts, with `sys.setprofile` on the calling thread, the source files that one call enters (rooms), and how
often control passes from one of them to another, by a call or a return (moves). The I/O thread's part is not
in it: a request is counted where the calling thread reads its own reply. The smallest of many calls counts,
since what else happens on a connection comes on top.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import FrameType

import natsync

from tests.support.servers import NatsServer

CALLS = 300
WARM = 1500  # until the decoder knows that no control line comes again
ROOT = os.path.dirname(natsync.__file__)


def walk(call: Callable[[], object]) -> list[str]:
    """The files that `call` is in, one after the other."""
    steps: list[str] = []

    def step(frame: FrameType, event: str, _: object) -> None:
        if event in ("call", "return"):
            entered: FrameType | None = frame if event == "call" else frame.f_back
            file = entered.f_code.co_filename if entered else ""
            if file.startswith(ROOT) and (not steps or steps[-1] != file):
                steps.append(file)

    sys.setprofile(step)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [os.path.relpath(file, ROOT) for file in steps]


def shortest(call: Callable[[], object], reads: bool) -> list[str]:
    """The shortest walk of many calls; one that `reads` ends with what the network brings."""
    walks = [walk(call) for _ in range(CALLS)]
    read = [steps for steps in walks if any("decoder" in step for step in steps)]
    return min(read if reads and read else walks, key=len)


def main(url: str) -> None:
    """Prints the walks of a publish on an idle connection, and of a request."""
    with natsync.connect(url) as other, natsync.connect(url) as nc:
        other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        other.flush()
        for _ in range(WARM):
            nc.request("echo", timeout=5.0)
        calls: dict[str, Callable[[], object]] = {
            "publish": lambda: nc.publish("nobody", b"x"),
            "request": lambda: nc.request("echo", b"x", timeout=5.0),
        }
        for name, call in calls.items():
            steps = shortest(call, name == "request")
            print(f"{name}: {len(set(steps))} rooms, {len(steps) - 1} moves")
            print("  " + " > ".join(step.removesuffix(".py") for step in steps))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with NatsServer() as server:
            main(server.url)
