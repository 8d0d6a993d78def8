"""The tables of the dissector as DataFrames, over captures of any size.

    from dissect.nats.spark import plan, read

    frames = read(spark, ["captures/"], table="frames")

    captures = plan(spark, ["captures/"])
    frames, sessions = captures.table("frames"), captures.table("sessions")

Needs the extra `spark`, which is imported by the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ..capture.files import Paths
    from .api import Plan

__all__ = ["plan", "read", "register"]


def plan(spark: SparkSession, paths: Paths, **options: object) -> Plan:
    """Indexes captures and cuts them for many tasks. `Plan.table(name)` returns a table as a DataFrame;
    all tables share the work before the decode. See `api.plan` for options and errors; `paths` that are not
    paths raise TypeError, and no paths ValueError. Also registers the data source "nats-capture".
    """
    from . import api

    register(spark)
    return api.plan(spark, _absolute(paths), **options)


def read(spark: SparkSession, paths: Paths, table: str = "frames", **options: object) -> DataFrame:
    """A table of captures as a DataFrame, cut and dissected by many tasks; see `plan` for options
    and errors. The latest plan of the session is reused while captures and options are the same."""
    from . import api

    register(spark)
    return api.read(spark, _absolute(paths), table, **options)


def register(spark: SparkSession) -> None:
    """Registers the data source "nats-capture" for `spark.read.format`; see `source`. Lets filters reach data
    sources of Python in this session. Raises SparkError if the Python of the workers lacks this package.
    """
    from .launch.worker_python import set_worker_python
    from .launch.worker_storage import share_storage
    from .structured_streaming.source import source_of

    set_worker_python(spark)
    share_storage(spark)
    spark.dataSource.register(source_of(spark))


def _absolute(paths: Paths) -> list[str]:
    from ..capture.files import capture_names
    from .options.settings import absolute

    return [absolute(name) for name in capture_names(paths)]
