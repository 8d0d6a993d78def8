"""Lets Spark's workers use remote storage as the driver does: with its endpoint, region and credentials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...storage import VARIABLES, environment, use_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def share_storage(spark: SparkSession) -> None:
    """Takes the settings `spark.hadoop.fs.s3a.*` of a session for this process, and gives workers that begin
    later what this process uses. Spark gives these to its own readers of S3 in the same way."""
    use_settings(lambda name: spark.conf.get(f"spark.hadoop.{name}", None))
    shared = spark.sparkContext.environment
    for name in VARIABLES:
        shared.pop(name, None)
    shared.update(environment())
