"""Late imports: a module that most programs do not need is imported when it is first used."""

from __future__ import annotations

import sys
from threading import get_ident
from types import FrameType, TracebackType

from .errors import ReentrantCallError

__all__ = ["late_import"]


class _LateImport:
    """A signal handler or finalizer that interrupts such an import on its own thread, and needs one as well,
    gets a ReentrantCallError. It would find half of a module otherwise; and up to Python 3.11 the import that
    it interrupts may fail with a KeyError and keep the module's lock (python/cpython#91351).
    """

    def __init__(self) -> None:
        # The callers, by their threads. One whose end an interrupt has prevented is not on the stack.
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
    """Whether `frame` runs inside a call that `outer` has made."""
    while frame and frame is not outer:
        frame = frame.f_back
    return frame is not None


late_import = _LateImport()
