"""Callbacks: one by one in order, bounded while they wait, errors reported, and `on_close` last."""

from __future__ import annotations

import logging
import threading
from time import monotonic

import pytest

from natsync._engine.dispatch import Dispatcher
from natsync._engine.handlers import Runner
from natsync._engine.sink import SubscriptionSink
from natsync.errors import (
    ConnectionClosedError,
    Error,
    NoRespondersError,
    ServerError,
)
from natsync.message import Msg
from natsync.options import Callbacks

from tests.support.driving import host


def until() -> float:
    return monotonic() + 10


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
    dispatcher.event("on_disconnect", None)
    dispatcher.event("on_reconnect")
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
    runner: Runner[Msg] = Runner(dispatcher, lambda msg: None)
    runner.subscribe(sub)
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


def test_events_that_wait_for_a_slow_callback_are_bounded_and_counted() -> None:
    began, go = threading.Event(), threading.Event()
    got: list[Error] = []
    reconnects = 0

    def on_error(error: Error) -> None:
        got.append(error)
        began.set()
        assert go.wait(10)

    def on_reconnect() -> None:
        nonlocal reconnects
        reconnects += 1

    callbacks = Callbacks(on_error=on_error, on_reconnect=on_reconnect)
    dispatcher = Dispatcher("test", callbacks, threading.RLock())
    dispatcher.report(ServerError("0"))
    assert began.wait(10)
    for _ in range(700):
        dispatcher.event("on_reconnect")
        dispatcher.report(ServerError("1"))
    assert dispatcher._callback_thread._calls
    assert dispatcher._callback_thread._calls.qsize() == 1001
    go.set()
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert (len(got), reconnects) == (502, 500)
    assert repr(got[-1]) == "CallbacksSkippedError(skipped=400)"


def test_events_are_bounded_where_no_thread_can_start(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Error] = []
    dispatcher = Dispatcher("test", Callbacks(on_error=got.append), threading.RLock())

    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    monkeypatch.setattr(threading.Thread, "start", start)
    for _ in range(1500):
        dispatcher.report(ServerError("1"))
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert len(got) == 1001 and repr(got[-1]) == "CallbacksSkippedError(skipped=500)"


def test_a_subscription_has_one_report_of_dropped_messages_waiting() -> None:
    began, go = threading.Event(), threading.Event()
    got: list[str] = []

    def on_error(error: Error) -> None:
        got.append(str(error))
        began.set()
        assert go.wait(10)

    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    sub = SubscriptionSink("a", "", host(), (100, 1000))
    for dropped in range(1, 6):
        dispatcher.slow_consumer(sub, dropped)
        assert began.wait(10)
    go.set()
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert got == [f"slow consumer on a: {count} messages dropped" for count in (1, 5)]


def test_a_call_waits_for_its_time_while_others_are_made() -> None:
    got: list[str] = []
    done = threading.Event()
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    begun = monotonic()
    dispatcher.post(done.set, begun + 0.1)
    dispatcher.post(lambda: got.append("at once"))
    dispatcher.post(lambda: got.append("at the end"), begun + 3600)
    assert done.wait(10) and monotonic() - begun >= 0.1
    assert got == ["at once"]
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert got == ["at once", "at the end"]
