"""Makes Ctrl-C end standard input while packets arrive, so that open sessions are printed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted:
    """Whether there was an interrupt."""

    def __init__(self) -> None:
        self.yes = False


@contextmanager
def ends_input(live: bool) -> Iterator[Interrupted]:
    """While `live`, the first SIGINT ends standard input after the bytes that are already there; the
    next one interrupts as usual."""
    interrupted = Interrupted()

    def end(number: int, frame: object) -> None:
        interrupted.yes = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # Python retries the interrupted read after this handler; as it no longer blocks, it finds the end.
        os.set_blocking(sys.stdin.fileno(), False)

    ours = live and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, end)
    try:
        yield interrupted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
