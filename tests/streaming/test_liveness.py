"""Heartbeats are answered; pings without an answer end the connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import streaming
from natsync.protocol import streaming as stan
from natsync.streaming import liveness

from tests.support.fake_streaming import SUBJECTS, FakeStreaming
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

PINGED = replace(SUBJECTS, ping_requests="fake.ping", ping_interval=1, ping_max_out=1)


@pytest.fixture
def fake(server: NatsServer) -> Iterator[FakeStreaming]:
    with FakeStreaming(server.url) as running:
        running.connect = lambda request: PINGED.to_bytes()
        yield running


def test_heartbeats_are_answered_until_it_is_closed(
    fake: FakeStreaming, server: NatsServer
) -> None:
    with streaming.connect("fake", "me", servers=server.url):
        request = stan.ConnectRequest.parse(fake.wait_request("_STAN.discover.fake"))
        assert fake.nc.request(request.heartbeat_inbox, timeout=10).data == b""
        fake.nc.publish(request.heartbeat_inbox)  # without a reply: nothing to answer
        assert fake.nc.request(request.heartbeat_inbox, timeout=10).data == b""
        names = [thread.name for thread in threading.enumerate()]
        assert any(name.endswith("-streaming-me") for name in names)
    with pytest.raises(natsync.NoRespondersError):
        fake.nc.request(request.heartbeat_inbox, timeout=10)
    assert not any(thread.name.endswith("-streaming-me") for thread in threading.enumerate())


def test_pings_without_an_answer_end_it(fake: FakeStreaming, server: NatsServer) -> None:
    """No answer, or one that is none; what is not acknowledged then is told."""
    answers = iter([b"\xff", None])
    fake.ping = lambda request: next(answers)
    fake.publish = lambda request: None
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    sc = streaming.connect("fake", "me", servers=server.url, on_connection_lost=lost.put)
    future = sc.publish_async("a", b"1")
    ping = stan.Ping.parse(fake.wait_request("fake.ping"))
    error = lost.get(timeout=10)
    assert error.reason == "1 pings without an answer"
    assert error.unacknowledged == (future.guid,)
    with pytest.raises(natsync.ConnectionClosedError):
        future.result(10)
    assert len(ping.conn_id) == 22
    sc.close()


def test_nobody_who_listens_to_pings_is_no_answer(fake: FakeStreaming, server: NatsServer) -> None:
    nowhere = replace(PINGED, ping_requests="fake.nowhere")
    fake.connect = lambda request: nowhere.to_bytes()
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    with streaming.connect("fake", "me", servers=server.url, on_connection_lost=lost.put):
        assert lost.get(timeout=10).reason == "1 pings without an answer"


def test_an_error_in_the_answer_to_a_ping_ends_it(fake: FakeStreaming, server: NatsServer) -> None:
    fake.ping = lambda request: stan.PingResponse("client has been replaced").to_bytes()
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    with natsync.connect(server.url) as nc:
        with streaming.connect("fake", "me", nc=nc, on_connection_lost=lost.put) as sc:
            assert lost.get(timeout=10).reason == "client has been replaced"
            assert sc.closed
        nc.flush()  # is not closed: it was borrowed


def test_the_callback_may_close_it(fake: FakeStreaming, server: NatsServer) -> None:
    fake.ping = lambda request: stan.PingResponse("replaced").to_bytes()
    closed: SimpleQueue[bool] = SimpleQueue()
    sc = streaming.connect(
        "fake",
        "me",
        servers=server.url,
        on_connection_lost=lambda error: (sc.close(), closed.put(True)),
    )
    assert closed.get(timeout=10)


def test_closing_waits_for_the_callback_up_to_its_timeout(
    fake: FakeStreaming, server: NatsServer
) -> None:
    fake.ping = lambda request: stan.PingResponse("replaced").to_bytes()
    begun, go = threading.Event(), threading.Event()
    sc = streaming.connect(
        "fake",
        "me",
        servers=server.url,
        on_connection_lost=lambda error: (begun.set(), go.wait(20)),
    )
    assert begun.wait(10)
    started = monotonic()
    sc.close(0.1)
    assert monotonic() - started < 5
    go.set()
    sc.close()


def test_a_process_that_was_suspended_gives_its_pings_time(
    fake: FakeStreaming, server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not make up for those that it has missed."""
    suspended = 0.0
    monkeypatch.setattr(liveness, "monotonic", lambda: monotonic() + suspended)
    lost: SimpleQueue[streaming.ConnectionLostError] = SimpleQueue()
    with streaming.connect("fake", "me", servers=server.url, on_connection_lost=lost.put) as sc:
        suspended = 60.0
        fake.wait_request("fake.ping")
        fake.wait_request("fake.ping")
        assert not sc.closed and lost.empty()
