"""One dissection in Spark: which stages it needs, and what each costs is reported."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dissect.nats.options import Options
from dissect.nats.partition import flow_shares
from dissect.nats.schema.records import FrameRecord
from dissect.nats.spark.job import Job, TimelineJob
from dissect.nats.spark.tasks import arrow_tasks as tasks
from dissect.nats.spark.tasks.inputs import JobSpec, Timeline
from dissect.nats.spark.tasks.task_runner import TaskRunner
from dissect.nats.spark.types import spark_schema

from tests.spark.tasks.test_stages import fragmented
from tests.support.partitioned import in_one, planned
from tests.support.paths import CAPTURES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def job(spark: SparkSession, path: str, size: int) -> Job:
    found = planned([path], size)
    spec = JobSpec(frozenset({"frames"}), Options())
    return Job(TaskRunner(spark), spec, found, Path(path).stat().st_size)


def frames(made: Job | TimelineJob) -> int:
    rows = made.decoded(
        lambda contexts: tasks.reading(made.spec, contexts, "frames"), spark_schema("frames")
    )
    return rows.count()


def test_timelines_that_are_not_cut_are_only_decoded(spark: SparkSession) -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    one, several = (Timeline(planned([path], size)) for size in (1 << 30, 8192))
    spec = JobSpec(frozenset({"frames"}), Options())
    made = TimelineJob(TaskRunner(spark), spec, [one, several, one])
    assert frames(made) == 3 * len(in_one([path], ["frames"]))
    assert made.stages.seconds == {}


def test_several_are_surveyed_and_stitched(spark: SparkSession) -> None:
    path = str(CAPTURES / "core-2.15.1.pcap")
    made = job(spark, path, 8192)
    assert frames(made) == len(in_one([path], ["frames"]))
    assert set(made.stages.seconds) == {"survey", "stitch"}
    assert made.moved_bytes > 0 and made.surveyed_again == 0
    assert 0 < made.read_again < made.continued


def test_large_captures_may_be_divided_by_flows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0)
    path = str(CAPTURES / "core-2.15.1.pcap")
    made = job(spark, path, 8192)
    rows = made.decoded(
        lambda inputs: tasks.reading(made.spec, inputs, "frames"), spark_schema("frames")
    )
    found = [(row.session, row.number) for row in rows.collect()]
    expected = [
        (row.session, row.number)
        for row in in_one([path], ["frames"])
        if isinstance(row, FrameRecord)
    ]
    assert sorted(found) == sorted(expected) and expected
    assert set(made.stages.seconds) == {"sample"}
    assert (made.shares, rows.rdd.getNumPartitions(), made.moved_bytes) == (2, 2, 0)


def test_one_large_flow_is_cut_where_many_tasks_run(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0)
    path = str(CAPTURES / "core-2.15.1.pcap")
    made = job(spark, path, 8192)
    made.runner.cores = 8
    assert frames(made) == len(in_one([path], ["frames"]))
    assert set(made.stages.seconds) == {"sample", "survey", "stitch"}
    assert made.shares == 0 and made.moved_bytes > 0


def test_whole_flows_may_be_ruled_out(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flow_shares, "LEAST_BYTES", 0)
    path = str(CAPTURES / "core-2.15.1.pcap")
    made = job(spark, path, 32768)
    made.whole_flows = False
    assert frames(made) == len(in_one([path], ["frames"]))
    assert set(made.stages.seconds) == {"survey", "stitch"}


def test_where_fragments_wait_it_is_surveyed_again(spark: SparkSession, tmp_path: Path) -> None:
    path = fragmented(tmp_path)
    made = job(spark, path, 12288)
    assert frames(made) == len(in_one([path], ["frames"]))
    assert made.surveyed_again > 0
