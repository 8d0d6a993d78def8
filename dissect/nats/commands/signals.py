"""Ctrl-C while packets arrive on standard input: the end of the input, so that what is open is told."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted:
    """Whether it happened."""

    def __init__(self) -> None:
        self.yes = False


@contextmanager
def ends_input(live: bool) -> Iterator[Interrupted]:
    """While `live`, the first SIGINT ends standard input, behind what is already there to be read; the
    next one interrupts as ever."""
    interrupted = Interrupted()

    def end(number: int, frame: object) -> None:
        interrupted.yes = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        # A read that waits is repeated after this handler, and now finds an end instead of waiting.
        os.set_blocking(sys.stdin.fileno(), False)

    ours = live and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ours:
        signal.signal(signal.SIGINT, end)
    try:
        yield interrupted
    finally:
        if ours:
            signal.signal(signal.SIGINT, signal.default_int_handler)
