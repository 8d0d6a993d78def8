"""Handlers on executors: order, few threads, and what becomes of messages that nobody handles."""

from __future__ import annotations

import threading
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from queue import SimpleQueue
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.dispatch import Dispatcher
from natsync._engine.sink import SubscriptionSink
from natsync.errors import BadSubscriptionError, Error
from natsync.options import Callbacks
from natsync.protocol import Msg, Unsub

from tests.client.test_subscription import frames
from tests.support.driving import host
from tests.support.fake_server import FakeServer

TIMEOUT = 10.0


def new_sink(limit: int = 100_000) -> SubscriptionSink:
    return SubscriptionSink("a", "", host(), (limit, -1))


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
        dispatcher.handle(sink, lambda msg: got.append(msg.data), 1, pool)
        dispatcher.handle(parallel, lambda msg: both.wait(TIMEOUT), 2, pool)
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
    dispatcher.handle(sink, print, 1, Refusing())
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
