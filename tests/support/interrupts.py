"""Interrupts at every place of a call where Python looks for signals."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed import TraceFunction


class Interrupted:
    """Raises KeyboardInterrupt at the `step`-th place where Python would look for signals: where a function
    begins, and after calls of functions in C."""

    def __init__(self, step: int) -> None:
        self.left = step

    def __call__(self, frame: object, event: str, _: object) -> None:
        if event in ("call", "c_return", "c_exception"):
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt


def interrupted_at(step: int, call: Callable[[], object]) -> bool:
    """Whether there is such a place in `call`."""
    before = sys.getprofile()
    interrupt = Interrupted(step + 1)  # after the call of `setprofile` itself
    gc.disable()  # an interrupt of what a collection calls would be none of `call`
    sys.setprofile(interrupt)
    try:
        call()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(before)
        gc.enable()
    return interrupt.left <= 0


def entered_at(
    line: int, folder: str, call: Callable[[], object], act: Callable[[], object]
) -> bool:
    """Makes `call`, and before the `line`-th line of code below `folder` that it comes to, `act`, as a signal
    handler would. Returns whether it came that far."""
    left = line

    def trace(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        nonlocal left
        if folder not in frame.f_code.co_filename:
            return None
        left -= event == "line"
        if event == "line" and left == 0:
            act()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return left <= 0
