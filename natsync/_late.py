"""Late imports: a module that most programs do not need is imported when it is first used."""

from __future__ import annotations

import os
import sys
import threading
from threading import get_ident
from types import FrameType, TracebackType

from .errors import ReentrantCallError

__all__ = ["LateImport", "late_import"]

_LONGEST = 10.0  # the most seconds that a fork waits for an import


class LateImport:
    """The context manager that late imports run in.

    If a signal handler or finalizer interrupts a late import and needs a late import itself, on the same
    thread, it gets a ReentrantCallError. Otherwise it would find a half-imported module; and up to Python
    3.11, the interrupted import may fail with a KeyError and keep the module's lock (python/cpython#91351).

    A fork waits until the late imports of other threads have ended. Otherwise the child would wait for ever
    for the lock of a module whose import ended only in its parent.
    """

    def __init__(self) -> None:
        # By thread: the caller's frame, and what tells of the end of the import. If an interrupt skipped
        # `__exit__`, the frame has left the stack.
        self._importing: dict[int, tuple[FrameType, threading.Event]] = {}
        self._gate = threading.RLock()  # held during a fork, so that no import begins

    def __enter__(self) -> None:
        me, caller = get_ident(), sys._getframe(1)
        if me in self._importing and _is_inside(self._importing[me][0], caller):
            raise ReentrantCallError
        with self._gate:
            self._importing[me] = caller, threading.Event()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        import_ = self._importing.pop(get_ident(), None)
        if import_:
            import_[1].set()
        if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
            raise ReentrantCallError from error

    def stop(self) -> None:
        """Called before a fork."""
        self._gate.acquire()
        for thread, (caller, ended) in list(self._importing.items()):
            if thread != get_ident() and _is_inside(caller, sys._current_frames().get(thread)):
                ended.wait(_LONGEST)

    def go_on(self) -> None:
        """Called in the parent."""
        self._gate.release()

    def inherit(self) -> None:
        """Called in a forked child: the threads of the parent neither import nor hold the gate there."""
        self._gate = threading.RLock()


def _is_inside(outer: FrameType, frame: FrameType | None) -> bool:
    """Whether `frame` is `outer`, or runs inside a call that `outer` has made."""
    while frame and frame is not outer:
        frame = frame.f_back
    return frame is not None


late_import = LateImport()

# Windows does not fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=late_import.stop,
        after_in_parent=late_import.go_on,
        after_in_child=late_import.inherit,
    )
