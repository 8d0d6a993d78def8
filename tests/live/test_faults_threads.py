"""Many threads on one connection that is lost again and again: every wait ends, every reply is the right one,
and nothing is left behind."""

from __future__ import annotations

import faulthandler
import gc
import os
import random
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from time import monotonic

import pytest

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.servers import NatsServer
from tests.support.websocket_server import WEBSOCKETS, Form, proxy_to, running

pytestmark = pytest.mark.server

TIMEOUT = 10.0
LATE = 5.0  # for a wait that is to end at once, on a busy machine
SECONDS = 1.5


@pytest.fixture(scope="module", params=["current", *WEBSOCKETS])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NatsServer]:
    with running(request.param, tmp_path_factory.mktemp("certificates")) as server:
        yield server


@pytest.fixture
def impatient() -> Iterator[None]:
    """Threads change places all the time, and a wait without end shows where all of them are."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    faulthandler.dump_traceback_later(50, exit=False)
    yield
    faulthandler.cancel_dump_traceback_later()
    sys.setswitchinterval(interval)


class Crowd:
    """What one of many threads does, at random."""

    def __init__(self, nc: natsync.Client, stop: threading.Event, *, breaks: bool) -> None:
        self.nc = nc
        self.worst = 0.0
        self.done = 0
        self._stop = stop
        self._breaks = breaks

    def work(self, thread: int) -> None:
        rng = random.Random(thread)
        own = self.nc.subscribe(f"own.{thread}")
        number = 0
        while not self._stop.is_set():
            number += 1
            begun = monotonic()
            try:
                self._one(rng, own, b"%d/%d" % (thread, number))
                self.done += 1
            except (errors.ConnectionReconnectingError, errors.OutboundBufferLimitError):
                assert self._breaks
                self.nc.wait_connected(TIMEOUT)
            self.worst = max(self.worst, monotonic() - begun)

    def _one(self, rng: random.Random, own: natsync.Subscription, data: bytes) -> None:
        nc = self.nc
        match rng.randrange(8 if self._breaks else 7):
            case 0 | 1:
                assert nc.request("echo", data, timeout=TIMEOUT).data == data
            case 2:
                futures = [nc.request_async("echo", data, timeout=TIMEOUT) for _ in range(5)]
                assert {future.result(TIMEOUT).data for future in futures} == {data}
            case 3:
                self._to_self(own, data)
            case 4:
                nc.flush(TIMEOUT)
            case 5:
                with nc.subscribe("other.*", max_msgs=3):
                    nc.publish("other.x")
            case 6:
                replies = nc.request_many("echo", data, max_msgs=1, timeout=TIMEOUT)
                assert [msg.data for msg in replies] == [data]
            case _:
                if rng.random() < 0.02:
                    nc.reconnect()

    def _to_self(self, own: natsync.Subscription, data: bytes) -> None:
        self.nc.publish(own.subject, data)
        try:
            while own.next_msg(0.5 if self._breaks else TIMEOUT).data != data:
                pass
        except errors.NextMsgTimeoutError:
            assert self._breaks  # it was lost on its way here


@pytest.mark.parametrize(
    ("form", "threads"),
    [("current", 1), ("current", 8), ("current", 64), ("websocket", 8), ("secure websocket", 8)],
)
@pytest.mark.parametrize("breaks", [False, True], ids=["steady", "breaking"])
@pytest.mark.usefixtures("impatient")
def test_a_crowd_on_one_connection(form: Form, threads: int, breaks: bool, tmp_path: Path) -> None:
    stop = threading.Event()
    with (
        running(form, tmp_path) as server,
        proxy_to(server) as proxy,
        natsync.connect(server.url) as other,
        natsync.connect(
            proxy.url, reconnect_wait=0.01, reconnect_max_wait=0.05, connect_timeout=TIMEOUT
        ) as nc,
    ):
        other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        other.flush()
        crowd = Crowd(nc, stop, breaks=breaks)
        calls = [Background(partial(crowd.work, thread)) for thread in range(threads)]
        until = monotonic() + SECONDS
        while monotonic() < until or crowd.done <= threads:
            stop.wait(0.3)
            if breaks:
                proxy.cut(reset=True)
        stop.set()
        for call in calls:
            call.result(TIMEOUT + LATE)
        assert crowd.done > threads
        assert crowd.worst < LATE
        assert nc.stats.reconnects > 0 or not breaks


@pytest.mark.parametrize("form", ["current", *WEBSOCKETS])
@pytest.mark.parametrize("end", ["close", "drain"])
@pytest.mark.usefixtures("impatient")
def test_ending_frees_everybody(form: Form, end: str, tmp_path: Path) -> None:
    with running(form, tmp_path) as server:
        for _ in range(5):
            _end_while_others_wait(server.url, end)


def _end_while_others_wait(url: str, end: str) -> None:
    nc = natsync.connect(url)
    waiting = threading.Barrier(13)
    sub = nc.subscribe("quiet")
    nc.flush()

    def wait(call: int) -> None:
        waiting.wait(TIMEOUT)
        with pytest.raises(errors.Error):
            while True:
                if call % 3 == 0:
                    sub.next_msg(TIMEOUT)
                elif call % 3 == 1:
                    nc.flush(TIMEOUT)
                else:
                    nc.request("quiet", timeout=TIMEOUT)

    calls = [Background(partial(wait, call)) for call in range(12)]
    waiting.wait(TIMEOUT)
    begun = monotonic()
    if end == "close":
        nc.close()
    else:
        try:
            nc.drain(0.5)
        except errors.DrainTimeoutError:
            pass  # requests to ourselves that nobody takes
    for call in calls:
        call.result(LATE)
    assert monotonic() - begun < LATE


def test_a_late_request_is_reported_though_nobody_waits_for_it(server: NatsServer) -> None:
    """The thread that had moved the bytes is gone when it is due."""
    is_reported = threading.Event()
    with natsync.connect(server.url) as nc:
        sub = nc.subscribe("silent")
        waiting = Background(lambda: list(sub.messages(timeout=0.2)))
        future = nc.request_async("silent", timeout=0.4)
        future.add_done_callback(lambda _: is_reported.set())
        waiting.result()
        assert is_reported.wait(TIMEOUT)
        assert isinstance(future.exception(0), errors.RequestTimeoutError)


def test_a_subscription_with_room_again_is_read_though_its_reader_left(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc, natsync.connect(server.url) as other:
        for _ in range(20):
            full = nc.subscribe("full", pending_msgs_limit=1, overflow="block")
            quiet = nc.subscribe("quiet")
            nc.flush()
            other.publish("full", b"1")
            other.publish("full", b"2")
            other.flush()
            reader = Background(lambda: list(quiet.messages(timeout=0.05)))
            reader.result()
            assert full.next_msg(TIMEOUT).data == b"1"
            assert full.next_msg(TIMEOUT).data == b"2"
            full.unsubscribe()
            nc.flush(TIMEOUT)
            quiet.unsubscribe()


def test_subscriptions_cost_no_threads(server: NatsServer) -> None:
    before = threading.active_count()
    with natsync.connect(server.url) as nc:
        subs = [nc.subscribe(f"many.{number}") for number in range(1000)]
        nc.flush()
        assert threading.active_count() == before + 1
        for number in range(1000):
            nc.publish(f"many.{number}", b"%d" % number)
        assert [int(sub.next_msg(TIMEOUT).data) for sub in subs] == list(range(1000))
    assert threading.active_count() == before


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_million_messages_leave_no_growth(server: NatsServer) -> None:
    with natsync.connect(server.url) as nc:
        sub = nc.subscribe("grow")

        def some(count: int) -> None:
            for number in range(count):
                nc.publish("grow", b"0123456789")
                if not number % 500:
                    while sub.pending_msgs:
                        sub.next_msg(0)
            nc.flush(TIMEOUT)
            while sub.pending_msgs:
                sub.next_msg(0)

        some(100_000)
        gc.collect()
        before = _memory()
        some(1_000_000)
        gc.collect()
        assert _memory() - before < 4 << 20
        assert sub.received == 1_100_000 and nc.stats.out_msgs == 1_100_000


def _memory() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
