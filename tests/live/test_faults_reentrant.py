"""Calls from signal handlers, finalizers and logging handlers, while their own thread is anywhere inside
the client."""

from __future__ import annotations

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from queue import SimpleQueue
from time import monotonic, sleep

import pytest

import natsync

from tests.support import forked, reentrant
from tests.support.servers import NatsServer
from tests.support.websocket_server import running

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("fork_server")]

DICE = random.Random(4)
TIMEOUT = 10.0


def called(*arguments: str) -> dict[str, float]:
    done = forked.run(reentrant.main, *arguments)
    assert done.status == 0, done.errors[-4000:]
    counts: dict[str, float] = json.loads(done.output)
    assert not [name for name in counts if "Error" in name], counts
    return counts


# WebSocket repeats what its frames and its TLS can matter to: calls that read in the middle of reading, calls
# that write in the middle of writing, both, and an end with frames that are not sent. All else is above it.


@pytest.fixture(scope="module", params=["current"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NatsServer]:
    with running(request.param, tmp_path_factory.mktemp("certificates")) as server:
        yield server


@pytest.mark.parametrize(
    ("server", "outer", "inner"),
    [
        ("current", "next_msg", "stats"),
        ("current", "iteration", "subscribe"),
        ("current", "request", "publish"),
        ("current", "flush", "publish"),
        ("current", "publish", "taken"),
        ("current", "future", "future"),
        ("current", "next_msg", "next_msg"),
        ("current", "request", "request"),
        ("current", "publish", "flush"),
        ("websocket", "next_msg", "next_msg"),
        ("websocket", "publish", "flush"),
        ("secure websocket", "request", "request"),
    ],
    indirect=["server"],
)
def test_calls_from_a_signal_handler(server: NatsServer, outer: str, inner: str) -> None:
    check_calls(server, outer, inner, "signal")


@pytest.mark.parametrize(
    ("server", "outer", "inner"),
    [
        ("current", "next_msg", "stats"),
        ("current", "publish", "taken"),
        ("current", "next_msg", "subscribe"),
        ("current", "publish", "publish"),
        ("current", "request", "request"),
        ("websocket", "request", "request"),
    ],
    indirect=["server"],
)
def test_calls_from_a_finalizer(server: NatsServer, outer: str, inner: str) -> None:
    check_calls(server, outer, inner, "finalizer")


def check_calls(server: NatsServer, outer: str, inner: str, how: str) -> None:
    """Some hundred calls; over WebSocket half as many, since what all transports share has been tried."""
    times = 1000 if server.url.startswith("nats:") else 500
    counts = called(server.url, outer, inner, str(times), how)
    assert counts["inner"] > times / 10
    assert counts["arrived"] == counts.get("published", 0)
    assert counts["worst"] < 5 and not counts["reconnects"]


@pytest.mark.parametrize(
    ("server", "busy", "stops"),
    [
        *(
            ("current", busy, stops)
            for busy in ("iterate", "next_msg", "request", "publish", "flush")
            for stops in ("drain", "close", "exit")
        ),
        ("websocket", "publish", "drain"),
        ("secure websocket", "publish", "close"),
    ],
    indirect=["server"],
)
def test_a_worker_that_is_told_to_stop(server: NatsServer, busy: str, stops: str) -> None:
    """Whatever its main thread does: it stops soon, and nothing that it published is lost."""
    arrived = threading.Semaphore(0)
    with natsync.connect(server.url) as nc:
        nc.subscribe("count", handler=lambda msg: arrived.release(), pending_msgs_limit=-1)
        nc.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.terminated", server.url, busy, stops],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout and process.stdout.readline() == "ready\n"
        sleep(DICE.random() / 10)  # anywhere in what it does
        begun = monotonic()
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        assert process.returncode == 0, err[-4000:]
        assert monotonic() - begun < 8
        counts = json.loads(out)
        assert counts["published"] > 0
        for _ in range(counts["published"]):
            assert arrived.acquire(timeout=10)


INTERRUPTED_IMPORT = """
from contextlib import suppress
import importlib.util, os, sys, natsync
ours = os.path.dirname(natsync.__file__)
wanted = importlib.util.find_spec("ssl").origin if sys.argv[2] == "tls" else ours
nc = natsync.connect(sys.argv[1])
nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
nc.request("echo", timeout=10)
refused = 0

def trace(frame, event, argument):
    global refused
    if frame.f_code.co_name != "<module>" or not frame.f_code.co_filename.startswith(wanted):
        return None
    sys.settrace(None)
    try:
        call()
    except natsync.errors.ReentrantCallError:
        refused += 1
    sys.settrace(trace)
    return trace

def call():
    match sys.argv[2]:
        case "futures":
            assert nc.request_async("echo", b"x", timeout=10).result(10).data == b"x"
        case "jetstream":
            nc.jetstream()
        case "kv":
            assert nc.jetstream().key_value_names()
        case "object_store":
            assert nc.jetstream().object_store_names()
        case "tls":
            with suppress(natsync.errors.SecureConnWantedError):
                natsync.connect(sys.argv[1], tls=True)

sys.settrace(trace)
call()
sys.settrace(None)
nc.close()
print(refused > 10)
"""


@pytest.mark.parametrize("what", ["futures", "jetstream", "kv", "object_store", "tls"])
def test_a_call_in_the_middle_of_an_import(server: NatsServer, what: str) -> None:
    """Some modules are imported at their first use: at each of their lines, the same is wanted. The call that
    is interrupted gets what it asked for."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, server.url, what],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")


class Shipping(logging.Handler):
    """A handler of the program that sends what is logged with the client that logs it."""

    def __init__(self, nc: natsync.Client) -> None:
        super().__init__()
        self._nc = nc
        self.shipped: SimpleQueue[str] = SimpleQueue()
        self.threads: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        self.threads.add(threading.current_thread().name)
        text = record.getMessage()
        try:
            self._nc.publish("logs", text.encode())
            assert self._nc.request("echo", text.encode(), timeout=TIMEOUT).data == text.encode()
            self._nc.flush(TIMEOUT)
        except natsync.errors.ConnectionReconnectingError:
            text = "lost"
        self.shipped.put(text)


def test_a_logging_handler_that_calls_the_client(server: NatsServer) -> None:
    """The thread that moves the connection's bytes logs nothing itself: it would wait for its own reply,
    with the lock of `logging` held."""
    with natsync.connect(server.url) as other:
        other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        logs = other.subscribe("logs")
        other.flush()
        with natsync.connect(server.url, name="shipping", reconnect_wait=0.01) as nc:
            handler, ours = Shipping(nc), logging.getLogger("natsync")
            level = ours.level
            ours.addHandler(handler)
            ours.setLevel(logging.INFO)
            try:
                for number in range(5):
                    nc.reconnect()
                    while not handler.shipped.get(timeout=TIMEOUT).startswith("reconnected"):
                        pass
                    ours.getChild("program").info("program %d", number)
                    assert handler.shipped.get(timeout=TIMEOUT) == f"program {number}"
            finally:
                ours.removeHandler(handler)
                ours.setLevel(level)
        assert not [name for name in handler.threads if name.endswith("-io")]
        other.flush()
        texts = [msg.data.decode() for msg in logs.messages(timeout=0.0)]
        assert [text for text in texts if text.startswith("program")] == [
            f"program {number}" for number in range(5)
        ]
