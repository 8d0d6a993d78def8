"""Opening a session: bad names are refused here, bad answers are named errors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming.session import check_channel

from tests.support.fake_streaming import SUBJECTS, FakeStreaming
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server


@pytest.fixture
def fake(server: NatsServer) -> Iterator[FakeStreaming]:
    with FakeStreaming(server.url) as running:
        yield running


@pytest.mark.parametrize("channel", ["", "a b", "a.*", ">", "a..b", ".a", "a/b", "a\r\nPUB"])
def test_a_name_that_no_channel_may_have(channel: str) -> None:
    with pytest.raises(streaming.InvalidChannelError) as caught:
        check_channel(channel)
    assert caught.value.channel == channel


@pytest.mark.parametrize("cluster_id", ["", "a b", "*", "a.>", "a."])
def test_a_cluster_id_that_cannot_be(server: NatsServer, cluster_id: str) -> None:
    with pytest.raises(natsync.OptionError, match="cluster_id"):
        streaming.connect(cluster_id, "me", servers=server.url)


@pytest.mark.parametrize("client_id", ["", "a b", "a.b", "a*", "\xe9", "me\n"])
def test_a_client_id_that_cannot_be(server: NatsServer, client_id: str) -> None:
    with pytest.raises(natsync.OptionError, match="only letters, digits, - and _"):
        streaming.connect(CLUSTER, client_id, servers=server.url)


def test_a_cluster_that_is_not_there_is_reported_at_once(server: NatsServer) -> None:
    with pytest.raises(streaming.UnknownClusterError, match="nobody listens") as caught:
        streaming.connect("no-such-cluster", "me", servers=server.url, connect_timeout=30.0)
    assert caught.value.cluster_id == "no-such-cluster"


def test_a_server_that_does_not_answer(fake: FakeStreaming, server: NatsServer) -> None:
    fake.connect = lambda request: None
    with pytest.raises(streaming.UnknownClusterError, match="no answer within 0.1 s"):
        streaming.connect("fake", "me", servers=server.url, connect_timeout=0.1)


@pytest.mark.parametrize(
    "answer, reason",
    [
        (b"hello", "ConnectResponse with"),
        (SUBJECTS.to_bytes()[:-3], "truncated"),
        (stan.MsgProto(1, "a", "", b"data", 5).to_bytes(), "ConnectResponse.pub_prefix"),
        (b"", "without subjects"),
        (stan.PubAck("guid").to_bytes(), "without subjects"),
    ],
)
def test_an_answer_that_is_none(
    fake: FakeStreaming, server: NatsServer, answer: bytes, reason: str
) -> None:
    fake.connect = lambda request: answer
    with pytest.raises(streaming.ResponseError, match=reason) as caught:
        streaming.connect("fake", "me", servers=server.url)
    assert caught.value.subject == "_STAN.discover.fake"


def test_fields_that_nobody_knows_are_no_error(fake: FakeStreaming, server: NatsServer) -> None:
    fake.connect = lambda request: SUBJECTS.to_bytes() + b"\xc0\x3e\x07"
    with streaming.connect("fake", "me", servers=server.url) as sc:
        assert sc.publish("a")


def test_the_request_says_who_connects(fake: FakeStreaming, server: NatsServer) -> None:
    with streaming.connect("fake", "me", servers=server.url, ping_interval=7, ping_max_out=9):
        request = stan.ConnectRequest.parse(fake.wait_request("_STAN.discover.fake"))
    assert (request.client_id, request.protocol) == ("me", 1)
    assert (request.ping_interval, request.ping_max_out) == (7, 9)
    assert request.heartbeat_inbox.startswith("_INBOX.") and len(request.conn_id) == 22


def test_a_client_id_that_is_taken(streaming_server: StreamingServer) -> None:
    url = streaming_server.url
    with streaming.connect(CLUSTER, "taken", servers=url):
        with pytest.raises(streaming.DuplicateClientError, match="already registered") as caught:
            streaming.connect(CLUSTER, "taken", servers=url)
    assert caught.value.operation == f"connecting client 'taken' to cluster '{CLUSTER}'"
    streaming.connect(CLUSTER, "taken", servers=url).close()
