"""The connection: whose NATS connection it uses, how it ends, and which callbacks are called."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming import StartPosition

from tests.support.fake_streaming import FakeStreaming
from tests.support.interrupts import entered_at
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server


@pytest.fixture
def fake(server: NatsServer) -> Iterator[FakeStreaming]:
    with FakeStreaming(server.url) as running:
        yield running


def test_a_connection_of_its_own_is_closed_with_it(streaming_server: StreamingServer) -> None:
    sc = streaming.connect(CLUSTER, "own", servers=streaming_server.url)
    assert sc.publish("own", b"1")
    assert (sc.client_id, sc.closed, repr(sc)) == ("own", False, "StreamingConnection('own')")
    sc.close()
    sc.close()
    assert sc.closed and repr(sc) == "StreamingConnection('own', closed)"
    for call in (
        lambda: sc.publish("own"),
        lambda: sc.publish_async("own"),
        lambda: sc.subscribe("own"),
    ):
        with pytest.raises(natsync.ConnectionClosedError):
            call()


def test_a_borrowed_connection_stays_open(streaming_server: StreamingServer) -> None:
    with natsync.connect(streaming_server.url) as nc:
        with streaming.connect(
            CLUSTER, "borrow", nc=nc, connect_timeout=None, pub_ack_wait=None
        ) as sc:
            sc.publish("borrow", b"1")
            sc.close(timeout=None)
        nc.flush()
        with streaming.connect(CLUSTER, "borrow", nc=nc):
            pass
        assert nc.server_info.version


@pytest.mark.parametrize(
    "options, error",
    [
        ({"pub_ack_wait": "1"}, TypeError),
        ({"ping_interval": 0.5}, TypeError),
        ({"on_connection_lost": 5}, TypeError),
        ({"ping_interval": 0}, natsync.OptionError),
        ({"ping_max_out": 1}, natsync.OptionError),
        ({"max_pub_acks_inflight": 0}, natsync.OptionError),
        ({"discover_prefix": "a b"}, natsync.OptionError),
    ],
)
def test_options_that_make_no_sense(options: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error, match=next(iter(options))):
        streaming.connect(CLUSTER, "me", **options)


def test_a_connection_and_servers_are_one_too_many(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc, pytest.raises(natsync.OptionError, match="of nc"):
        streaming.connect(CLUSTER, "me", nc=nc, servers=server.url)


def test_closing_ends_what_waits(streaming_server: StreamingServer) -> None:
    sc = streaming.connect(CLUSTER, "ends", servers=streaming_server.url)
    sub = sc.subscribe("ends")
    sc.close()
    assert sub.closed
    with pytest.raises(natsync.ConnectionClosedError):
        sub.next_msg()
    with pytest.raises(natsync.ConnectionClosedError):
        list(sub)
    sub.close()
    sub.unsubscribe()


def test_closing_waits_for_acknowledgements(fake: FakeStreaming, server: NatsServer) -> None:
    go = threading.Event()
    answer = fake.publish
    fake.publish = lambda request: answer(request) if go.wait(10) else None
    sc = streaming.connect("fake", "me", servers=server.url)
    futures = [sc.publish_async("a", b"1") for _ in range(3)]
    fake.wait_request("fake.pub.a")
    threading.Timer(0.05, go.set).start()
    sc.close()
    assert [future.result(0) for future in futures] == [future.guid for future in futures]


def test_futures_fail_where_no_acknowledgement_comes(
    fake: FakeStreaming, server: NatsServer
) -> None:
    fake.publish = lambda request: None
    sc = streaming.connect("fake", "me", servers=server.url)
    future = sc.publish_async("a", b"1")
    sc.close(0.05)
    with pytest.raises(natsync.ConnectionClosedError):
        future.result(10)


def test_a_server_that_does_not_say_it_has_closed(fake: FakeStreaming, server: NatsServer) -> None:
    fake.leave = lambda request: None
    with natsync.connect(server.url) as nc:
        sc = streaming.connect("fake", "me", nc=nc, connect_timeout=0.1)
        with pytest.raises(natsync.RequestTimeoutError):
            sc.close()
        assert sc.closed
        sc.close()


def test_the_error_of_a_block_is_not_hidden(fake: FakeStreaming, server: NatsServer) -> None:
    fake.leave = lambda request: b"\xff"
    with pytest.raises(KeyError):
        with streaming.connect("fake", "me", servers=server.url) as sc, sc.subscribe("a"):
            raise KeyError("surprise")
    with pytest.raises(streaming.ResponseError):
        with streaming.connect("fake", "me", servers=server.url):
            pass


def test_a_server_that_had_forgotten_it_is_content(fake: FakeStreaming, server: NatsServer) -> None:
    fake.leave = lambda request: stan.CloseResponse("stan: unknown clientID").to_bytes()
    streaming.connect("fake", "me", servers=server.url).close()
    assert stan.CloseRequest.parse(fake.wait_request("fake.close")).client_id == "me"
    fake.leave = lambda request: stan.CloseResponse("stan: invalid close request").to_bytes()
    with pytest.raises(streaming.RefusedError, match="closing client 'me': stan: invalid"):
        streaming.connect("fake", "me", servers=server.url).close()


def test_a_nats_connection_that_is_made_again_changes_nothing(
    streaming_server: StreamingServer,
) -> None:
    back: SimpleQueue[None] = SimpleQueue()
    with natsync.connect(streaming_server.url, on_reconnect=lambda: back.put(None)) as nc:
        with streaming.connect(CLUSTER, "again", nc=nc) as sc:
            sub = sc.subscribe("again", durable="d", start=StartPosition.FIRST)
            sc.publish("again", b"1")
            assert sub.next_msg(10).data == b"1"
            nc.reconnect()
            back.get(timeout=10)
            sc.publish("again", b"2")
            assert sub.next_msg(10).data == b"2"


def test_a_nats_connection_that_is_closed_is_the_end(streaming_server: StreamingServer) -> None:
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    nc = natsync.connect(streaming_server.url)
    sc = streaming.connect(CLUSTER, "gone", nc=nc, on_connection_lost=lost.put)
    sub = sc.subscribe("gone")
    nc.close()
    assert not any(thread.name.endswith("-streaming-gone") for thread in threading.enumerate())
    assert "connection closed" in str(lost.get(timeout=0))
    with pytest.raises(streaming.ConnectionLostError):
        sub.next_msg(10)
    sc.close()


def test_a_nats_connection_that_is_drained_is_the_end(streaming_server: StreamingServer) -> None:
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    nc = natsync.connect(streaming_server.url)
    sc = streaming.connect(CLUSTER, "drained", nc=nc, on_connection_lost=lost.put)
    nc.drain()
    assert lost.get(timeout=10).reason
    with pytest.raises(streaming.ConnectionLostError):
        sc.publish("drained")
    sc.close()


def test_a_server_that_has_forgotten_the_client(server: NatsServer) -> None:
    """It lost its memory: the answer to the next ping says so."""
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    with StreamingServer(store="MEMORY", nats_url=server.url) as stan_server:
        with streaming.connect(
            CLUSTER, "me", servers=server.url, ping_interval=1, on_connection_lost=lost.put
        ) as sc:
            sub = sc.subscribe("a")
            stan_server.terminate()
            with pytest.raises(natsync.NoRespondersError):
                sc.publish("a", b"1")
            stan_server.start()
            error = lost.get(timeout=20)
            assert error.reason == "client has been replaced or is no longer registered"
            assert sc.closed
            with pytest.raises(streaming.ConnectionLostError):
                sub.next_msg()
            with pytest.raises(streaming.ConnectionLostError):
                sc.publish("a", b"1")


def test_a_signal_handler_closes_it_while_it_subscribes(
    fake: FakeStreaming, server: NatsServer
) -> None:
    """At each line of that: both calls end."""
    folder = str(Path(streaming.__file__).parent)
    with natsync.connect(server.url) as nc:
        for line in count(1):
            sc = streaming.connect("fake", "me", nc=nc)
            was_entered = True  # unless the next line says otherwise
            with suppress(natsync.ConnectionClosedError, natsync.BadSubscriptionError):
                was_entered = entered_at(line, folder, lambda: sc.subscribe("c"), sc.close)
            sc.close()
            assert sc.closed
            if not was_entered:
                break
    assert line > 10


def test_a_forked_child_does_not_close_its_parents_connection(
    fake: FakeStreaming, server: NatsServer
) -> None:
    left: list[bytes] = []
    fake.leave = lambda request: left.append(request) or b""
    with streaming.connect("fake", "me", servers=server.url) as sc:
        child = os.fork()
        if not child:
            status = 1
            try:
                sc.close()
                status = 0 if sc.closed else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert sc.publish("a") and not left
    assert len(left) == 1


def test_connecting_to_nats_takes_no_longer_than_its_timeout(server: NatsServer) -> None:
    with Proxy(server.host, server.port) as proxy:
        proxy.admit(Admission.SWALLOW)
        began = monotonic()
        with pytest.raises(natsync.ConnectError):
            streaming.connect("fake", "me", servers=proxy.url, connect_timeout=0.1)
        assert monotonic() - began < 1.5
        proxy.cut()
