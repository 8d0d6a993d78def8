"""Replies that come later: futures, on a thread that never waits."""

from __future__ import annotations

import concurrent.futures
import threading
from concurrent.futures import CancelledError, as_completed, wait
from functools import partial

import pytest

import natsync
from natsync import errors
from natsync._engine.futures import RequestContext, RequestFuture
from natsync._engine.reply_mux import ReplyMux
from natsync._engine.seat import Waiter
from natsync._engine.waiter import Guest
from natsync.message import Delivered, ReceivedMsg
from natsync.protocol import Err, HMsg, Msg, Ping, Pong, Pub

from tests.support.driving import idle, nothing, respond
from tests.support.fake_server import Background, FakeServer
from tests.support.waiting import eventually

TIMEOUT = 10.0
REPLY = Msg(b"a", b"1", b"", b"here")


def lone_future(waiting: bool = True) -> RequestFuture:
    """One of which the inbox knows, or not any more."""
    mux = ReplyMux("_INBOX", idle, partial(Waiter, idle), nothing)

    def read(subject: str, frame: Delivered) -> natsync.Msg:
        return ReceivedMsg(frame, respond)

    context = RequestContext(mux, lambda call: call() is not NotImplemented, read)
    future = context.open("x", 60.0)
    if not waiting:
        mux.close(future.token)
    return future


def test_many_at_a_time_each_gets_its_own() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        futures = [nc.request_async("x", b"%d" % number) for number in range(50)]
        asked = [peer.until(Pub) for _ in futures]
        for question in reversed(asked):
            peer.send(Msg(question.reply, b"1", b"", b"re " + question.payload))
        assert [future.result(TIMEOUT).data for future in futures] == [
            b"re %d" % number for number in range(50)
        ]
        assert len(list(as_completed(futures, TIMEOUT))) == 50


def test_nobody_listens_or_answers() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        nobody = nc.request_async("x")
        late = nc.request_async("y", timeout=0.05)
        asked = peer.until(Pub)
        peer.send(HMsg(asked.reply, b"1", b"", b"NATS/1.0 503\r\n\r\n"))
        with pytest.raises(errors.NoRespondersError):
            nobody.result(TIMEOUT)
        error = late.exception(TIMEOUT)
        assert isinstance(error, errors.RequestTimeoutError)
        assert (error.subject, error.timeout) == ("y", 0.05)


def test_too_late_while_there_is_no_connection() -> None:
    connect = partial(natsync.connect, reconnect_wait=60, reconnect_max_wait=60)
    with FakeServer() as server, server.client(connect) as (nc, peer):
        lost = nc.request_async("x")
        peer.until(Pub)
        peer.close()
        server.accept().close()
        with pytest.raises(errors.ConnectionReconnectingError):
            lost.result(TIMEOUT)
        with pytest.raises(errors.RequestTimeoutError):
            nc.request_async("x", timeout=0.05).result(TIMEOUT)


def test_giving_up() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        future = nc.request_async("x")
        asked = peer.until(Pub)
        assert future.cancel() and future.cancelled()
        with pytest.raises(CancelledError):
            future.result(0)
        peer.send(Msg(asked.reply, b"1", b"", b"late"), Ping())
        peer.expect(Pong)
        answered = nc.request_async("x")
        peer.send(Msg(peer.until(Pub).reply, b"1"))
        answered.result(TIMEOUT)
        assert not answered.cancel()


def test_callbacks_run_off_the_thread_that_reads() -> None:
    seen: list[str] = []
    done = threading.Event()

    def note(future: object) -> None:
        seen.append(threading.current_thread().name)
        done.set()

    with FakeServer() as server, server.client() as (nc, peer):
        future = nc.request_async("x")
        future.add_done_callback(note)
        peer.send(Msg(peer.until(Pub).reply, b"1"))
        assert done.wait(TIMEOUT)
    assert seen[0].endswith("-callbacks")


def test_a_callback_finds_it_done() -> None:
    future = lone_future()
    seen: list[tuple[bool, bytes]] = []
    future.add_done_callback(
        lambda done_future: seen.append((done_future.done(), done_future.result(0).data))
    )
    future.settle(REPLY)
    assert seen == [(True, b"here")]


def test_a_timeout_of_the_wait_is_not_the_end_of_the_request() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        future = nc.request_async("x")
        for kind in (TimeoutError, concurrent.futures.TimeoutError):  # two, before Python 3.11
            with pytest.raises(kind):
                future.result(0.01)
            with pytest.raises(kind):
                future.exception(0.01)
        peer.send(Msg(peer.until(Pub).reply, b"1", b"", b"here"))
        assert future.result(TIMEOUT).data == b"here"


def test_a_denied_request_fails_at_once() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        future = nc.request_async("x", timeout=60)
        peer.until(Pub)
        peer.send(Err(b'Permissions Violation for Publish to "x"'))
        with pytest.raises(errors.PermissionsViolationError):
            future.result(TIMEOUT)


def test_what_cannot_be_sent_fails_at_the_caller() -> None:
    with FakeServer() as server, server.client() as (nc, _):
        with pytest.raises(errors.ProtocolError):
            nc.request_async("no good")
        assert not nc._connection.reply_mux().waiting


