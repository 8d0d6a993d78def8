"""User code on its own threads: order, errors reported, callbacks one by one and `on_close` last."""

from __future__ import annotations

import logging
import threading
from asyncio import CancelledError
from time import monotonic

import pytest

from natsync._engine.dispatch import Dispatcher
from natsync._engine.sink import SubscriptionSink
from natsync.errors import (
    ConnectionClosedError,
    Error,
    HandlerError,
    MaxMessagesError,
    NoRespondersError,
    ServerError,
)
from natsync.message import Msg
from natsync.options import Callbacks

from tests.client.test_subscription import frames
from tests.support.driving import host


def until() -> float:
    return monotonic() + 10


def handled_sub(*payloads: bytes) -> SubscriptionSink:
    """A subscription that has ended with these messages pending."""
    sub = SubscriptionSink("a", "", host(), (100, 1000))
    sub.deliver(frames(*payloads))
    sub.end(MaxMessagesError("a"))
    return sub


def test_a_handler_gets_messages_in_order_on_its_own_thread() -> None:
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    got: list[tuple[str, bytes]] = []
    dispatcher.handle(
        handled_sub(b"1", b"2"),
        lambda msg: got.append((threading.current_thread().name, msg.data)),
    )
    assert dispatcher.join(until())
    assert got == [("test-handler-a", b"1"), ("test-handler-a", b"2")]


def test_a_handler_that_ends_its_subscription_gets_no_more_messages() -> None:
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    got: list[bytes] = []
    sub = handled_sub(b"1", b"2", b"3", b"4")

    def handler(msg: Msg) -> None:
        got.append(msg.data)
        if msg.data == b"2":
            sub.end(MaxMessagesError("a"), discard=True)

    dispatcher.handle(sub, handler)
    assert dispatcher.join(until())
    assert got == [b"1", b"2"] and (sub.pending.delivered, sub.pending.dropped) == (2, 2)


@pytest.mark.parametrize("kind", [KeyError, SystemExit, CancelledError, KeyboardInterrupt])
def test_what_a_handler_raises_is_reported_and_delivery_goes_on(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    errors: list[Error] = []
    got: list[bytes] = []
    reported = threading.Semaphore(0)

    def handler(msg: Msg) -> None:
        got.append(msg.data)
        raise kind(msg.data)

    def on_error(error: Error) -> None:
        errors.append(error)
        reported.release()

    caplog.set_level(logging.DEBUG, "natsync")
    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    dispatcher.handle(handled_sub(b"1", b"2"), handler)
    assert reported.acquire(timeout=10) and reported.acquire(timeout=10)
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert got == [b"1", b"2"]
    assert [type(error) for error in errors] == [HandlerError] * 2
    assert repr(errors[1].__cause__) == f"{kind.__name__}(b'2')"
    assert kind.__name__ in caplog.text and caplog.records[0].name == "natsync"
    assert {record.levelname for record in caplog.records} == {"DEBUG"}, "it was handled"


def test_a_greenlet_that_is_killed_ends() -> None:
    got: list[bytes] = []

    class GreenletExit(BaseException):
        """As gevent's `kill` raises it."""

    def handler(msg: Msg) -> None:
        got.append(msg.data)
        raise GreenletExit

    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    thrown: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda args: thrown.append(args.exc_type))
        dispatcher.handle(handled_sub(b"1", b"2"), handler)
        assert dispatcher.join(until())
    assert (got, thrown) == ([b"1"], [GreenletExit])
    dispatcher.end(None)


def test_what_no_callback_gets_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    got: list[Error] = []
    dispatcher = Dispatcher("test", Callbacks(on_error=got.append), threading.RLock())
    dispatcher.end(None)
    dispatcher.report(ServerError("too late"))
    assert dispatcher.join(until())
    assert not got and [record.levelname for record in caplog.records] == ["WARNING"]
    assert "too late" in caplog.text


