"""A bar on stderr for long work: how much was read of how much, packets, and the time left.

It looks at the report when it is drawn, so that reading pays nothing for it; the thread that draws is
rich's own.
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
"""Seconds after which work is long."""

_UNSIZED = TextColumn("{task.fields[packets]:,} packets"), TimeElapsedColumn()
_LEFT = TextColumn("left"), TimeRemainingColumn()
_SIZED = BarColumn(), DownloadColumn(), *_UNSIZED, *_LEFT


class _Bar(Progress):
    """Rich's progress bar, with the report as its source."""

    def __init__(self, report: CaptureReport, console: Console, quiet: float) -> None:
        self._report = report
        self._shown_from = inf  # rich asks already while it is made
        super().__init__(
            console=console,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
            refresh_per_second=4,
        )
        self._shown_from = monotonic() + quiet

    def get_renderables(self) -> Iterable[RenderableType]:
        """What is to be seen now."""
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
    """Shows a bar after `quiet` seconds. Gives what takes it away before something else is printed."""
    shown = _Bar(report, Console(stderr=True), quiet)
    with shown:
        yield shown.stop
