"""An -ERR that names no subscription reaches those that it means."""

from __future__ import annotations

import pytest

import natsync
from natsync import errors
from natsync.protocol import Err, Msg, Ping, Pong, Pub, Sub

from tests.support.fake_server import Background, FakeServer

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
