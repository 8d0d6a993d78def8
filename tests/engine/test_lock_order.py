"""The order of locks that docs/architecture.md lists, over threads that really take them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from types import TracebackType

import pytest

import natsync
from natsync import micro
from natsync.jetstream import ConsumerConfig, StreamConfig

from tests.support.jetstream import JETSTREAM
from tests.support.servers import StartServer

pytestmark = pytest.mark.server

ORDER = [
    {"natsync/_late.py"},
    {"natsync/_engine/forks.py"},
    {f"natsync/jetstream/{file}.py" for file in ("reader", "publish_window")}
    | {"natsync/micro/service.py", "natsync/micro/endpoint.py", "natsync/kombu/deliveries.py"},
    {"natsync/_engine/inherited.py"},
    {"natsync/_engine/connection.py"},
]
"""The files that make locks, from those that are taken first to the last one."""

WAITERS = {"waiter", "seat", "pending_queue", "outbound_buffer", "sink"}
"""Modules whose locks are for one thread that sleeps, or belong to no connection."""

ROOT = Path(natsync.__file__).parent.parent
RLock, Lock = threading.RLock, threading.Lock


class Watch:
    """The locks that each thread holds, and what was wrong about them."""

    def __init__(self) -> None:
        self.held: dict[int, list[WatchedLock]] = {}
        self.taken: set[str] = set()
        self.pairs: set[tuple[str, str]] = set()
        self.faults: list[str] = []

    def mine(self) -> list[WatchedLock]:
        return self.held.setdefault(threading.get_ident(), [])

    def take(self, lock: WatchedLock) -> None:
        mine = self.mine()
        self.taken.add(lock.made_in)
        for other in mine:
            if other is not lock:
                self.pairs.add((other.made_in, lock.made_in))
                if other.rank >= lock.rank:
                    self.faults.append(f"{lock.made_in} is taken while {other.made_in} is held")
        mine.append(lock)

    def code_of_the_program(self) -> None:
        """Called by callbacks and handlers."""
        self.faults += [f"runs while {lock.made_in} is held" for lock in self.mine()]


class WatchedLock:
    """An RLock that tells a Watch."""

    def __init__(self, watch: Watch, made_in: str) -> None:
        self._lock = RLock()
        self._watch = watch
        self.made_in = made_in
        self.rank = next(rank for rank, files in enumerate(ORDER) if made_in in files)

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._watch.take(self)
        return taken

    def release(self) -> None:
        self._watch.mine().remove(self)
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.release()

    def _is_owned(self) -> bool:
        return self in self._watch.mine()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Replaces the locks that natsync makes, except those at which single threads sleep."""
    watch = Watch()

    def make(real: Callable[[], object]) -> Callable[[], object]:
        def made() -> object:
            file = Path(sys._getframe(1).f_code.co_filename)
            if not file.is_relative_to(ROOT / "natsync") or file.stem in WAITERS:
                return real()
            return WatchedLock(watch, file.relative_to(ROOT).as_posix())

        return made

    monkeypatch.setattr(threading, "RLock", make(RLock))
    monkeypatch.setattr(threading, "Lock", make(Lock))
    yield watch


def test_locks_are_taken_in_their_order(start_server: StartServer, watch: Watch) -> None:
    server = start_server(JETSTREAM)

    def tell(*_: object) -> None:
        watch.code_of_the_program()

    callbacks = dict.fromkeys(("on_error", "on_disconnect", "on_reconnect", "on_close"), tell)
    with (
        natsync.connect(server.url, reconnect_wait=0.01, **callbacks) as nc,
        ThreadPoolExecutor(4) as pool,
    ):
        got = threading.Semaphore(0)

        def handler(msg: natsync.Msg) -> None:
            tell()
            if msg.reply.startswith("$JS.ACK"):
                msg.ack()
            got.release()

        def answer(msg: natsync.Msg) -> None:
            tell()
            msg.respond(msg.data)

        js = nc.jetstream()
        stream = js.create_stream(StreamConfig(name="S", subjects=["s.>"]))
        stream.create_consumer(
            ConsumerConfig(durable_name="push", deliver_subject="to", idle_heartbeat=1)
        )
        service = micro.add_service(nc, "a", "1.0.0")
        service.add_endpoint("e", answer, subject="echo")
        nc.subscribe("plain", handler=handler, workers=2, on_outage=tell, on_close=tell)
        with (
            stream.create_consumer(ConsumerConfig(durable_name="c")).consume(handler, workers=2),
            js.push_consumer("S", "push").consume(handler, workers=2, on_error=tell),
        ):
            acks = [js.publish_async("s.1", b"x", msg_id=str(n)) for n in range(50)]
            for ack in acks:
                ack.add_done_callback(tell)
            wait([pool.submit(nc.request, "echo", b"x", timeout=20) for _ in range(100)])
            for _ in range(50):
                nc.publish("plain", b"x")
            for _ in range(150):
                assert got.acquire(timeout=20)
            assert js.publish_async("unknown", b"x", msg_id="1", timeout=1).exception(20)  # retried
            nc.reconnect()
            assert nc.wait_connected(20)
            assert service.stats().endpoints[0].num_requests == 100
        nc.drain(20)
    assert watch.faults == []
    assert watch.taken >= {"natsync/jetstream/reader.py", "natsync/jetstream/publish_window.py"}
    assert watch.taken >= {"natsync/micro/endpoint.py", "natsync/_engine/connection.py"}


def test_every_lock_of_the_client_has_a_place() -> None:
    makers = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "natsync").rglob("*.py")
        if path.stem not in WAITERS and "Lock()" in path.read_text()
    }
    assert makers <= set().union(*ORDER)
