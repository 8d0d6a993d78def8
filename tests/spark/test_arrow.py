"""Batches of rows: none too large, none lost."""

from __future__ import annotations

import pytest

from dissect.nats import Options, Payload
from dissect.nats.errors import MissingLibrary
from dissect.nats.output.arrow_types import pyarrow
from dissect.nats.pipeline import released
from dissect.nats.spark import arrow
from dissect.nats.spark.arrow import batches

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

BULK = str(CAPTURES / "bulk-2.15.1.pcap")


def sizes() -> list[int]:
    rows = released([BULK], ["frames"], Options(payload=Payload.TEXT))
    return [len(batch) for batch in batches("frames", rows, ["op", "subject"])]


def test_few_rows_are_one_batch() -> None:
    assert len(sizes()) == 1


def test_batches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = sizes()
    monkeypatch.setattr(arrow, "BATCH_ROWS", 100)
    by_rows = sizes()
    assert sum(by_rows) == whole and len(by_rows) > 3 and min(by_rows[:-1]) >= 100
    monkeypatch.setattr(arrow, "BATCH_ROWS", 1 << 20)
    monkeypatch.setattr(arrow, "_BATCH_BYTES", 1 << 12)
    assert sum(sizes()) == whole and len(sizes()) > 3


def test_without_rows_there_is_no_batch() -> None:
    assert list(batches("frames", [], ["op"])) == []
