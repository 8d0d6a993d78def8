"""Handlers on threads and executors: order, failures reported in bounded memory, messages nobody handles."""

from __future__ import annotations

import gc
import logging
import threading
import weakref
from asyncio import CancelledError
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.dispatch import Dispatcher
from natsync._engine.handlers import Runner
from natsync._engine.sink import SubscriptionSink
from natsync.errors import BadSubscriptionError, Error, HandlerError, MaxMessagesError
from natsync.options import Callbacks
from natsync.protocol import Msg, Unsub

from tests.client.test_subscription import frames
from tests.support.driving import host
from tests.support.fake_server import FakeServer
from tests.support.waiting import eventually

TIMEOUT = 10.0


def new_sink(limit: int = 100_000) -> SubscriptionSink:
    return SubscriptionSink("a", "", host(), (limit, -1))


def until() -> float:
    return monotonic() + TIMEOUT


def handled_sub(*payloads: bytes) -> SubscriptionSink:
    """A subscription that has ended with these messages pending."""
    sub = SubscriptionSink("a", "", host(), (100, 1000))
    sub.deliver(frames(*payloads))
    sub.end(MaxMessagesError("a"))
    return sub


def test_a_handler_gets_messages_in_order_on_its_own_thread() -> None:
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    got: list[tuple[str, bytes]] = []
    Runner(
        dispatcher, lambda msg: got.append((threading.current_thread().name, msg.data))
    ).subscribe(handled_sub(b"1", b"2"))
    assert dispatcher.join(until())
    assert got == [("test-handler-a", b"1"), ("test-handler-a", b"2")]


def test_a_handler_that_ends_its_subscription_gets_no_more_messages() -> None:
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    got: list[bytes] = []
    sub = handled_sub(b"1", b"2", b"3", b"4")

    def handler(msg: natsync.Msg) -> None:
        got.append(msg.data)
        if msg.data == b"2":
            sub.end(MaxMessagesError("a"), discard=True)

    Runner(dispatcher, handler).subscribe(sub)
    assert dispatcher.join(until())
    assert got == [b"1", b"2"] and (sub.pending.delivered, sub.pending.dropped) == (2, 2)


@pytest.mark.parametrize("kind", [KeyError, SystemExit, CancelledError, KeyboardInterrupt])
def test_what_a_handler_raises_is_reported_and_delivery_goes_on(
    caplog: pytest.LogCaptureFixture, kind: type[BaseException]
) -> None:
    errors: list[Error] = []
    got: list[bytes] = []
    reported = threading.Semaphore(0)

    def handler(msg: natsync.Msg) -> None:
        got.append(msg.data)
        raise kind(msg.data)

    def on_error(error: Error) -> None:
        errors.append(error)
        reported.release()

    caplog.set_level(logging.DEBUG, "natsync")
    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    Runner(dispatcher, handler).subscribe(handled_sub(b"1", b"2"))
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

    def handler(msg: natsync.Msg) -> None:
        got.append(msg.data)
        raise GreenletExit

    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    thrown: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading, "excepthook", lambda args: thrown.append(args.exc_type))
        Runner(dispatcher, handler).subscribe(handled_sub(b"1", b"2"))
        assert dispatcher.join(until())
    assert (got, thrown) == ([b"1"], [GreenletExit])
    dispatcher.end(None)


