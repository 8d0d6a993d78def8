"""Each stage is measured; where progress is shown, stderr says which is done, and how far one is."""

from __future__ import annotations

import io
import sys
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

from dissect.nats.spark import progress
from dissect.nats.spark.progress import Stages, wants_progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def slow(spark: SparkSession) -> None:
    """A Spark job of four tasks, two at a time, that take half a second each."""

    def wait(number: int) -> int:
        import time

        time.sleep(0.5)
        return number

    spark.sparkContext.parallelize(range(4), 4).map(wait).collect()


def test_a_stage_that_is_done_is_a_line(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stages(shown=True)
    with stages.running("survey", spark):
        pass
    assert capsys.readouterr().err.startswith("nats-dissect: survey ")
    assert set(stages.seconds) == {"survey"}


def test_a_long_stage_says_how_many_tasks_are_done(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "_LOOK_S", 0.05)
    monkeypatch.setattr(progress, "_LINE_S", 0.0)
    with Stages(shown=True).running("decode", spark):
        slow(spark)
    assert " of 4 tasks done\n" in capsys.readouterr().err


def test_nothing_is_written_where_nobody_asks(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    stages = Stages()
    with stages.running("walk", spark):
        pass
    assert capsys.readouterr().err == "" and stages.seconds["walk"] >= 0


def test_it_is_shown_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    terminal.isatty = lambda: True  # type: ignore[method-assign]  # stands in for a terminal
    monkeypatch.setattr("sys.stderr", terminal)
    assert wants_progress(None) and not wants_progress(False)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert wants_progress(True) and not wants_progress(None)
    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))  # as PySpark does
    assert not wants_progress(None)
    monkeypatch.setitem(sys.modules, "ipykernel.kernelapp", ModuleType("kernelapp"))
    assert wants_progress(None)
