"""Servers that stop, stall, crash and come back: nothing that was acknowledged is lost."""

from __future__ import annotations

import time
from contextlib import ExitStack
from itertools import islice
from queue import SimpleQueue
from signal import SIGKILL

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming import Msg, StartPosition

from tests.support.fake_streaming import FakeStreaming
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StartStreamingServer, StreamingServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server


def publish(sc: streaming.StreamingConnection, channel: str, data: bytes) -> None:
    """Until it is acknowledged."""
    until = time.monotonic() + 40
    while True:
        try:
            sc.publish(channel, data)
            return
        except (natsync.ConnectionReconnectingError, natsync.NoRespondersError, TimeoutError):
            assert time.monotonic() < until, f"{channel} is not acknowledged"
            time.sleep(0.05)


@pytest.mark.parametrize("embedded", [True, False], ids=["embedded", "separate"])
def test_a_session_outlives_a_restart_with_its_store(
    server: NatsServer, start_streaming_server: StartStreamingServer, embedded: bool
) -> None:
    """The NATS connection of the first breaks too; that of the second does not."""
    running = start_streaming_server(nats_url="" if embedded else server.url)
    lost: SimpleQueue[natsync.Error] = SimpleQueue()
    with streaming.connect(
        CLUSTER,
        "me",
        servers=running.url,
        pub_ack_wait=2.0,
        ping_interval=1,
        on_connection_lost=lost.put,
    ) as sc:
        durable = sc.subscribe("a", durable="d", start=StartPosition.FIRST)
        plain = sc.subscribe("a", start=StartPosition.FIRST)
        for number in range(1, 11):
            sc.publish("a", b"%d" % number)
        came = [durable.next_msg(10).sequence for _ in range(10)]
        assert came == [plain.next_msg(10).sequence for _ in range(10)] == list(range(1, 11))
        running.restart(SIGKILL)
        for number in range(11, 21):
            publish(sc, "a", b"%d" % number)
        # Acknowledgements that the crash has swallowed: those come again.
        for sub in (durable, plain):
            last = 10
            while last < 20:
                msg = sub.next_msg(20)
                assert msg.redelivered or msg.sequence == last + 1
                last = max(last, msg.sequence)
        assert lost.empty() and not sc.closed


def test_a_stalled_server_is_waited_for(
    server: NatsServer, start_streaming_server: StartStreamingServer
) -> None:
    running = start_streaming_server(nats_url=server.url, store="MEMORY")
    with streaming.connect(CLUSTER, "me", servers=server.url, pub_ack_wait=1.0) as sc:
        sub = sc.subscribe("a")
        running.stall()
        with pytest.raises(streaming.PubAckTimeoutError):
            sc.publish("a", b"1")
        future = sc.publish_async("a", b"2")
        running.resume()
        assert future.result(20) == future.guid
        assert [sub.next_msg(10).data for _ in range(2)] == [b"1", b"2"]


def test_a_client_that_stalls_is_replaced(
    server: NatsServer, start_streaming_server: StartStreamingServer
) -> None:
    """Its NATS connection was closed without a word to the streaming server: the id is free at once."""
    start_streaming_server(nats_url=server.url, store="MEMORY")
    with natsync.connect(server.url) as nc:
        first = streaming.connect(CLUSTER, "me", nc=nc)
    with streaming.connect(CLUSTER, "me", servers=server.url) as second:
        second.publish("a", b"1")
        with pytest.raises(streaming.ConnectionLostError):
            first.publish("a", b"1")
        first.close()


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_cluster_whose_leader_dies(server: NatsServer) -> None:
    """Three nodes with raft: what was acknowledged is there, in order, when another one leads."""
    nodes = ["a", "b", "c"]
    came: SimpleQueue[Msg] = SimpleQueue()
    lost: SimpleQueue[natsync.Error] = SimpleQueue()
    with ExitStack() as stack:
        cluster = [
            StreamingServer(
                *("-clustered", "-cluster_node_id", node, "-cluster_log_path", "raft"),
                *("-cluster_peers", ",".join(other for other in nodes if other != node)),
                nats_url=server.url,
            )
            for node in nodes
        ]
        for each in cluster:
            stack.callback(each.__exit__)
            each.start("server.*(leader|follower|Recovering)|Recovering")
        leader = wait_leader(cluster)
        sc = stack.enter_context(
            streaming.connect(
                CLUSTER, "me", servers=server.url, pub_ack_wait=2.0, on_connection_lost=lost.put
            )
        )
        sc.subscribe("a", handler=came.put, start=StartPosition.FIRST)
        for number in range(1, 101):
            publish(sc, "a", b"%d" % number)
        leader.terminate(SIGKILL)
        cluster.remove(leader)
        wait_leader(cluster)
        for number in range(101, 201):
            publish(sc, "a", b"%d" % number)
        seen: dict[int, bytes] = {}
        while b"200" not in seen.values():
            msg = came.get(timeout=40)
            assert seen.setdefault(msg.sequence, msg.data) == msg.data
        assert sorted(seen) == list(range(1, len(seen) + 1))
        numbers = [int(seen[sequence]) for sequence in sorted(seen)]
        # A message may be stored twice: it was sent again when no acknowledgement had come.
        assert sorted(set(numbers)) == list(range(1, 201)) and numbers == sorted(numbers)
        assert lost.empty()


def wait_leader(cluster: list[StreamingServer]) -> StreamingServer:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        for each in cluster:
            if "Streaming Server is ready" in each.log() and "server became leader" in each.log():
                return each
        time.sleep(0.05)
    raise AssertionError("no leader:\n" + "\n".join(each.log() for each in cluster))


def test_an_outage_in_which_nothing_can_be_acknowledged_ends_no_loop(server: NatsServer) -> None:
    """The server sends again what it takes for unread."""
    with (
        FakeStreaming(server.url) as fake,
        Proxy(server.host, server.port) as proxy,
        natsync.connect(proxy.url, reconnect_buffer=0) as nc,
        streaming.connect("fake", "me", nc=nc) as sc,
    ):
        sub = sc.subscribe("a")
        inbox = stan.SubscriptionRequest.parse(fake.wait_request("fake.sub")).inbox
        for number in (1, 2, 3):
            fake.nc.publish(inbox, stan.MsgProto(number, "a", "", b"x", 5).to_bytes())
        eventually(lambda: sub.pending_msgs == 3)
        proxy.admit(Admission.REFUSE)
        proxy.cut()
        eventually(lambda: nc.status is natsync.Status.RECONNECTING)
        assert sub.next_msg(10).sequence == 1
        assert [msg.sequence for msg in islice(sub, 2)] == [2, 3]
        proxy.admit(Admission.FORWARD)
        assert nc.wait_connected(10)
