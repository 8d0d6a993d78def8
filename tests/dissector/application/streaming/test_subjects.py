"""Which subject of a NATS Streaming server is for what."""

from __future__ import annotations

import pytest

from dissect.nats.application.streaming import subjects as streaming_subjects
from dissect.nats.application.streaming.subjects import Purpose, StreamingSubjects
from natsync.protocol.streaming import ConnectResponse


@pytest.mark.parametrize(
    "subject, op, cluster, channel",
    [
        ("_STAN.discover.c1", "connect", "c1", ""),
        ("_STAN.discover.c1.pings", "ping", "c1", ""),
        ("_STAN.pub.c1.orders.new", "publish", "c1", "orders.new"),
        ("_STAN.sub.c1", "subscribe", "c1", ""),
        ("_STAN.unsub.c1", "unsubscribe", "c1", ""),
        ("_STAN.subclose.c1", "close_subscription", "c1", ""),
        ("_STAN.close.c1", "close", "c1", ""),
    ],
)
def test_subjects_of_the_default_prefixes_are_understood(
    subject: str, op: str, cluster: str, channel: str
) -> None:
    assert StreamingSubjects().purpose(subject) == Purpose(op, cluster, "subject", channel)


@pytest.mark.parametrize("subject", ["orders", "_STAN.raft.c1.x", "_STAN.acks.x", "_STAN", ""])
def test_what_is_none(subject: str) -> None:
    assert StreamingSubjects().purpose(subject) is None


def test_what_a_server_names(monkeypatch: pytest.MonkeyPatch) -> None:
    known = StreamingSubjects()
    known.learn("c1", ConnectResponse(pub_prefix="p.x", sub_requests="s.x", ping_requests="g.x"))
    assert known.purpose("p.x.orders.new") == Purpose("publish", "c1", "discovered", "orders.new")
    assert known.purpose("s.x") == Purpose("subscribe", "c1", "discovered")
    assert known.purpose("g.x") == Purpose("ping", "c1", "discovered")
    assert known.purpose("p.xy") is None and known.purpose("p.x") is None
    monkeypatch.setattr(streaming_subjects, "_MOST", 2)
    known.learn("c2", ConnectResponse(pub_prefix="q", sub_requests="t"))
    assert known.purpose("t") is None
