"""Waiting for what nothing tells of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic

TIMEOUT = 20.0


def eventually(predicate: Callable[[], object]) -> None:
    """Returns when `predicate` is true; it is looked at again and again."""
    until, waiting = monotonic() + TIMEOUT, threading.Event()
    while not predicate():
        assert monotonic() < until, "that did not happen"
        waiting.wait(0.005)
