"""Late imports: a module that most programs do not need is imported when it is first used."""

from __future__ import annotations

import sys
from threading import get_ident
from types import FrameType, TracebackType

from .errors import ReentrantCallError

__all__ = ["late_import"]


class _LateImport:
    """The context manager that late imports run in.

    If a signal handler or finalizer interrupts a late import and needs a late import itself, on the same
    thread, it gets a ReentrantCallError. Otherwise it would find a half-imported module; and up to Python
    3.11, the interrupted import may fail with a KeyError and keep the module's lock (python/cpython#91351).
    """

    def __init__(self) -> None:
        # The caller's frame by thread. If an interrupt skipped `__exit__`, its frame has left the stack.
        self._importing: dict[int, FrameType] = {}

    def __enter__(self) -> None:
        me, caller = get_ident(), sys._getframe(1)
        if me in self._importing and _is_inside(self._importing[me], caller):
            raise ReentrantCallError
        self._importing[me] = caller

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self._importing.pop(get_ident(), None)
        if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
            raise ReentrantCallError from error


def _is_inside(outer: FrameType, frame: FrameType | None) -> bool:
    """Whether `frame` is `outer`, or runs inside a call that `outer` has made."""
    while frame and frame is not outer:
        frame = frame.f_back
    return frame is not None


late_import = _LateImport()
