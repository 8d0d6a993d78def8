"""Runs functions in Spark tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from ...kernel.load import lack
from . import arrow_tasks as tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_T = TypeVar("_T")

RESULTS = "partition long, flow binary, body binary"
# Pieces of a capture of at least this many bytes get one task each; smaller ones share tasks.
_TASK_BYTES = 8 << 20
_TASKS_A_CORE = 4
# A task after a shuffle gets at least so many bytes: on a cluster of two cores, each task took 0.2 s, however
# little it had to do.
_SHUFFLED_BYTES = 1 << 20


class TaskRunner:
    """Runs functions in the tasks of a session. Call `close` to free the DataFrames that it keeps on disk."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark
        self._kept: list[DataFrame] = []
        self._lack: str | None = None
        self.cores = max(1, spark.sparkContext.defaultParallelism)

    def each(
        self, count: int, size: int, function: tasks.Function, schema: str = RESULTS
    ) -> DataFrame:
        """The results of a function for the numbers below `count`, each of which stands for `size` bytes
        of capture."""
        source = self.spark.range(0, count, 1, self.tasks(count, size))
        return source.mapInArrow(function, schema)

    def numbers(
        self, numbers: Sequence[int], size: int, function: tasks.Function, schema: str = RESULTS
    ) -> DataFrame:
        """Like `each`, for these numbers."""
        source = self.spark.createDataFrame([(number,) for number in numbers], "id long")
        return source.repartition(self.tasks(len(numbers), size)).mapInArrow(function, schema)

    def call(
        self, function: Callable[[_T], object], values: Sequence[_T], size: int
    ) -> list[object]:
        """The results of a function for each of the values."""
        rows = self.each(len(values), size, tasks.calling(function, values)).collect()
        return [tasks.body_of(row.body) for row in sorted(rows, key=lambda row: int(row.partition))]

    def have_kernel(self) -> bool:
        """Whether a worker can use the kernel; asked once. Those of a cluster should not differ."""
        if self._lack is None:
            (lack,) = self.call(_lack_of_kernel, [None], 0)
            self._lack = str(lack)
        return not self._lack

    def keep(self, frame: DataFrame) -> DataFrame:
        """Persists a DataFrame on disk, so that it is computed once."""
        from pyspark import StorageLevel

        self._kept.append(frame)
        return frame.persist(StorageLevel.DISK_ONLY)

    def tasks(self, count: int, size: int) -> int:
        """The number of tasks for `count` pieces of this size."""
        return max(1, count if size >= _TASK_BYTES else min(count, _TASKS_A_CORE * self.cores))

    def shuffle_tasks(self, size: int) -> int:
        """The number of tasks after a shuffle of so many bytes, such as the frames of captures of this size:
        the number that the session has for shuffles, or fewer if these are few."""
        most = int(self.spark.conf.get("spark.sql.shuffle.partitions") or 1)
        return min(self.tasks(most, size // most), max(1, size // _SHUFFLED_BYTES))

    def close(self) -> None:
        """Frees the persisted DataFrames."""
        for frame in self._kept:
            frame.unpersist()
        self._kept.clear()


def _lack_of_kernel(_: None) -> str:
    return lack()


def gathered(frame: DataFrame, count: int, column: str, *order: str) -> DataFrame:
    """The rows in `count` partitions, so that rows with the same number in `column` are in the same one,
    sorted by `column` and then by `order`."""
    # Since Spark 4.1. Earlier versions hash the numbers, so some tasks may get none and others several.
    if hasattr(frame, "repartitionById"):
        from pyspark.sql.functions import col

        frame = frame.repartitionById(count, (col(column) % count).cast("int"))
    else:
        frame = frame.repartition(count, column)
    return frame.sortWithinPartitions(column, *order)
