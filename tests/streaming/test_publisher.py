"""Publishing: acknowledged, refused, or of unknown fate."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import wait
from queue import SimpleQueue

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming import StartPosition

from tests.support.fake_streaming import FakeStreaming
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server


@pytest.fixture
def fake(server: NatsServer) -> Iterator[FakeStreaming]:
    with FakeStreaming(server.url) as running:
        yield running


@pytest.fixture
def sc(streaming_server: StreamingServer) -> Iterator[streaming.StreamingConnection]:
    with streaming.connect(CLUSTER, "publisher", servers=streaming_server.url) as connected:
        yield connected


def test_every_message_is_stored_once_and_in_order(sc: streaming.StreamingConnection) -> None:
    guids = [sc.publish("order", b"%d" % number) for number in range(10)]
    futures = [sc.publish_async("order", bytearray(b"%d" % number)) for number in range(10, 300)]
    guids += [future.result(20) for future in futures]
    assert len(set(guids)) == 300
    assert [future.guid for future in futures] == guids[10:]
    assert {future.channel for future in futures} == {"order"}
    sub = sc.subscribe("order", start=StartPosition.FIRST)
    came = [sub.next_msg(10) for _ in range(300)]
    assert [(msg.sequence, msg.data) for msg in came] == [
        (number + 1, b"%d" % number) for number in range(300)
    ]


def test_an_empty_message_and_a_large_one(sc: streaming.StreamingConnection) -> None:
    large = bytes(range(256)) * 4000
    sc.publish("sizes")
    sc.publish("sizes", memoryview(large))
    sub = sc.subscribe("sizes", start=StartPosition.FIRST)
    assert [sub.next_msg(10).data for _ in range(2)] == [b"", large]
    with pytest.raises(natsync.MaxPayloadError):
        sc.publish("sizes", bytes(1 << 20))


def test_what_no_message_can_be(sc: streaming.StreamingConnection) -> None:
    for publish in (sc.publish, sc.publish_async):
        with pytest.raises(streaming.InvalidChannelError):
            publish("a.*", b"")
        with pytest.raises(TypeError):
            publish("a", "text")
        with pytest.raises(TypeError, match="channel must be str, not NoneType"):
            publish(None, b"")


def test_futures_can_be_waited_for_together(sc: streaming.StreamingConnection) -> None:
    futures = [sc.publish_async("futures", b"1") for _ in range(5)]
    done, _ = wait([future.future for future in futures], 10)
    assert len(done) == 5 and all(future.done() for future in futures)
    reported: SimpleQueue[str] = SimpleQueue()
    futures[0].add_done_callback(lambda future: reported.put(future.result()))
    assert reported.get(timeout=10) == futures[0].guid


def test_a_message_that_the_server_refuses(start_streaming_server: object) -> None:
    assert callable(start_streaming_server)
    limited = start_streaming_server("-mc", "1", store="MEMORY")
    with streaming.connect(CLUSTER, "me", servers=limited.url) as sc:
        sc.publish("one")
        with pytest.raises(streaming.RefusedError, match="publishing to 'two': too many channels"):
            sc.publish("two")
        with pytest.raises(streaming.RefusedError, match="too many channels"):
            sc.publish_async("two").result(10)


@pytest.mark.parametrize(
    "answer, reason",
    [(b"\xff", "truncated"), (stan.PubAck("other").to_bytes(), "PubAck of 'other', not of")],
)
def test_an_acknowledgement_that_is_none(
    fake: FakeStreaming, server: NatsServer, answer: bytes, reason: str
) -> None:
    fake.publish = lambda request: answer
    with streaming.connect("fake", "me", servers=server.url) as sc:
        with pytest.raises(streaming.ResponseError, match=reason):
            sc.publish("a")
        with pytest.raises(streaming.ResponseError, match=reason):
            sc.publish_async("a").result(10)


def test_no_acknowledgement_in_time(fake: FakeStreaming, server: NatsServer) -> None:
    fake.publish = lambda request: None
    with streaming.connect("fake", "me", servers=server.url, pub_ack_wait=0.1) as sc:
        with pytest.raises(streaming.PubAckTimeoutError, match="on a within 0.1 s"):
            sc.publish("a")
        future = sc.publish_async("a")
        with pytest.raises(streaming.PubAckTimeoutError) as caught:
            future.result(10)
        assert (caught.value.channel, caught.value.guid) == ("a", future.guid)


def test_no_server_is_reported_at_once(server: NatsServer) -> None:
    with FakeStreaming(server.url) as fake:
        sc = streaming.connect("fake", "me", servers=server.url, connect_timeout=0.5)
    del fake
    with pytest.raises(natsync.NoRespondersError):
        sc.publish("a")
    with pytest.raises(natsync.NoRespondersError):
        sc.publish_async("a").result(10)
    with pytest.raises(natsync.NoRespondersError):
        sc.close()


def test_a_nats_connection_that_breaks_is_reported_at_once(
    fake: FakeStreaming, server: NatsServer
) -> None:
    fake.publish = lambda request: None
    with natsync.connect(server.url) as nc, streaming.connect("fake", "me", nc=nc) as sc:
        future = sc.publish_async("a")
        fake.wait_request("fake.pub.a")
        nc.reconnect()
        with pytest.raises(natsync.ConnectionReconnectingError):
            future.result(10)
        assert nc.wait_connected(10)


def test_only_so_many_are_not_acknowledged(fake: FakeStreaming, server: NatsServer) -> None:
    go = threading.Event()
    answer = fake.publish
    fake.publish = lambda request: answer(request) if go.wait(10) else None
    with streaming.connect("fake", "me", servers=server.url, max_pub_acks_inflight=2) as sc:
        futures = [sc.publish_async("a") for _ in range(2)]
        third = threading.Thread(target=lambda: futures.append(sc.publish_async("a")))
        third.start()
        third.join(0.05)
        assert third.is_alive() and len(futures) == 2
        go.set()
        third.join(10)
        assert [future.result(10) for future in futures] == [future.guid for future in futures]


def test_a_callback_may_publish(fake: FakeStreaming, server: NatsServer) -> None:
    reported: SimpleQueue[str] = SimpleQueue()

    def publish_more(future: streaming.PubAckFuture) -> None:
        reported.put(future.guid)
        sc.publish_async("a")
        reported.put(sc.publish_async("a").result(10))

    with streaming.connect("fake", "me", servers=server.url, max_pub_acks_inflight=1) as sc:
        first = sc.publish_async("a")
        first.add_done_callback(publish_more)
        assert reported.get(timeout=10) == first.guid != reported.get(timeout=10)
        assert repr(first) == f"PubAckFuture('a', {first.guid}, done)"


def test_what_failed_does_not_pile_up(fake: FakeStreaming, server: NatsServer) -> None:
    fake.publish = lambda request: b"\xff"
    with streaming.connect("fake", "me", servers=server.url, max_pub_acks_inflight=2) as sc:
        for _ in range(20):
            with pytest.raises(streaming.ResponseError):
                sc.publish_async("a").result(10)
        assert len(sc._publisher._sent) <= 5
        assert sc._publisher.unacknowledged == ()


def test_a_failed_send_makes_room_again(sc: streaming.StreamingConnection) -> None:
    for _ in range(3):
        with pytest.raises(natsync.MaxPayloadError):
            sc.publish_async("room", bytes(1 << 20))
    assert sc.publish_async("room").result(10)
