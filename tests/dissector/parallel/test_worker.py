"""One worker: its batches, its progress, and frames that it packs."""

from __future__ import annotations

from itertools import pairwise
from operator import itemgetter

import pytest

from dissect.nats.capture import reader
from dissect.nats.engine import dissection
from dissect.nats.errors import MissingLibrary
from dissect.nats.options import Options, Payload
from dissect.nats.output.arrow.records import schema
from dissect.nats.output.arrow.types import pyarrow
from dissect.nats.parallel import worker
from dissect.nats.parallel.worker import EntryBatch, ShareWorker, TableJob
from dissect.nats.pipeline import records

from tests.support.paths import CAPTURES
from tests.support.requirements import missing

try:
    pyarrow()
except MissingLibrary as lack:
    missing("pyarrow", str(lack))

PATH = str(CAPTURES / "core-2.15.1.pcap")
COLUMNS = ("number", "session", "subject", "payload")


def sent(number: int = 0, jobs: int = 1, payload: Payload = Payload.NONE) -> list[EntryBatch]:
    job: TableJob[object] = TableJob(
        paths=(PATH,), table="frames", options=Options(payload=payload), packed=COLUMNS
    )
    batches: list[EntryBatch] = []
    ShareWorker(batches.append, job).run(number, jobs)
    return batches


@pytest.mark.parametrize("most", [1, 20, 10_000])
def test_packed_frames_are_all_that_there_are(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_BATCH_ROWS", most)
    monkeypatch.setattr(worker, "_PROGRESS_PACKETS", 50)
    parts = [
        batch.packed for number in range(3) for batch in sent(number, 3) if batch.packed is not None
    ]
    assert all(part.schema == schema("frames", COLUMNS) for part in parts)
    rows = [row for part in parts for row in part.to_pylist()]
    frames = records([PATH], ["frames"])
    wanted = [{name: getattr(frame, name) for name in COLUMNS} for frame in frames]
    by_place = itemgetter("session", "number")
    assert sorted(rows, key=by_place) == sorted(wanted, key=by_place) != []


def test_progress_is_never_ahead_of_the_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_PROGRESS_PACKETS", 10)
    monkeypatch.setattr(reader, "BLOCK", 2048)
    monkeypatch.setattr(dissection, "_BLOCKS", 2)
    batches = sent()
    keys = []
    for batch in batches:
        keys += [key for key, _, _ in batch.entries]
    assert all(first <= second for first, second in pairwise(keys))
    assert sum(len(batch.entries) for batch in batches) > 5
    assert [batch.last for batch in batches] == [False] * (len(batches) - 1) + [True]


def test_payloads_that_are_shown_make_smaller_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "_BATCH_BYTES", 100)
    assert len(sent(payload=Payload.TEXT)) > len(sent()) + 3
