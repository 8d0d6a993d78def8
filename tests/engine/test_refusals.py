"""What a server refuses, now or after a reconnect, reaches those that it means."""

from __future__ import annotations

from functools import partial
from queue import SimpleQueue
from time import sleep

import pytest

import natsync
from natsync import errors
from natsync.protocol import Err, HPub, Msg, Ping, Pong, Pub, ServerInfo, Sub

from tests.support.fake_server import INFO, Background, FakeServer

TIMEOUT = 10.0
TOO_MANY = Err(b"maximum subscriptions exceeded")


def test_requests_fail_at_once_where_their_inbox_is_one_subscription_too_many() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        call = Background(lambda: nc.request("a", timeout=60))
        peer.expect(Sub)
        peer.expect(Pub)
        peer.send(TOO_MANY)
        peer.answer()
        with pytest.raises(errors.ServerError, match="maximum subscriptions exceeded"):
            call.result()
        with pytest.raises(errors.ServerError, match="maximum subscriptions exceeded"):
            nc.request("a", timeout=60)


def test_the_last_subscriptions_are_those_beyond_the_limit() -> None:
    reported: list[errors.Error] = []
    closed: list[errors.Error] = []
    connect = natsync.connect
    with (
        FakeServer() as server,
        server.client(lambda url: connect(url, on_error=reported.append)) as (nc, peer),
    ):
        first = nc.subscribe("a")
        handled = nc.subscribe("b", handler=print, on_close=closed.append)
        last = nc.subscribe("c")
        for _ in range(3):
            peer.expect(Sub)
        peer.send(TOO_MANY)
        peer.expect(Ping)
        later = nc.subscribe("d")
        peer.expect(Sub)
        peer.send(TOO_MANY, Pong(), Msg(b"a", b"1", b"", b"fine"), Msg(b"d", b"4", b"", b"fine"))
        assert first.next_msg(TIMEOUT).data == b"fine" == later.next_msg(TIMEOUT).data
        with pytest.raises(errors.ServerError, match="maximum subscriptions exceeded"):
            last.next_msg(TIMEOUT)
        assert handled.closed
    assert len(reported) == 2 and [str(error) for error in closed] == [str(reported[0])]


def test_an_answer_that_a_loss_prevents_is_not_awaited() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        sub = nc.subscribe("a")
        peer.expect(Sub)
        peer.send(TOO_MANY)
        peer.expect(Ping)
        peer.reset()
        peer = server.accept()
        peer.greet()
        peer.expect(Sub)
        peer.send(TOO_MANY)
        peer.answer()
        with pytest.raises(errors.ServerError, match="maximum subscriptions exceeded"):
            sub.next_msg(TIMEOUT)


def test_kept_messages_that_the_next_server_would_refuse_are_reported_and_not_sent() -> None:
    """It would close the connection at a large one again and again."""
    reported: list[errors.Error] = []
    connect = natsync.connect
    with (
        FakeServer() as server,
        server.client(lambda url: connect(url, on_error=reported.append)) as (nc, peer),
    ):
        peer.reset()
        while nc.status is not natsync.Status.RECONNECTING:
            sleep(0.01)
        for size in (5000, 100, 101):
            nc.publish("a", b"x" * size)
        nc.publish("h", b"y", headers={"K": "v"})
        nc.publish("a", b"last")
        peer = server.accept()
        peer.greet(INFO.replace(max_payload=100, headers=False))
        assert len(peer.expect(Pub).payload) == 100
        assert peer.expect(Pub).payload == b"last"
        nc.publish("a", b"later")
        assert peer.expect(Pub).payload == b"later"
        assert nc.stats.unconfirmed_msgs == 3
    assert [str(error) for error in reported] == [
        str(errors.MaxPayloadError(5000, 100)),
        str(errors.MaxPayloadError(101, 100)),
        str(errors.HeadersNotSupportedError()),
    ]


@pytest.mark.parametrize("supported", [True, False])
def test_a_server_that_comes_later_may_refuse_headers(supported: bool) -> None:
    reported: SimpleQueue[errors.Error] = SimpleQueue()
    with FakeServer() as server:
        connect = partial(
            natsync.connect,
            reconnect_wait=0.01,
            retry_on_failed_connect=True,
            on_error=reported.put,
        )
        call = server.connecting(connect)
        server.accept().close()
        with call.result() as nc:
            nc.publish("a", b"1", headers={"a": "b"})
            nc.publish("a", b"2")
            peer = server.accept()
            peer.greet(INFO if supported else ServerInfo(server_id="old"))
            if supported:
                assert peer.expect(HPub).payload.endswith(b"1")
            assert peer.expect(Pub).payload == b"2"
            peer.send(Ping())
            peer.until(Pong)
            unconfirmed = nc.stats.unconfirmed_msgs
            nc.close(timeout=0)
        kinds = [type(reported.get()) for _ in range(reported.qsize())]
        assert (errors.HeadersNotSupportedError in kinds) is not supported
        assert unconfirmed == (not supported)
