"""Items as Arrow batches and back: what Spark moves between the stages of a grouped layer."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import attrgetter

import pytest

from dissect.nats.application.paths.facts import SessionFacts
from dissect.nats.application.paths.items import SESSIONS
from dissect.nats.schema.declaration import Group, LayerItem
from dissect.nats.schema.records import Record
from dissect.nats.spark.tasks.grouped import item_batches, made_of_groups

pytestmark = pytest.mark.spark


def test_groups_come_back_from_batches() -> None:
    items = [
        LayerItem(2, b"%d" % (number // 5000), number, "s", number, ("x", None, b"y", 1 << 70))
        for number in range(12_000)
    ]
    batches = [*item_batches(items)]
    assert len(batches) > 1 and sum(batch.num_rows for batch in batches) == len(items)
    found: list[list[LayerItem]] = []

    def look(groups: Iterator[Group]) -> Iterator[Record]:
        for group in groups:
            found.append([*group])
        yield from ()

    assert [*made_of_groups(look, iter(batches))] == []
    assert found == [[*group] for _, group in groupby(items, key=attrgetter("key"))]


def test_without_items_there_is_no_batch() -> None:
    assert [*item_batches([])] == []
    (batch,) = item_batches([SessionFacts().item("s")])
    assert batch.column("stage").to_pylist() == [SESSIONS]