class Slow:
    """An `on_error` that waits with its first error until `go` is set."""

    def __init__(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.got: list[Error] = []

    def __call__(self, error: Error) -> None:
        self.got.append(error)
        self.began.set()
        assert self.go.wait(TIMEOUT)

    @property
    def counts(self) -> list[int]:
        return [error.failures for error in self.got if isinstance(error, HandlerError)]


class Held(Exception):
    """Its traceback holds the message of the handler that raises it."""


@pytest.mark.parametrize("workers, on_executor", [(1, False), (4, False), (1, True), (4, True)])
def test_failures_that_come_faster_than_they_are_reported_are_counted(
    workers: int, on_executor: bool
) -> None:
    on_error = Slow()
    raised: weakref.WeakSet[Held] = weakref.WeakSet()

    def handler(msg: natsync.Msg) -> None:
        error = Held(msg.data)
        raised.add(error)
        raise error

    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    with ThreadPoolExecutor(4) as pool:
        sink = new_sink()
        runner: Runner[natsync.Msg] = Runner(dispatcher, handler)
        runner.subscribe(sink, workers, pool if on_executor else None)
        sink.deliver(frames(b"first"))
        assert on_error.began.wait(TIMEOUT)
        sink.deliver(frames(*[b"%d" % number for number in range(1000)]))
        assert sink.wait_idle(until()) == 0, "no handler waits for the report"
        gc.collect()
        assert len(raised) < 40
        on_error.go.set()
        sink.end(BadSubscriptionError("a"))
        dispatcher.end(None)
        assert dispatcher.join(until())
    assert on_error.counts == [1] * 16 + [985]
    assert str(on_error.got[-1]) == "handler of a failed: Held (and 984 times before)"
    if workers == 1:
        assert repr(on_error.got[-1].__cause__) == "Held(b'999')"


def test_a_handler_that_always_fails_is_reported_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("natsync._engine.handlers._PAUSE", 0.2)
    on_error = Slow()
    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    sink = new_sink()
    runner: Runner[natsync.Msg] = Runner(dispatcher, lambda msg: 1 // 0)
    runner.subscribe(sink)
    sink.deliver(frames(b""))
    assert on_error.began.wait(TIMEOUT)
    sink.deliver(frames(*[b""] * 100))
    assert sink.wait_idle(until()) == 0
    on_error.go.set()
    eventually(lambda: sum(on_error.counts) == 101)
    told = monotonic()
    sink.deliver(frames(*[b""] * 3))
    eventually(lambda: sum(on_error.counts) == 104)
    assert monotonic() - told > 0.1 and on_error.counts[-3:] == [1, 1, 1]
    sink.deliver(frames(b""))  # no longer in a hurry
    eventually(lambda: sum(on_error.counts) == 105)
    sink.end(BadSubscriptionError("a"))
    dispatcher.end(None)
    assert dispatcher.join(until())


def test_no_failure_is_lost_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    """Neither of those that wait for their time, nor of those after the last callback."""
    on_error = Slow()
    on_error.go.set()
    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    runner: Runner[natsync.Msg] = Runner(dispatcher, lambda msg: None)
    runner._rest_until = monotonic() + 3600
    runner.failed(ValueError(), "a")
    dispatcher.end(None)
    assert dispatcher.join(until())
    assert on_error.counts == [1] and not caplog.records
    for _ in range(2):
        runner.failed(ValueError("too late"), "a")
    assert on_error.counts == [1] and caplog.text.count("ValueError: too late") == 2


def test_joining_gives_up_at_its_deadline_and_spares_the_caller() -> None:
    release, joined = threading.Event(), threading.Event()
    results: list[bool] = []
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())

    def joins(msg: natsync.Msg) -> None:
        results.append(dispatcher.join(until()))
        joined.set()

    Runner(dispatcher, joins).subscribe(handled_sub(b"1"))
    assert joined.wait(10)
    assert dispatcher.join(until())
    Runner(dispatcher, lambda msg: release.wait(10)).subscribe(handled_sub(b"1"))
    assert not dispatcher.join(monotonic() + 0.01)
    release.set()
    assert dispatcher.join(until())
    assert results == [True]


def test_many_subscriptions_share_the_threads_of_an_executor() -> None:
    before = threading.active_count()
    left = threading.Semaphore(0)
    with ThreadPoolExecutor(8) as pool, FakeServer() as server, server.client() as (nc, peer):
        for _ in range(300):
            nc.subscribe("a", handler=lambda msg: left.release(), executor=pool)
        sids = [peer.subscribed() for _ in range(300)]
        for sid in sids:
            peer.send(*[Msg(b"a", sid)] * 3)
        for _ in range(900):
            assert left.acquire(timeout=TIMEOUT)
        assert threading.active_count() - before <= 8 + 2


def test_one_worker_keeps_the_order_and_several_work_at_a_time() -> None:
    dispatcher = Dispatcher("test", Callbacks(), threading.RLock())
    got: list[bytes] = []
    both = threading.Barrier(2)
    with ThreadPoolExecutor(4) as pool:
        sink, parallel = new_sink(), new_sink()
        Runner(dispatcher, lambda msg: got.append(msg.data)).subscribe(sink, 1, pool)
        Runner(dispatcher, lambda msg: both.wait(TIMEOUT)).subscribe(parallel, 2, pool)
        for number in range(1000):
            sink.deliver(frames(b"%d" % number))
        parallel.deliver(frames(b"1", b"2"))
        assert sink.wait_idle(monotonic() + TIMEOUT) == 0
        assert parallel.wait_idle(monotonic() + TIMEOUT) == 0
    assert got == [b"%d" % number for number in range(1000)]
    dispatcher.end(None)
    assert dispatcher.join(monotonic() + TIMEOUT)


class Refusing(Executor):
    """Cancels the first task, and takes none after it."""

    def __init__(self) -> None:
        self.tasks = 0

    def submit(self, *args: object, **more: object) -> Future[None]:  # type: ignore[override]  # no need
        self.tasks += 1
        if self.tasks > 1:
            raise RuntimeError("shut down")
        task: Future[None] = Future()
        task.cancel()
        return task


def test_messages_of_cancelled_tasks_count_as_dropped_and_are_not_waited_for() -> None:
    reported = threading.Semaphore(0)

    def on_error(error: Error) -> None:
        assert isinstance(error, errors.HandlerError)
        reported.release()

    dispatcher = Dispatcher("test", Callbacks(on_error=on_error), threading.RLock())
    sink = new_sink()
    Runner(dispatcher, print).subscribe(sink, 1, Refusing())
    sink.deliver(frames(b"1", b"2"))
    assert reported.acquire(timeout=TIMEOUT)
    sink.end(BadSubscriptionError("a"))
    assert sink.wait_idle(monotonic() + TIMEOUT) == 0
    assert (sink.received, sink.pending.delivered, sink.pending.dropped) == (2, 0, 2)
    dispatcher.end(None)
    assert dispatcher.join(monotonic() + TIMEOUT)


@pytest.mark.parametrize("whole", [False, True])
def test_a_handler_on_an_executor_may_drain(whole: bool) -> None:
    done = threading.Event()
    with ThreadPoolExecutor(1) as pool, FakeServer() as server, server.client() as (nc, peer):

        def handler(msg: natsync.Msg) -> None:
            nc.drain(TIMEOUT) if whole else sub.drain(TIMEOUT)
            done.set()

        sub = nc.subscribe("a", handler=handler, executor=pool)
        peer.send(Msg(b"a", peer.subscribed()))
        if not whole:
            peer.until(Unsub)
            peer.answer()
        else:
            peer.expect_end()
        assert done.wait(TIMEOUT)


@pytest.mark.usefixtures("fork_server")  # which the pool starts otherwise, since Python 3.14
def test_a_pool_of_processes_is_reported_since_no_handler_can_be_sent_there() -> None:
    reported: SimpleQueue[Error] = SimpleQueue()
    connect = partial(natsync.connect, on_error=reported.put)
    with (
        ProcessPoolExecutor(1) as pool,
        FakeServer() as server,
        server.client(connect) as (nc, peer),
    ):
        sub = nc.subscribe("a", handler=print, executor=pool)
        sid = peer.subscribed()
        for _ in range(2):
            peer.send(Msg(b"a", sid))
            error = reported.get(timeout=TIMEOUT)
            assert isinstance(error, errors.HandlerError) and "pickle" in str(error.__cause__)
        assert sub.stats == natsync.SubStats(2, 0, 2, 0, 0)
