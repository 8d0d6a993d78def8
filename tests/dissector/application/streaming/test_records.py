"""The rows of NATS Streaming, and messages that may be anything."""

from __future__ import annotations

import pytest

from dissect.nats.application.streaming.records import (
    is_plausible,
    mark,
    new_row,
    parsed,
    start_text,
)
from natsync.protocol.streaming import MsgProto, PubAck, StartPosition, SubscriptionRequest

from tests.dissector.application.scripted_session import Nothing, ScriptedSession


def test_a_new_row_is_of_its_frame_and_may_be_marked() -> None:
    frame = ScriptedSession(Nothing()).pub("a")
    row = new_row(frame, "publish", "subject")
    assert (row.session, row.number, row.ts_ns, row.op) == ("s", 1, frame.ts_ns, "publish")
    for anomaly in ("one", "two"):
        mark(row, anomaly)
    assert row.anomalies == ["one", "two"]


NOW = 1_600_000_000 * 10**9


def test_what_parses_and_what_does_not() -> None:
    session = ScriptedSession(Nothing())
    assert parsed(PubAck, session.msg("a", PubAck(guid="g").to_bytes())) == PubAck(guid="g")
    assert parsed(PubAck, session.msg("a", b"\xff\xff")) is None


@pytest.mark.parametrize(
    "message, plausible",
    [
        (MsgProto(sequence=1, subject="a", timestamp=NOW), True),
        (MsgProto(sequence=0, subject="a", timestamp=NOW), False),
        (MsgProto(sequence=1, subject="a..b", timestamp=NOW), False),
        (MsgProto(sequence=1, subject="a", timestamp=5), False),
        (MsgProto(sequence=1, subject="a", timestamp=NOW * 2), False),
        (MsgProto(sequence=1, subject="a", timestamp=NOW, unknown=b"x"), False),
    ],
)
def test_a_delivery_is_plausible_by_its_subject_and_time(
    message: MsgProto, plausible: bool
) -> None:
    frame = ScriptedSession(Nothing()).msg("_INBOX.1", message.to_bytes())
    frame.ts_ns = NOW
    assert is_plausible(message, frame) is plausible


@pytest.mark.parametrize(
    "request_, text",
    [
        (SubscriptionRequest(), "new_only"),
        (SubscriptionRequest(start_position=StartPosition.FIRST), "first"),
        (SubscriptionRequest(start_position=3, start_sequence=7), "sequence 7"),
        (SubscriptionRequest(start_position=2, start_time_delta=9), "9 ns ago"),
        (SubscriptionRequest(start_position=77), "77"),
    ],
)
def test_the_start_of_a_subscription_is_said_in_words(
    request_: SubscriptionRequest, text: str
) -> None:
    assert start_text(request_) == text
