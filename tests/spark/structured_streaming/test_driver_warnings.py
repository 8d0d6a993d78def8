"""What tasks say to the driver."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import SparkError

from tests.support.requirements import missing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

try:
    from dissect.nats.spark.structured_streaming.driver_warnings import (
        one_line_errors,
        warnings_of,
    )
except ImportError:
    missing("pyspark", "pip install 'natsync[spark]'")


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_the_driver_says_each_warning_once(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    warnings = warnings_of(spark.sparkContext)
    assert warnings is warnings_of(spark.sparkContext)
    numbers = spark.sparkContext.parallelize(range(4), 2)
    numbers.foreach(lambda number: warnings.add((f"warning {number % 2}", "a\nb")))
    said = capsys.readouterr().err.splitlines()
    assert sorted(said) == [f"nats-dissect: {text}" for text in ("a b", "warning 0", "warning 1")]
    assert set(warnings.value) >= {"warning 0", "warning 1", "a\nb"}


@pytest.mark.parametrize("program, hidden", [("pyspark.daemon", True), ("pytest", False)])
def test_an_error_of_this_package_ends_a_worker_without_its_traceback(
    program: str, hidden: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    spec = SimpleNamespace(name=program)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))
    with pytest.raises(ValueError), one_line_errors():
        raise ValueError("of somebody else")
    assert not os.environ["SPARK_HIDE_TRACEBACK"]
    with pytest.raises(SparkError), one_line_errors():
        raise SparkError("of this package")
    assert bool(os.environ["SPARK_HIDE_TRACEBACK"]) is hidden
