"""Imports at the first use of what most programs do without."""

from __future__ import annotations

from types import TracebackType

from .errors import ReentrantCallError

__all__ = ["late_import"]


class _LateImport:
    """A signal handler or finalizer that interrupts such an import on its own thread, and wants the same
    module, finds half of it: that is a ReentrantCallError, not an ImportError of which no manual tells.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if isinstance(error, ImportError) and not isinstance(error, ModuleNotFoundError):
            raise ReentrantCallError from error


late_import = _LateImport()
