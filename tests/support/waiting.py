"""Waiting for what nothing tells of."""

from __future__ import annotations

import threading
from collections.abc import Callable
from time import monotonic
from typing import TypeVar

T = TypeVar("T")

TIMEOUT = 20.0


def eventually(predicate: Callable[[], T]) -> T:
    """What `predicate` returns as soon as that is true; it is looked at again and again."""
    until, waiting = monotonic() + TIMEOUT, threading.Event()
    while not (found := predicate()):
        assert monotonic() < until, "that did not happen"
        waiting.wait(0.005)
    return found
