"""A Spark session as the jobs use it: functions called by tasks, rows brought together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from . import arrow_tasks as tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_In = TypeVar("_In")

TOLD = "partition long, flow binary, body binary"
# Pieces of this size are worth a task each; smaller ones share tasks.
_TASK_BYTES = 8 << 20
_TASKS_A_CORE = 4


class TaskRunner:
    """A session, as the jobs use it. Close it: what it keeps on disk goes then."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []
        self.cores = max(1, spark.sparkContext.defaultParallelism)

    def each(
        self, count: int, size: int, function: tasks.Function, schema: str = TOLD
    ) -> DataFrame:
        """What a function tells of the numbers below `count`; each stands for `size` bytes of capture."""
        source = self.spark.range(0, count, 1, self.tasks(count, size))
        return source.mapInArrow(function, schema)

    def numbers(
        self, numbers: Sequence[int], size: int, function: tasks.Function, schema: str = TOLD
    ) -> DataFrame:
        """As `each`, for some numbers."""
        source = self.spark.createDataFrame([(number,) for number in numbers], "id long")
        return source.repartition(self.tasks(len(numbers), size)).mapInArrow(function, schema)

    def call(
        self, function: Callable[[_In], object], values: Sequence[_In], size: int
    ) -> list[object]:
        """What the function gives for each of the values."""
        rows = self.each(len(values), size, tasks.calling(function, values)).collect()
        return [tasks.body_of(row.body) for row in sorted(rows, key=lambda row: int(row.partition))]

    def keep(self, frame: DataFrame) -> DataFrame:
        """The same, not computed twice."""
        from pyspark import StorageLevel

        self._kept.append(frame)
        return frame.persist(StorageLevel.DISK_ONLY)

    def tasks(self, count: int, size: int) -> int:
        """How many tasks do work in `count` pieces."""
        return max(1, count if size >= _TASK_BYTES else min(count, _TASKS_A_CORE * self.cores))

    def close(self) -> None:
        """Lets go of what was kept."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


def gathered(frame: DataFrame, count: int, column: str, *order: str) -> DataFrame:
    """The rows with one number in a column in one of `count` partitions, in order of that and more."""
    if hasattr(frame, "repartitionById"):  # Spark 4.1; before, numbers meet by chance
        from pyspark.sql.functions import col

        frame = frame.repartitionById(count, (col(column) % count).cast("int"))
    else:
        frame = frame.repartition(count, column)
    return frame.sortWithinPartitions(column, *order)
