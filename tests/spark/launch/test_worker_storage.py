"""What workers know of remote storage."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dissect.nats.spark.launch.worker_storage import share_storage
from dissect.nats.storage import VARIABLES, environment, use_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]


def test_workers_have_the_storage_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of the environment")
    settings = {"access.key": "of the session", "endpoint": "http://127.0.0.1:9000"}
    try:
        for name, value in settings.items():
            spark.conf.set(f"spark.hadoop.fs.s3a.{name}", value)
        share_storage(spark)
        expected = {
            "AWS_ACCESS_KEY_ID": "of the session",
            "AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9000",
            "AWS_REGION": "eu-west-1",
        }
        assert environment() == expected
        found = spark.sparkContext.parallelize([1], 1).map(lambda _: environment()).collect()
        assert found == [expected]
    finally:
        for name in settings:
            spark.conf.unset(f"spark.hadoop.fs.s3a.{name}")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    share_storage(spark)
    found = spark.sparkContext.parallelize([1], 1).map(lambda _: environment()).collect()
    assert found == [{"AWS_REGION": "eu-west-1"}]
    use_settings(lambda name: None)
