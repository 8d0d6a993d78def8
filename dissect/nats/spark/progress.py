"""Measures the stages of a job, and shows their progress on stderr.

A terminal shows one line, which is rewritten. Elsewhere (a notebook, a log) a line is written every ten
seconds and at the end of each stage.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, TextIO

from ..number_formats import duration_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOOK_S = 0.5
_LINE_S = 10.0


def wants_progress(chosen: bool | None) -> bool:
    """Whether progress is shown: as the user chose, or by default at a terminal and in a notebook."""
    if chosen is not None:
        return chosen
    # PySpark itself imports ipykernel if it is installed; only kernels load kernelapp.
    return "ipykernel.kernelapp" in sys.modules or sys.stderr.isatty()


@dataclass(slots=True)
class Stages:
    """Measures stages. `seconds` has the time of each finished stage, by name; if a stage ran several times,
    the sum. With `shown`, stderr shows progress."""

    shown: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def running(self, name: str, spark: SparkSession) -> Iterator[None]:
        """Measures a stage that runs Spark jobs of this session."""
        began = monotonic()
        over = threading.Event()
        watcher = threading.Thread(target=_watch, args=(name, spark, over), daemon=True)
        if self.shown:
            watcher.start()
        try:
            yield
        finally:
            over.set()
            if self.shown:
                watcher.join()
        took = monotonic() - began
        self.seconds[name] = self.seconds.get(name, 0.0) + took
        if self.shown:
            _ProgressLine(sys.stderr).end(f"{name} {duration_text(round(took * 1e9))}")


class _ProgressLine:
    """Writes progress to a terminal or a log."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._rewrites = output.isatty()
        self._wait_s = _LOOK_S if self._rewrites else _LINE_S
        self._written = monotonic()

    def show(self, text: str) -> None:
        """Shows the text, if the last one is old enough."""
        if monotonic() - self._written >= self._wait_s:
            self._written = monotonic()
            self._write(text, "" if self._rewrites else "\n")

    def end(self, text: str) -> None:
        """Writes a line that stays."""
        self._write(text, "\n")

    def _write(self, text: str, end: str) -> None:
        before = "\r\x1b[K" if self._rewrites else ""
        self._output.write(f"{before}nats-dissect: {text}{end}")
        self._output.flush()


def _watch(name: str, spark: SparkSession, over: threading.Event) -> None:
    line = _ProgressLine(sys.stderr)
    while not over.wait(_LOOK_S):
        done, count = _tasks(spark)
        if count:
            line.show(f"{name}: {done} of {count} tasks done")


def _tasks(spark: SparkSession) -> tuple[int, int]:
    """The numbers of finished and of all tasks in the session's running Spark stages."""
    tracker = spark.sparkContext.statusTracker()
    found = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
    infos = [info for info in found if info]
    return sum(info.numCompletedTasks for info in infos), sum(info.numTasks for info in infos)
