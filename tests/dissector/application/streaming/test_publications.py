"""Publications that wait for their acks."""

from __future__ import annotations

import pytest

from dissect.nats.application.streaming import publications
from dissect.nats.application.streaming.publications import Publications
from dissect.nats.application.streaming.records import StreamingRecord
from dissect.nats.schema.anomalies import Anomaly


def row(guid: str) -> StreamingRecord:
    return StreamingRecord(
        session="s", number=1, ts_ns=1, kind="client", op="publish", evidence="subject", guid=guid
    )


def test_the_only_one_of_an_inbox() -> None:
    waiting = Publications()
    for guid, inbox in (("a", "one"), ("b", "two"), ("c", "two")):
        assert list(waiting.add(row(guid), inbox)) == []
    assert waiting.take_only("two") is waiting.take_only("none") is waiting.take("none") is None
    assert waiting.take("b") and waiting.take("b") is None
    assert [each and each.guid for each in map(waiting.take_only, ("one", "two"))] == ["a", "c"]
    assert waiting.rest() == []


def test_the_subjects_of_acks() -> None:
    waiting = Publications()
    list(waiting.add(row("a"), "inbox"))
    assert [waiting.evidence(name) for name in ("inbox", "_STAN.acks.x", "y")] == [
        "inbox",
        "subject",
        None,
    ]
    waiting.take("a")
    assert waiting.evidence("inbox") is None


def test_a_guid_that_comes_again_and_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publications, "_PUBLICATIONS", 2)
    waiting, first, again = Publications(), row("a"), row("a")
    assert list(waiting.add(first, "one")) == []
    assert list(waiting.add(again, "two")) == [first]
    assert waiting.evidence("one") is None
    assert list(waiting.add(row("b"), "two")) == []
    assert list(waiting.add(row("c"), "two")) == [again]
    assert again.anomalies == [Anomaly.FORGOTTEN.value] and first.anomalies is None
    assert [each.guid for each in waiting.rest()] == ["b", "c"]
