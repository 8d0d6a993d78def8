"""Finalizers, which the garbage collector calls for an object that nobody has closed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def before_exit(finalize: Callable[[T], None]) -> Callable[[T], None]:
    """Returns a `__del__` that calls `finalize`, but does nothing during interpreter shutdown. By then, all
    connections are closed, and modules may have been cleared: always on free-threaded builds, on others if
    an object outlives them (Python's reference of `object.__del__`)."""
    is_finalizing = sys.is_finalizing

    def __del__(self: T) -> None:
        if not is_finalizing():
            finalize(self)

    return __del__