def test_callbacks_run_in_order_on_one_thread_and_close_is_last() -> None:
    got: list[tuple[str, object]] = []

    def note(error: Error | None) -> None:
        got.append((threading.current_thread().name, error))

    dispatcher = Dispatcher("test", Callbacks(on_error=note, on_close=note), threading.RLock())
    reported: list[Error] = [ServerError(str(number)) for number in range(5)]
    for error in reported:
        dispatcher.report(error)
    dispatcher.end(ConnectionClosedError("gone"))
    dispatcher.report(ServerError("too late"))
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert {name for name, _ in got} == {"test-callbacks"}
    assert [error for _, error in got[:-1]] == reported
    assert str(got[-1][1]) == "connection closed: gone"


def test_a_callback_that_raises_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    got: list[Error] = []

    def on_error(error: Error) -> None:
        got.append(error)
        raise ValueError("in the callback")

    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    dispatcher.report(ServerError("1"))
    dispatcher.report(ServerError("2"))
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert len(got) == 2
    assert "in the callback" in caplog.text


def test_without_callbacks_there_is_no_thread_until_there_is_something_to_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    before = threading.active_count()
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    dispatcher.disconnected(None)
    dispatcher.reconnected()
    assert threading.active_count() == before
    with caplog.at_level(logging.WARNING):
        dispatcher.report(ServerError("only logged"))
        dispatcher.end(None)
        assert dispatcher.join(until())
    assert [record.threadName for record in caplog.records] == ["test-callbacks"]
    assert "only logged" in caplog.text


def test_callbacks_that_no_thread_can_make_are_made_at_the_end(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """From Python 3.12 on no thread starts once the interpreter exits."""
    got: list[str] = []
    callbacks = Callbacks(
        on_error=lambda error: got.append(str(error)), on_close=lambda error: got.append("closed")
    )
    dispatcher = Dispatcher("test", callbacks, threading.RLock())

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    for number in range(3):
        dispatcher.report(NoRespondersError(str(number)))
    dispatcher.end(None)
    assert got == [] and caplog.text == ""
    assert dispatcher.join(until())
    assert got == [f"no responders on {number}" for number in range(3)] + ["closed"]


def test_no_lock_is_held_while_a_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Thread.start` waits for the thread, and a log handler or a profiler of it may call the client."""
    lock, held = threading.RLock(), list[bool]()
    start = threading.Thread.start

    def looked(thread: threading.Thread) -> None:
        held.append(lock._is_owned())  # type: ignore[attr-defined]  # no stub
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", looked)
    dispatcher = Dispatcher("test", Callbacks(on_error=lambda error: None), lock)
    sub = SubscriptionSink("a", "", host(), (100, 1000))
    dispatcher.handle(sub, lambda msg: None)
    dispatcher.report(NoRespondersError("a"))
    sub.end(NoRespondersError("a"), discard=True)
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert held == [False, False]


def test_callbacks_wait_while_the_system_has_no_thread_for_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    got: list[str] = []
    callbacks = Callbacks(on_error=lambda error: got.append(str(error)))
    dispatcher = Dispatcher("test", callbacks, threading.RLock())

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", start)
        dispatcher.report(NoRespondersError("first"))
    assert "callbacks cannot run: can't start new thread" in caplog.text and got == []
    dispatcher.report(NoRespondersError("second"))
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert got == ["no responders on first", "no responders on second"]


def test_joining_gives_up_at_its_deadline_and_spares_the_caller() -> None:
    release, joined = threading.Event(), threading.Event()
    results: list[bool] = []
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())

    def joins(msg: Msg) -> None:
        results.append(dispatcher.join(until()))
        joined.set()

    dispatcher.handle(handled_sub(b"1"), joins)
    assert joined.wait(10)
    assert dispatcher.join(until())
    dispatcher.handle(handled_sub(b"1"), lambda msg: release.wait(10))
    assert not dispatcher.join(monotonic() + 0.01)
    release.set()
    assert dispatcher.join(until())
    assert results == [True]
