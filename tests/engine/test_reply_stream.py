"""Streams of replies on the inbox of all requests: order, ends, losses, and no SUB or UNSUB of their own."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from natsync import errors
from natsync._engine.reply_mux import ReplyMux
from natsync._engine.reply_stream import ReplyStream, StreamHost
from natsync._engine.seat import Waiter
from natsync.message import Data, HeadersLike
from natsync.protocol import Err, Msg, Ping, Pong, Pub, Sub

from tests.support.driving import idle, nothing, respond
from tests.support.fake_server import Background, FakeServer

TIMEOUT = 10.0


def open_stream(mux: ReplyMux, reported: list[errors.Error] | None = None) -> ReplyStream:
    def send(subject: str, data: Data, token: bytes, headers: HeadersLike | None) -> None:
        """Sends nothing."""

    report = [].append if reported is None else reported.append
    host = StreamHost(send, mux.close_stream, respond, idle, threading.RLock(), report, nothing)
    return mux.open_stream("x", host)


def test_replies_of_several_requests_in_order_beside_other_requests() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        with nc.open_replies("x") as stream:
            stream.request(b"first")
            stream.request(b"second", headers={"A": "1"})
            sid = peer.expect(Sub).sid
            frames = [peer.until(Pub) for _ in range(1)]
            assert frames[0].reply.decode() == stream.reply
            other = nc.request_async("y", timeout=TIMEOUT)
            asked = peer.until(Pub)
            reply = stream.reply.encode()
            peer.send(
                Msg(reply, sid, b"", b"1"),
                Msg(reply, sid, b"", b"2"),
                Msg(asked.reply, sid, b"", b"other"),
                Msg(reply, sid, b"", b"3"),
            )
            assert other.result(TIMEOUT).data == b"other"
            got = [stream.next(TIMEOUT) for _ in range(3)]
            assert [msg.data for msg in got if msg] == [b"1", b"2", b"3"]
            assert stream.next(0) is None
        nc.publish("end")
        assert peer.expect(Pub).subject == b"end"  # no UNSUB


def test_a_late_reply_is_dropped_and_iteration_ends_with_close() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        stream = nc.open_replies("x")
        stream.request()
        sid = peer.subscribed()
        reply = peer.until(Pub).reply
        peer.send(Msg(reply, sid, b"", b"1"), Msg(reply, sid, b"", b"2"))
        assert next(iter(stream)).data == b"1"
        call = Background(lambda: [msg.data for msg in stream])
        stream.close()
        assert call.result() in ([], [b"2"])
        peer.send(Msg(reply, sid, b"", b"late"), Ping())
        peer.until(Pong)
        with pytest.raises(errors.BadSubscriptionError):
            stream.next(0)


def test_a_loss_is_reported_after_the_replies_that_came() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        stream = nc.open_replies("x")
        stream.request()
        sid = peer.subscribed()
        peer.send(Msg(peer.until(Pub).reply, sid, b"", b"came"), Ping())
        peer.until(Pong)
        peer.reset()
        server.accept().greet()
        got = stream.next(TIMEOUT)
        assert got and got.data == b"came"
        with pytest.raises(errors.ConnectionReconnectingError, match="reset"):
            stream.next(TIMEOUT)


def test_close_and_refusals_end_a_stream() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        stream, other = nc.open_replies("x"), nc.open_replies("y")
        stream.request()
        peer.until(Pub)
        peer.send(Err(b'Permissions Violation for Publish to "x"'))
        with pytest.raises(errors.PermissionsViolationError):
            stream.next(TIMEOUT)
        call = Background(other.next)
        nc.close(0)
        with pytest.raises(errors.ConnectionClosedError):
            call.result()
        with pytest.raises(TypeError, match="subject must be str"):
            nc.open_replies(1)  # type: ignore[arg-type]  # what is tested


def test_an_inbox_that_was_refused_has_no_streams() -> None:
    mux = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    stream = open_stream(mux)
    mux.refuse(errors.PermissionsViolationError("no", "subscription", mux.subject))
    with pytest.raises(errors.PermissionsViolationError):
        stream.next(0)
    with pytest.raises(errors.PermissionsViolationError):
        open_stream(mux)


def test_replies_over_the_limit_are_counted_and_reported() -> None:
    mux = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    reported: list[errors.Error] = []
    stream = open_stream(mux, reported)
    stream._pending.most = 2
    mux.deliver([Msg(stream.reply.encode(), b"1", b"", b"%d" % number) for number in range(4)])
    assert stream.dropped == 2
    assert [str(error) for error in reported] == [
        f"slow consumer on {stream.reply}: 2 messages dropped"
    ]


def test_a_forked_childs_copy_has_ended() -> None:
    mux = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)
    stream = open_stream(mux)
    mux.abandon(threading.RLock())
    with pytest.raises(errors.ForkedError):
        stream.next(0)
