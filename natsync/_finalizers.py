"""Finalizers, which the garbage collector calls for an object that nobody has closed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def before_exit(finalize: Callable[[T], None]) -> Callable[[T], None]:
    """A `__del__` that does nothing while the interpreter ends: all connections are closed by then, and
    modules may be empty, always with free threads, else where an object outlives them (Python's reference of
    `object.__del__`)."""
    is_finalizing = sys.is_finalizing

    def __del__(self: T) -> None:
        if not is_finalizing():
            finalize(self)

    return __del__
