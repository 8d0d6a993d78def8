"""Workers on this machine run a Python that has the package, or one line says which does not."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.errors import SparkError
from dissect.nats.spark.launch.worker_python import check_python, set_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def bare_python(folder: Path) -> str:
    """A Python without any package of this environment."""
    path = folder / "python3"
    path.write_text(f'#!/bin/sh\nexec {sys.base_prefix}/bin/python3 -I -S "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_where_nobody_names_one_it_is_this_one(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3-of-the-system")
    set_worker_python(spark)
    assert spark.sparkContext.pythonExec == sys.executable


def test_one_that_is_named_and_lacks_the_package_is_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    named = bare_python(tmp_path)
    monkeypatch.setenv("PYSPARK_PYTHON", named)
    with pytest.raises(SparkError, match="lacks this package: .*No module named") as caught:
        set_worker_python(spark)
    assert named in str(caught.value) and "set PYSPARK_PYTHON=" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SparkError, match="cannot be run"):
        check_python(str(tmp_path / "python4"))
