"""A layer that is added by a file gives the same rows on Spark, with losses and packets out of order."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.options import Payload
from dissect.nats.spark.api import dissect
from dissect.nats.spark.options.job_options import JobOptions

from tests.spark.test_api import written
from tests.support.partitioned import in_one
from tests.support.xor_conversation import capture, lossy
from tests.support.xor_layer import XorOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_the_rows_are_those_of_one_process(spark: SparkSession, tmp_path: Path) -> None:
    path = capture(tmp_path / "a.pcap", lossy)
    tables, options = ("frames", "sessions"), XorOptions(payload=Payload.TEXT)
    job = JobOptions(options=options, chunk_size=40_000)
    summary = dissect(spark, [path], tables, job, str(tmp_path / "out"))
    assert written(tmp_path / "out", tables) == in_one([path], tables, options)
    assert summary.rows["frames"] > 750 and summary.rows["sessions"] == 3
    assert summary.chunks > 2 and summary.read_again >= 2
