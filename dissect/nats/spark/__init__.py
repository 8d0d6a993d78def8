"""The tables of the dissector as DataFrames, over captures of any size.

    from dissect.nats.spark import read

    frames = read(spark, ["captures/"], table="frames")

Needs the extra `spark`, which is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["read", "register"]


def read(
    spark: SparkSession, paths: str | Sequence[str], table: str = "frames", **options: object
) -> DataFrame:
    """A table of captures as a DataFrame, cut and dissected by many tasks; see `api.read` for options and
    errors. The session knows the data source "nats-capture" from then on."""
    from . import api
    from .settings import absolute

    register(spark)
    captures = [paths] if isinstance(paths, str) else paths
    return api.read(spark, [absolute(path) for path in captures], table, **options)


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("nats-capture")` known to a session; see `source`."""
    from .source import CaptureSource

    spark.dataSource.register(CaptureSource)
