"""Information of the server: mirrors and sources, clusters, and responses of other versions."""

from __future__ import annotations

import pytest

from natsync.jetstream import (
    AccountInfo,
    ConsumerInfo,
    ErrorInfo,
    JetStream,
    StreamConfig,
    StreamInfo,
    StreamSource,
)

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
