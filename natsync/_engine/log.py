"""The one logger of natsync. It says nothing unless something is wrong, and never a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logging import Logger

__all__ = ["call_or_log", "logger"]


def logger() -> Logger:
    """Returns the logger `natsync`. Imports `logging` only now: it would be a tenth of `import natsync`."""
    import logging

    return logging.getLogger("natsync")


def call_or_log(call: Callable[..., object], *args: object) -> None:
    """Calls a function of the program. What it raises is logged: to report it to a callback could go on for
    ever."""
    try:
        call(*args)
    except BaseException:  # code of the program may raise anything
        logger().exception("a callback failed")
