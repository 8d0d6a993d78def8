"""A message of a channel: what it says of itself."""

from __future__ import annotations

from datetime import datetime, timezone

from natsync.protocol.streaming import MsgProto
from natsync.streaming import Msg


def test_a_message_says_what_came() -> None:
    acked: list[Msg] = []
    msg = Msg(MsgProto(7, "orders", "back", b"data", 1_700_000_000_123_456_789), acked.append)
    assert (msg.channel, msg.sequence, msg.reply, msg.data) == ("orders", 7, "back", b"data")
    assert (msg.redelivered, msg.redelivery_count) == (False, 0)
    assert msg.timestamp_ns == 1_700_000_000_123_456_789
    assert msg.time == datetime(2023, 11, 14, 22, 13, 20, 123456, timezone.utc)
    assert repr(msg) == "Msg('orders', sequence=7, 4 bytes)"
    msg.ack()
    assert acked == [msg]


def test_a_message_that_came_before_says_how_often() -> None:
    msg = Msg(MsgProto(7, "orders", "", b"", 0, True, 3), lambda msg: None)
    assert (msg.redelivered, msg.redelivery_count) == (True, 3)
    assert repr(msg) == "Msg('orders', sequence=7, 0 bytes, redelivered 3 times)"
