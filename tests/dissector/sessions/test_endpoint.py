"""What one side sent."""

from __future__ import annotations

from dissect.nats.sessions.endpoint import Endpoint
from dissect.nats.sessions.quota import EntryQuota
from dissect.nats.types import Direction
from natsync.protocol import HMsg, HPub, Ping, Pub, RHMsg, RMsg


def test_counts_are_by_operation() -> None:
    side = Endpoint(Direction.ORIGINATOR, EntryQuota(), lambda sub: None, lambda count: None)
    assert (side.op_counts(), side.messages) == (None, 0)
    for kind in (HMsg, RHMsg, Pub, Ping):
        side.counts[kind] += 1
    assert side.op_counts() == {"HMSG": 2, "PUB": 1, "PING": 1}
    assert (side.messages, side.count((Pub, HPub, RMsg, RHMsg))) == (3, 2)
