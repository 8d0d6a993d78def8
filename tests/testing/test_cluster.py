"""Clusters for tests: ready when they say so, also after a member was away."""

from __future__ import annotations

import pytest

import natsync
from natsync.jetstream import StreamConfig
from natsync.testing import NatsCluster, NatsServerError

from tests.support.servers import require_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

TIMEOUT = 20.0


def test_it_is_a_full_mesh_and_ready_for_jetstream() -> None:
    require_server("current")
    with NatsCluster() as cluster:
        assert [server.name for server in cluster] == ["nats-1", "nats-2", "nats-3"]
        assert len({server.route_port for server in cluster}) == len(cluster) == 3
        with cluster.connect(reconnect_wait=0.01) as nc:
            js = nc.jetstream(timeout=TIMEOUT)
            stream = js.create_stream(StreamConfig(name="S", subjects=["s"], num_replicas=3))
            js.publish("s", b"1")
            info = stream.info().cluster
            assert info and info.leader
            leader = cluster.server(info.leader)
            leader.kill()
            with pytest.raises(NatsServerError, match="not running"):
                leader.pid
            cluster.wait_ready()
            eventually(lambda: _published(js))
            leader.start()
            cluster.wait_ready()
        with natsync.connect(leader.url) as nc:
            assert nc.jetstream(timeout=TIMEOUT).stream("S").info().state.messages >= 2


def _published(js: natsync.jetstream.JetStream) -> bool:
    try:
        js.publish("s", b"2")
    except natsync.Error:
        return False
    return True


def test_options_are_those_of_every_server() -> None:
    require_server("current")
    with NatsCluster("max_payload: 1000", size=2, jetstream=False, token="t", name="c") as cluster:
        for server in cluster:
            with server.connect() as nc:
                assert nc.server_info.max_payload == 1000
                assert not nc.server_info.jetstream
        assert cluster[1].name == "c-2"
        with cluster.connect() as nc:
            nc.flush(TIMEOUT)
