"""Messages that may be deliveries: the latest to each inbox, as many as memory allows."""

from __future__ import annotations

import pytest

from dissect.nats.application import held_payloads
from dissect.nats.application.streaming import candidates
from dissect.nats.application.streaming.candidates import Candidates
from dissect.nats.application.streaming.records import StreamingRecord
from natsync.protocol.streaming import MsgProto


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
        monkeypatch.setattr(candidates, "_INBOXES", 2)
    else:
        monkeypatch.setattr(held_payloads, "HELD_BYTES", 10)
    known = Candidates()
    for inbox, sequence in ("a", 1), ("b", 2), ("a", 3), ("c", 4):
        put(known, inbox, sequence)
    assert len(known) == 2
    assert [put(known, "a", 5), put(known, "b", 6), put(known, "c", 7)] == [3, None, None]
