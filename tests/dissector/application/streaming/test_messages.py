"""Messages of NATS Streaming, read without raising."""

from __future__ import annotations

import pytest

from dissect.nats.application.streaming.messages import is_plausible, parsed, start_text
from natsync.protocol.streaming import MsgProto, PubAck, StartPosition, SubscriptionRequest

from tests.dissector.application.scripted_session import Nothing, ScriptedSession

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
def test_plausible_deliveries(message: MsgProto, plausible: bool) -> None:
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
def test_starts(request_: SubscriptionRequest, text: str) -> None:
    assert start_text(request_) == text
