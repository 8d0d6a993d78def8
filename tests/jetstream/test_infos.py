"""Information of the server: mirrors and sources, clusters, and responses of other versions."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from natsync.jetstream import (
    AccountInfo,
    ClusterOrigin,
    ConsumerConfig,
    ConsumerInfo,
    ErrorInfo,
    JetStream,
    Placement,
    StreamConfig,
    StreamInfo,
    StreamSource,
)

from tests.jetstream.streams import unknown
from tests.support.waiting import eventually

ACCOUNT = {
    "memory": 1,
    "tiers": {"R3": {"storage": 7, "limits": {"max_storage": 9}}},
    "limits": {"max_bytes_required": True},
    "api": {"level": 5, "total": 3, "errors": 1, "inflight": 2},
}
CLUSTERED = {
    "config": {"name": "a"},
    "cluster": {
        "name": "c",
        "leader": "n1",
        "leader_since": "2026-01-01T00:00:00Z",
        "replicas": [{"name": "n2", "current": True, "active": 1_500_000_000, "lag": 3}],
    },
    "mirror": {"name": "o", "lag": 2, "active": -1, "error": {"code": 404}},
    "alternates": [{"name": "m", "cluster": "c"}],
}


def test_tiers_of_an_account() -> None:
    info = AccountInfo.from_json(ACCOUNT)
    assert info.tiers["R3"].limits.max_storage == 9 and info.tiers["R3"].storage == 7
    assert info.limits.max_bytes_required and info.api.inflight == 2
    assert info.to_json() == ACCOUNT


def test_a_replicated_stream() -> None:
    info = StreamInfo.from_json(CLUSTERED)
    assert info.cluster and info.cluster.replicas[0].active == 1.5
    assert info.mirror and info.mirror.active < 0 and info.mirror.error == ErrorInfo(code=404)
    assert info.to_json() == {
        **CLUSTERED,
        "mirror": {"name": "o", "lag": 2, "error": {"code": 404}},
    }


def test_a_stream_that_moves_to_other_servers() -> None:
    """As server 2.15.1 sends it while a stream gets three copies."""
    peers = [{"name": "nats-2", "peer": "cnrtt3eg"}, {"name": "n1", "peer": "y", "pending": True}]
    cluster = {
        "name": "nats",
        "raft_group": "S-R3F-z46UuSqx",
        "replicas": peers,
        "desired": {
            "created": "2026-11-28T10:46:07.828191359Z",
            "name": "nats",
            "replicas": peers,
            "origin": {"replicas": 1, "placement": {"tags": ["a"]}, "retention": "limits"},
            "status": {"description": "waiting for peer set to settle", "type": "meta"},
        },
    }
    sent = {"config": {"name": "a"}, "cluster": cluster, "mirror": {"name": "o", "seq": 7}}
    info = StreamInfo.from_json(sent)
    assert [*unknown(info)] == [] and info.to_json() == sent
    assert info.cluster and info.cluster.replicas[1].pending and info.cluster.desired
    assert info.cluster.desired.status and info.cluster.desired.status.type == "meta"
    assert info.cluster.desired.origin == ClusterOrigin(
        replicas=1, placement=Placement(tags=["a"]), retention="limits"
    )
    assert info.mirror and info.mirror.seq == 7


@pytest.mark.server
def test_every_field_of_an_answer_is_known(js: JetStream, stream_name: str) -> None:
    """Those of a cluster: see `test_cluster.py`."""
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))
    mirror = js.create_stream(StreamConfig(f"{stream_name}-m", mirror=StreamSource(stream_name)))
    js.publish(f"{stream_name}.1")
    eventually(lambda: mirror.info().state.messages == 1)
    grouped = ConsumerConfig(
        durable_name="c", priority_groups=["g"], priority_policy="pinned_client"
    )
    stream.create_consumer(grouped).fetch(1, timeout=10)
    stream.create_consumer(ConsumerConfig(durable_name="p", deliver_subject=f"to.{stream_name}"))
    until = datetime.now(timezone.utc) + timedelta(hours=1)
    answers = [
        js.account_info(),
        stream.info(deleted_details=True, subjects_filter=">"),
        mirror.info(),
        stream.pause_consumer("c", until),
        *stream.consumers(),
        *(info for info in js.streams() if info.config.name == stream_name),
        stream.resume_consumer("c"),
    ]
    reset = stream.reset_consumer("p", 1)
    assert [*unknown([*answers, reset])] == [] and reset.reset_seq == 1


def test_a_consumer_without_what_old_servers_do_not_say() -> None:
    info = ConsumerInfo.from_json(
        {"stream_name": "a", "name": "c", "config": {"ack_policy": "all"}}
    )
    assert info.config.ack_policy == "all" and info.ts is None and info.delivered.stream_seq == 0


@pytest.mark.server
def test_a_mirror_says_how_far_it_is(js: JetStream, stream_name: str) -> None:
    js.create_stream(StreamConfig(stream_name))
    mirror = js.create_stream(StreamConfig(f"{stream_name}-m", mirror=StreamSource(stream_name)))
    info = mirror.info()
    assert info.mirror and info.mirror.name == stream_name and info.mirror.lag == 0
