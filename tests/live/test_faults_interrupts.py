"""Interrupts in the middle of calls: never a lock that is lost, never a wait without end."""

from __future__ import annotations

import ctypes
import json
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import natsync
from natsync import errors

from tests.support import forked
from tests.support.fake_server import Background
from tests.support.interrupted import SoftTimeLimit, main
from tests.support.servers import NatsServer
from tests.support.websocket_server import WEBSOCKETS, Form, running

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("fork_server")]

SECONDS = "0.5"  # or longer, until there were enough interrupts
KEEPING = {"request", "future", "next_msg"}  # an interrupt of these does not cost the connection
LATE = 3.0  # what a call may take where only milliseconds are due, on a busy machine


def interrupted(*arguments: str) -> dict[str, float]:
    done = forked.run(main, *arguments, timeout=50)
    assert done.status == 0, done.errors[-4000:]
    counts: dict[str, float] = json.loads(done.output)
    return counts


@pytest.mark.parametrize("shared", [(), ("shared",)], ids=["alone", "shared"])
@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("request", "interrupt"),
        ("request", "timeout"),
        ("future", "exception"),
        ("flush", "exception"),
        ("next_msg", "interrupt"),
        ("publish", "timeout"),
        ("subscribe", "interrupt"),
        ("close", "interrupt"),
        ("drain", "exception"),
        ("first request", "interrupt"),
        ("refused drain", "interrupt"),
        ("refused request", "timeout"),
    ],
)
def test_calls_that_are_interrupted(
    server: NatsServer, call: str, raises: str, shared: tuple[str, ...]
) -> None:
    counts = interrupted(server.url, call, raises, SECONDS, *shared)
    assert counts["raised"] > 20
    assert counts["worst"] < LATE
    if call in KEEPING:
        assert counts["reconnects"] * 100 <= counts["raised"]


@pytest.mark.parametrize("form", WEBSOCKETS)
@pytest.mark.parametrize(
    ("call", "raises"),
    [
        ("request", "interrupt"),
        ("flush", "exception"),
        ("publish", "timeout"),
        ("close", "interrupt"),
        ("first request", "interrupt"),
    ],
)
def test_calls_over_websocket_that_are_interrupted(
    form: Form, call: str, raises: str, tmp_path: Path
) -> None:
    with running(form, tmp_path) as server:
        counts = interrupted(server.url, call, raises, SECONDS, "shared")
    assert counts["raised"] > 20
    assert counts["worst"] < LATE


@pytest.fixture
def untraced() -> Iterator[None]:
    """Without coverage: while an exception waits for a thread that sleeps, CPython 3.11 does not get beyond
    the first line of any traced function."""
    trace, threads = sys.gettrace(), threading.gettrace()
    sys.settrace(None)
    threading.settrace(None)
    yield
    threading.settrace(threads)
    sys.settrace(trace)


def test_an_exception_thrown_into_a_thread_that_waits(server: NatsServer, untraced: None) -> None:
    """As worker pools end tasks; it arrives when the thread next runs Python code."""
    with natsync.connect(server.url) as nc:
        for number in range(30):
            sub = nc.subscribe(f"thrown.{number}")
            started = threading.Event()
            call = Background(partial(_wait, sub, started))
            assert started.wait(10)
            thread = call._thread.ident
            assert ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(thread or 0), ctypes.py_object(SoftTimeLimit)
            )
            _publish(nc, f"thrown.{number}")
            with pytest.raises(SoftTimeLimit):
                call.result()
            assert nc.wait_connected(10)
            sub.unsubscribe()
        nc.flush()


def _wait(sub: natsync.Subscription, started: threading.Event) -> None:
    started.set()
    while True:
        sub.next_msg(10)


def _publish(nc: natsync.Client, subject: str) -> None:
    try:
        nc.publish(subject)
        nc.flush(10)
    except errors.ConnectionReconnectingError:
        assert nc.wait_connected(10)
        nc.publish(subject)
