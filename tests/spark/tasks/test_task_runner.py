"""A session as jobs use it: work is spread, rows that belong together meet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dissect.nats.spark.tasks import task_runner
from dissect.nats.spark.tasks.task_runner import TaskRunner, gathered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def test_values_come_back_in_order(spark: SparkSession) -> None:
    runner = TaskRunner(spark)
    assert runner.call(len, ["", "a", "bb", "ccc", "dddd"], 1) == [0, 1, 2, 3, 4]
    assert runner.call(len, [], 1) == []


@pytest.mark.parametrize(
    "count, size, tasks", [(3, 1, 3), (100, 1, 8), (100, 64 << 20, 100), (0, 1, 1)]
)
def test_small_pieces_share_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, count: int, size: int, tasks: int
) -> None:
    monkeypatch.setattr(task_runner, "_TASKS_A_CORE", 4)
    assert TaskRunner(spark).tasks(count, size) == tasks


@pytest.mark.parametrize(
    "size, tasks", [(1, 1), (3 << 20, 3), (100 << 20, 8), (200 * (8 << 20), 200)]
)
def test_few_bytes_are_shuffled_into_few_tasks(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, size: int, tasks: int
) -> None:
    monkeypatch.setattr(task_runner, "_TASKS_A_CORE", 4)
    name = "spark.sql.shuffle.partitions"
    before = spark.conf.get(name)
    spark.conf.set(name, "200")
    try:
        assert TaskRunner(spark).shuffle_tasks(size) == tasks
    finally:
        spark.conf.set(name, str(before))


def test_rows_with_one_number_meet_and_are_in_order(spark: SparkSession) -> None:
    rows = [(number % 5, number) for number in range(50, 0, -1)]
    frame = gathered(spark.createDataFrame(rows, "a long, b long"), 5, "a", "b")

    def seen(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        rows = [tuple(row.values()) for batch in batches for row in batch.to_pylist()]
        yield pyarrow.RecordBatch.from_pydict({"text": [repr(rows)]})

    found = [eval(row.text) for row in frame.mapInArrow(seen, "text string").collect()]
    assert sorted(sum(found, [])) == sorted(rows)
    for rows in found:
        assert rows == sorted(rows)
    homes = [{a for a, _ in rows} for rows in found]
    assert sum(map(len, homes)) == 5


def test_what_is_kept_is_let_go(spark: SparkSession) -> None:
    runner = TaskRunner(spark)
    kept = runner.keep(spark.range(3))
    assert kept.count() == 3 and kept.is_cached
    runner.close()
    assert not kept.is_cached
