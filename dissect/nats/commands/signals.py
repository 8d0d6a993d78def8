"""Makes Ctrl-C end standard input while packets arrive, so that open sessions are printed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Interrupted:
    """The number of the signal that ended the input; 0 if none has."""

    def __init__(self) -> None:
        self.number = 0

    @property
    def yes(self) -> bool:
        """Whether there was an interrupt."""
        return self.number != 0


@contextmanager
def ends_input(live: bool, *also: signal.Signals) -> Iterator[Interrupted]:
    """While `live`, the first SIGINT, or one of these other signals, ends standard input after the bytes that
    are already there; the next one interrupts as usual."""
    interrupted = Interrupted()
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, *also)}
    ours = live and usual[signal.SIGINT] is signal.default_int_handler
    usual = {number: each for number, each in usual.items() if each is not signal.SIG_IGN}  # nohup

    def restore() -> None:
        for number, handler in usual.items():
            signal.signal(number, handler)

    def end(number: int, frame: object) -> None:
        interrupted.number = number
        restore()
        # Python retries the interrupted read after this handler; as it no longer blocks, it finds the end.
        os.set_blocking(sys.stdin.fileno(), False)

    if ours:
        for number in usual:
            signal.signal(number, end)
    try:
        yield interrupted
    finally:
        if ours:
            restore()
