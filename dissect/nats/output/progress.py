"""A progress bar on stderr for long work: the bytes read and their total, packets, and the time left.

It reads the report whenever it is drawn, so that it does not slow down the reader. Rich draws it on its own
thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import inf
from time import monotonic

from rich.console import Console, RenderableType
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from ..capture import CaptureReport

QUIET = 1.0
"""Work that takes longer than this many seconds gets a bar."""

_UNSIZED = TextColumn("{task.fields[packets]:,} packets"), TimeElapsedColumn()
_LEFT = TextColumn("left"), TimeRemainingColumn()
_SIZED = BarColumn(), DownloadColumn(), *_UNSIZED, *_LEFT


class _Stderr(Console):
    """Standard error. If its reader goes away, the bar ends, and nothing else."""

    def on_broken_pipe(self) -> None:
        """Rich would redirect standard output to the null device and exit."""
        self.quiet = True


class _Bar(Progress):
    """Rich's progress bar, with the report as its source."""

    def __init__(self, report: CaptureReport, console: Console, quiet: float) -> None:
        self._report = report
        self._shown_from = inf  # rich calls this already in its constructor
        super().__init__(
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=4,
        )
        self._shown_from = monotonic() + quiet

    def get_renderables(self) -> Iterable[RenderableType]:
        """The current content of the bar."""
        report = self._report
        if monotonic() < self._shown_from or not report.files:
            return
        if not self.tasks:
            self.columns = _SIZED if report.size else _UNSIZED
            self.add_task("", total=report.size, packets=0)
        packets = sum(file.packets for file in report.files)
        self.update(self.task_ids[0], completed=report.position, packets=packets)
        yield from super().get_renderables()


@contextmanager
def bar(report: CaptureReport, quiet: float = QUIET) -> Iterator[Callable[[], None]]:
    """Shows a bar after `quiet` seconds. Yields a function that removes it, to call before other output."""
    shown = _Bar(report, _Stderr(stderr=True), quiet)
    with shown:
        yield shown.stop
