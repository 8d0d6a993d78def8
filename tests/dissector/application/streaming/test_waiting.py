"""Messages of NATS Streaming that wait: publications, deliveries, and candidates for deliveries."""

from __future__ import annotations

import pytest

from dissect.nats.application import recent
from dissect.nats.application.streaming import waiting
from dissect.nats.application.streaming.records import StreamingRecord
from dissect.nats.application.streaming.waiting import Candidates, DeliveryTimes, Publications
from dissect.nats.schema.anomalies import Anomaly
from natsync.protocol.streaming import MsgProto


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
    monkeypatch.setattr(waiting, "_PUBLICATIONS", 2)
    publications, first, again = Publications(), row("a"), row("a")
    assert list(publications.add(first, "one")) == []
    assert list(publications.add(again, "two")) == [first]
    assert publications.evidence("one") is None
    assert list(publications.add(row("b"), "two")) == []
    assert list(publications.add(row("c"), "two")) == [again]
    assert again.anomalies == [Anomaly.FORGOTTEN.value] and first.anomalies is None
    assert [each.guid for each in publications.rest()] == ["b", "c"]


def test_each_inbox_has_its_own_time_and_none_the_latest() -> None:
    times = DeliveryTimes()
    times.add("orders", 1, "a", 10)
    times.add("orders", 1, "b", 20)
    assert ("orders", 1) in times and ("orders", 2) not in times
    assert [times.take("orders", 1, inbox) for inbox in ("a", "b", "", "a")] == [10, 20, 20, None]
    assert ("orders", 1) not in times


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_DELIVERIES", 2)
    times = DeliveryTimes()
    for sequence in (1, 2):
        times.add("orders", sequence, "a", sequence)
    assert ("orders", 1) not in times and times.take("orders", 2, "a") == 2


def put(known: Candidates, inbox: str, sequence: int) -> int | None:
    """Puts a message of four bytes; returns the sequence of the one before it."""
    row = StreamingRecord(
        session="s",
        number=sequence,
        ts_ns=1,
        kind="client",
        account=None,
        op="deliver",
        evidence="shape",
    )
    row.payload = "1234"
    before = known.put(inbox, row, MsgProto(sequence, "orders", data=b"1234"))
    if before is None:
        return None
    assert before[0].number == before[1].sequence and not before[1].data
    return before[1].sequence


def test_the_message_before_comes_back_once() -> None:
    known = Candidates()
    assert [put(known, "a", 1), put(known, "b", 2), put(known, "a", 3)] == [None, None, 1]
    assert [put(known, "a", 4), put(known, "b", 5)] == [3, 2]
    assert len(known) == 2


@pytest.mark.parametrize("limit", ["inboxes", "bytes"])
def test_the_inbox_that_was_silent_longest_is_forgotten(
    monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "inboxes":
        monkeypatch.setattr(waiting, "_INBOXES", 2)
    else:
        monkeypatch.setattr(recent, "HELD_BYTES", 10)
    known = Candidates()
    for inbox, sequence in ("a", 1), ("b", 2), ("a", 3), ("c", 4):
        put(known, inbox, sequence)
    assert len(known) == 2
    assert [put(known, "a", 5), put(known, "b", 6), put(known, "c", 7)] == [3, None, None]