def test_a_confirmed_publish_and_a_refused_one() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        call = server.connecting(lambda url: nc.publish_confirmed("x", b"1") or nc)
        peer.expect(Pub)
        peer.expect(Ping)
        assert not call.done
        peer.send(Pong())
        call.result()
        call = server.connecting(lambda url: nc.publish_confirmed("x", b"2") or nc)
        peer.expect(Pub)
        peer.expect(Ping)
        peer.send(Err(b'Permissions Violation for Publish to "x"'), Pong())
        with pytest.raises(errors.PermissionsViolationError):
            call.result()
        with pytest.raises(errors.FlushTimeoutError):
            nc.publish_confirmed("x", timeout=0.01)


def test_a_confirmed_publish_is_refused_for_its_reply_subject() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        call = server.connecting(lambda url: nc.publish_confirmed("x", reply="_R_.y") or nc)
        peer.expect(Pub)
        peer.expect(Ping)
        # The second one is not about a message on this subject, nor with this reply subject.
        peer.send(Err(b'Permissions Violation for Publish to "_R_.y"'))
        peer.send(Err(b'Permissions Violation for Publish with Reply of "x"'))
        peer.send(Err(b'Permissions Violation for Publish with Reply of "_R_.y"'), Pong())
        with pytest.raises(errors.PermissionsViolationError) as caught:
            call.result()
        assert caught.value.subject == "_R_.y"


def test_a_future_whose_end_was_interrupted_still_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    future = lone_future()
    assert not future.running()  # which makes its parts

    def interrupt(result: object) -> None:
        future._condition.acquire()  # as an interrupt inside `with` may leave it
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(future, "set_result", interrupt)
        future.settle(HMsg(b"a", b"1", b"", b"NATS/1.0\r\n\r\n"))
    assert not future.done()
    call = Background(lambda: future.fail(errors.ConnectionReconnectingError("interrupted")))
    call.result()
    assert isinstance(future.exception(0), errors.ConnectionReconnectingError)


def test_those_who_wait_hear_of_every_end() -> None:
    """`wait` and `as_completed` use what all futures of the standard library have in common."""
    before, settled, failed, cancelled = (lone_future() for _ in range(4))
    before.settle(REPLY)
    futures = [before, settled, failed, cancelled]
    assert wait(futures, timeout=0).not_done == {settled, failed, cancelled}
    call = Background(lambda: [future for future in as_completed(futures, TIMEOUT)])
    settled.settle(REPLY)
    failed.fail(errors.NoRespondersError("x"))
    assert cancelled.cancel() and cancelled.cancel()
    assert set(call.result()) == set(futures)
    assert not settled.cancel() and not before.cancel() and not failed.running()
    assert [future.done() for future in futures] == [True] * 4
    assert isinstance(failed.exception(), errors.NoRespondersError)
    assert before.exception() is None and before.result() is before.result(0)


def test_given_up_while_its_reply_was_at_hand() -> None:
    future = lone_future(waiting=False)
    assert future.cancel()
    assert not wait([future], timeout=0).done
    future.settle(REPLY)
    assert wait([future], timeout=0).done
    with pytest.raises(CancelledError):
        future.result()


def test_the_first_end_counts() -> None:
    future, parts = lone_future(), lone_future()
    assert not parts.running()  # which makes its parts
    for each in (future, parts):
        each.settle(REPLY)
        each.fail(errors.NoRespondersError("x"))
        assert each.result(0).data == b"here"
    assert not hasattr(future, "nonsense")


def test_several_threads_wait_for_one_future() -> None:
    future = lone_future()
    calls = [Background(lambda: future.result(TIMEOUT)) for _ in range(3)]
    future.settle(REPLY)
    assert [call.result().data for call in calls] == [b"here"] * 3


def test_ends_and_waits_that_meet() -> None:
    """Whichever comes first, the end or the making of the parts: nobody waits for ever."""
    for _ in range(200):
        future = lone_future()
        begin = threading.Barrier(4)
        calls = [Background(lambda: (begin.wait(), wait([future], TIMEOUT).done)) for _ in range(2)]
        calls.append(Background(lambda: (begin.wait(), {future} if future.result(TIMEOUT) else {})))
        begin.wait()
        future.settle(REPLY)
        assert [call.result()[1] for call in calls] == [{future}] * 3


def test_a_callback_that_is_added_after_the_end_of_the_client_is_called() -> None:
    called: list[object] = []
    with FakeServer() as server, server.client() as (nc, _):
        future = nc.request_async("x", timeout=TIMEOUT)
        nc.close(0)
        future.add_done_callback(called.append)
        assert called == [future]


def test_cancelling_ends_the_wait_of_the_thread_that_drives() -> None:
    with FakeServer() as server, server.client() as (nc, peer):
        future = nc.request_async("x", timeout=60)
        call = Background(lambda: future.result(60))
        peer.until(Pub)
        seat = nc._connection._supervisor.seat
        # It drives, or where the I/O thread had not let go it waits for a flag.
        eventually(lambda: isinstance(seat._seat.get("holder"), Guest) or "_flag" in vars(future))
        assert future.cancel()
        with pytest.raises(CancelledError):
            call.result(5)
