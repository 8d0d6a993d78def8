"""The stages of a grouped layer in Spark: a shuffle by key, then a function over the items of each key.

The command line calls the same functions with the same groups (`application.item_store`), so the rows are
equal. Items have no payloads, so none are shuffled.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator
from functools import reduce
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from ...application.item_store import packed
from ...output.arrow.types import pyarrow
from ...schema.declaration import Group, LayerItem
from ...schema.records import Record
from .arrow_tasks import Batches, reduce_garbage_collection
from .task_runner import TaskRunner

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

ITEMS = "stage int, key binary, ts_ns long, session string, number long, body binary"
_ORDER = ("key", "ts_ns", "session", "number")
_ITEMS = 4096  # in a batch


class GroupedWork:
    """The items of all stages, as DataFrames; see `declaration.Work`. The items of a stage are computed once,
    and stay on the disks of the workers until the runner is closed."""

    def __init__(self, runner: TaskRunner, items: DataFrame, count: int) -> None:
        self._runner = runner
        self._count = count  # of tasks in each stage
        self._made = [runner.keep(items)]

    def run(self, stage: int, function: Callable[[Iterator[Group]], Iterable[LayerItem]]) -> None:
        """See `declaration.Work`."""

        def work(batches: Batches) -> Batches:
            reduce_garbage_collection()
            yield from item_batches(function(_groups(batches)))

        self._made.append(self._runner.keep(self.groups(stage).mapInArrow(work, ITEMS)))

    def first(self, stage: int, limit: int) -> list[LayerItem]:
        """See `declaration.Work`."""
        rows = self._of(stage).orderBy(*_ORDER).limit(limit).collect()
        return [
            LayerItem(
                stage,
                bytes(row.key),
                int(row.ts_ns),
                str(row.session),
                int(row.number),
                marshal.loads(row.body),
            )
            for row in rows
        ]

    def groups(self, stage: int) -> DataFrame:
        """The items of a stage; those of a key are in one partition, in order."""
        return self._of(stage).repartition(self._count, "key").sortWithinPartitions(*_ORDER)

    def _of(self, stage: int) -> DataFrame:
        """The items for a stage, from all stages before it."""
        return reduce(
            lambda whole, part: whole.unionAll(part),
            [made.where(made.stage == stage) for made in self._made],
        )


def made_of_groups(
    function: Callable[[Iterator[Group]], Iterable[Record]], batches: Batches
) -> Iterator[Record]:
    """The rows that the last stage makes."""
    yield from function(_groups(batches))


def item_batches(items: Iterable[Record]) -> Batches:
    """Items as rows of `ITEMS`."""
    arrow = pyarrow()
    types = (
        arrow.int32(),
        arrow.binary(),
        arrow.int64(),
        arrow.string(),
        arrow.int64(),
        arrow.binary(),
    )
    names = [column.split()[0] for column in ITEMS.split(", ")]
    cells = map(_cells, items)
    while some := [*islice(cells, _ITEMS)]:
        arrays = [arrow.array(values, type_) for values, type_ in zip(zip(*some), types)]
        yield arrow.RecordBatch.from_arrays(arrays, names=names)


def _cells(item: Record) -> tuple[object, ...]:
    assert isinstance(item, LayerItem)
    return (
        item.stage,
        item.key,
        item.ts_ns,
        item.session,
        item.number,
        packed(item),
    )


def _groups(batches: Batches) -> Iterator[Group]:
    for _, group in groupby(_items(batches), key=attrgetter("key")):
        yield group


def _items(batches: Batches) -> Iterator[LayerItem]:
    batch: pa.RecordBatch
    for batch in batches:
        columns = (column.to_pylist() for column in batch.columns)
        for stage, key, ts_ns, session, number, body in zip(*columns):
            yield LayerItem(stage, key, ts_ns, session, number, marshal.loads(body))
