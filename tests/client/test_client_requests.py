"""Replies of several responders, and the arguments of calls that ask."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from functools import partial

import pytest

import natsync
from natsync import errors
from natsync.protocol import Err, HMsg, HPub, Msg, Ping, Pong, Pub
from natsync.subscription import Replies

from tests.support.fake_server import Background, FakeServer

TIMEOUT = 10.0


def test_replies_that_were_never_finished_are_dropped_without_a_word() -> None:
    """As a signal handler leaves them that raises in `__init__`."""
    Replies.__new__(Replies).__del__()


def test_replies_of_several() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        replies = nc.request_many("x", timeout=TIMEOUT, max_msgs=2)
        sid = peer.subscribed()
        reply = peer.until(Pub).reply
        peer.send(*[Msg(reply, sid, b"", b"%d" % number) for number in range(3)])
        assert [msg.data for msg in replies] == [b"0", b"1"]

        replies = nc.request_many("x", timeout=TIMEOUT, sentinel=lambda msg: not msg.data)
        reply = peer.until(Pub).reply
        peer.send(Msg(reply, sid, b"", b"a"), Msg(reply, sid), Msg(reply, sid, b"", b"b"))
        assert [msg.data for msg in replies] == [b"a"]

        replies = nc.request_many("x", timeout=60, stall=0.02)
        peer.send(Msg(peer.until(Pub).reply, sid, b"", b"only"))
        assert [msg.data for msg in replies] == [b"only"]

        assert list(nc.request_many("x", timeout=0.02)) == []


@pytest.mark.parametrize("call", ["request", "request_async", "request_many"])
def test_a_request_may_be_a_message(call: str) -> None:
    """Its payload and headers are sent; its reply subject is not, since the reply comes to the caller."""
    msg = natsync.Msg("x", b"1", reply="elsewhere", headers={"k": "v"})
    with FakeServer() as server, server.client() as (nc, peer):
        asked = Background(lambda: getattr(nc, call)(msg, timeout=TIMEOUT))
        sid = peer.subscribed()
        sent = peer.until(HPub)
        assert (sent.subject, sent.payload) == (b"x", b"1") and b"k: v" in sent.headers
        assert sent.reply.startswith(b"_INBOX.")
        peer.send(Msg(sent.reply, sid, b"", b"2"))
        found = asked.result()
        reply = {
            "request_async": lambda: found.result(TIMEOUT),
            "request_many": lambda: next(found),
        }
        assert reply.get(call, lambda: found)().data == b"2"
        if call == "request_many":
            found.close()
        with pytest.raises(TypeError, match="a Msg is sent alone"):
            getattr(nc, call)(msg, b"more")
        with pytest.raises(TypeError, match="subject must be str, not int"):
            getattr(nc, call)(5)


def test_several_of_nobody() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        replies = nc.request_many("x", timeout=TIMEOUT)
        sid = peer.subscribed()
        peer.send(HMsg(peer.until(Pub).reply, sid, b"", b"NATS/1.0 503\r\n\r\n"))
        with pytest.raises(errors.NoRespondersError):
            next(replies)


def test_several_that_were_lost_are_reported_after_those_that_came() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        replies = nc.request_many("x", timeout=60)
        sid = peer.subscribed()
        peer.send(Msg(peer.until(Pub).reply, sid, b"", b"came"), Ping())
        peer.expect(Pong)
        peer.reset()
        peer = server.accept()
        peer.greet()
        assert next(replies).data == b"came"
        with pytest.raises(errors.ConnectionReconnectingError, match="reset"):
            next(replies)
        assert list(replies) == []
        nc.publish("y")
        assert peer.until(Pub).subject == b"y"  # not asked again


def test_several_that_were_asked_for_without_a_connection_come_when_there_is_one() -> None:
    lost = threading.Event()
    connect = partial(natsync.connect, on_disconnect=lambda error: lost.set())
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        assert lost.wait(TIMEOUT)
        replies = nc.request_many("x", timeout=TIMEOUT, max_msgs=1)
        peer = server.accept()
        peer.greet()
        sid = peer.subscribed()
        peer.send(Msg(peer.until(Pub).reply, sid, b"", b"late"))
        assert [msg.data for msg in replies] == [b"late"]


def test_several_that_could_not_be_asked_in_time_are_reported() -> None:
    """An empty list would say that nobody is there."""
    lost = threading.Event()
    connect = partial(natsync.connect, on_disconnect=lambda error: lost.set())
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        assert lost.wait(TIMEOUT)
        with pytest.raises(errors.ConnectionReconnectingError):
            list(nc.request_many("x", timeout=0.2))


def test_several_that_may_not_be_asked() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        replies = nc.request_many("x", timeout=60)
        peer.until(Pub)
        peer.send(Err(b'Permissions Violation for Publish to "x"'))
        with pytest.raises(errors.PermissionsViolationError):
            next(replies)
        assert list(replies) == []


def test_replies_that_nobody_iterates_over_end_with_close_or_when_dropped() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        streams = nc._connection.reply_mux()._streams
        replies = nc.request_many("x", timeout=TIMEOUT)
        assert len(streams) == 1
        replies.close()
        assert not streams
        nc.request_many("x", timeout=TIMEOUT)
        assert not streams
        with pytest.raises(errors.ProtocolError):
            nc.request_many("a b")
        assert not streams


def test_another_thread_may_end_the_iteration() -> None:
    came, got = threading.Event(), []

    def read() -> None:
        for msg in replies:
            got.append(msg.data)
            came.set()

    with FakeServer() as server, server.client() as (nc, peer):
        replies = nc.request_many("x", timeout=TIMEOUT)
        reader = Background(read)
        sid = peer.subscribed()
        peer.send(Msg(peer.until(Pub).reply, sid, b"", b"one"))
        assert came.wait(TIMEOUT)
        replies.close()
        reader.result()
    assert got == [b"one"]


def test_no_timeout_waits_for_ever() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        calls: list[Callable[[], object]] = [
            lambda: nc.flush(None),
            lambda: nc.rtt(None),
            lambda: nc.publish_confirmed("a", timeout=None),
        ]
        for waits in calls:
            call = Background(waits)
            peer.until(Ping)
            assert not call.done
            peer.send(Pong())
            call.result()
        request = Background(lambda: nc.request("x", timeout=None).data)
        asked = peer.until(Pub)
        assert not request.done
        peer.send(Msg(asked.reply, b"1", b"", b"answer"))
        assert request.result() == b"answer"
        assert nc.wait_connected(None)
        shown = str(inspect.signature(nc.request))
        assert "timeout: 'float | None | Default' = DEFAULT" in shown
