"""Batches of rows: none too large, none lost, those of each table in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dissect.nats import Options, Payload
from dissect.nats.engine.session_tables import ReleasedRows
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow import records as output
from dissect.nats.output.arrow import released as released_module
from dissect.nats.output.arrow.records import batch
from dissect.nats.output.arrow.released import add_batches, batches
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.pipeline import records, released

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, object]

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

SAMPLE = str(CAPTURES / "core-2.15.1.pcap")
OTHERS = ("sessions", "requests", "anomalies")


def released_rows(*tables: str) -> Iterator[ReleasedRows]:
    return released([SAMPLE], tables, Options(payload=Payload.TEXT))


def sizes(table: str) -> list[int]:
    return [len(batch) for batch in batches(table, released_rows(table, "sessions"), ["session"])]


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = sizes("subscriptions")
    monkeypatch.setattr(output, "BATCH_ROWS", 3)
    assert sum(sizes("subscriptions")) == whole and len(sizes("subscriptions")) > 3


def test_without_rows_there_is_no_batch() -> None:
    assert list(batches("frames", [], ["op"])) == []
    assert list(batches("sessions", [], ["end"])) == []


@pytest.mark.parametrize("batch_rows", [2, 8192])
def test_the_rows_of_several_tables_are_those_of_each(
    batch_rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(released_module, "BATCH_ROWS", batch_rows)
    found: dict[str, list[Row]] = {}

    def add(table: str, rows: pa.RecordBatch) -> None:
        found.setdefault(table, []).extend(rows.to_pylist())

    tables = ("frames", *OTHERS)
    add_batches(released_rows(*tables, "flows"), tables, add)
    for table in tables:
        options = Options(payload=Payload.TEXT)
        alone = batch(table, list(records([SAMPLE], [table], options))).to_pylist()
        assert found.pop(table, []) == alone
    assert not found


def test_others_come_without_frames() -> None:
    found: list[str] = []
    add_batches(released_rows(*OTHERS), OTHERS, lambda table, rows: found.append(table))
    assert "sessions" in found
