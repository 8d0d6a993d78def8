"""The tables of the dissector as DataFrames, over captures of any size.

    from dissect.nats.spark import plan, read

    frames = read(spark, ["captures/"], table="frames")

    captures = plan(spark, ["captures/"])
    frames, sessions = captures.table("frames"), captures.table("sessions")

Needs the extra `spark`, which is imported with the first call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from .api import Plan

__all__ = ["plan", "read", "register"]


def plan(spark: SparkSession, paths: str | Sequence[str], **options: object) -> Plan:
    """Captures, indexed and cut for many tasks: `Plan.table(name)` gives a table as a DataFrame, and all
    tables share the work before the decode. See `api.plan` for options and errors. The session knows the
    data source "nats-capture" from then on."""
    from . import api

    register(spark)
    return api.plan(spark, _absolute(paths), **options)


def read(
    spark: SparkSession, paths: str | Sequence[str], table: str = "frames", **options: object
) -> DataFrame:
    """A table of captures as a DataFrame, cut and dissected by many tasks; see `api.plan` for options and
    errors. The latest plan of the session is used again while captures and options are the same."""
    from . import api

    register(spark)
    return api.read(spark, _absolute(paths), table, **options)


def register(spark: SparkSession) -> None:
    """Makes `spark.read.format("nats-capture")` known to a session; see `source`. Raises
    SparkError where the Python of its workers lacks this package."""
    from .source import CaptureSource
    from .worker_python import set_worker_python

    set_worker_python(spark)
    spark.dataSource.register(CaptureSource)


def _absolute(paths: str | Sequence[str]) -> list[str]:
    from .settings import absolute

    return [absolute(path) for path in ([paths] if isinstance(paths, str) else paths)]
