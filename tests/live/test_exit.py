"""The end of a program: what runs after natsync's own function of `atexit` still publishes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from signal import SIGTERM
from time import monotonic
from urllib.request import urlopen

import pytest

import natsync

from tests.support.requirements import missing
from tests.support.servers import NatsServer, StartServer
from tests.support.websocket_server import EVERY_FORM, running

pytestmark = pytest.mark.server

TIMEOUT = 20.0


@pytest.fixture(scope="module", params=EVERY_FORM)
def nats_servers(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[NatsServer]:
    with running(request.param, tmp_path_factory.mktemp("certificates")) as server:
        yield server


@pytest.fixture
def seen(nats_servers: NatsServer) -> Iterator[natsync.Subscription]:
    """The messages on `seen`; on `echo` there is an answer to requests."""
    with natsync.connect(nats_servers.url) as nc:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        sub = nc.subscribe("seen")
        nc.flush()
        yield sub


def started(server: NatsServer, code: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), server.url],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(server: NatsServer, code: str) -> str:
    """Runs a program; returns what it has written to standard error."""
    with started(server, code) as program:
        try:
            return program.communicate(timeout=TIMEOUT)[1]
        finally:
            program.kill()


def taken(sub: natsync.Subscription, last: bytes) -> list[bytes]:
    """The messages up to the last one."""
    found = []
    for msg in sub.messages(timeout=TIMEOUT):
        found.append(msg.data)
        if msg.data == last:
            return found
    raise AssertionError(f"{last!r} did not arrive, but {len(found)} others: {found[-3:]}")


def test_what_runs_after_the_end_of_the_client_still_publishes(
    nats_servers: NatsServer, seen: natsync.Subscription
) -> None:
    """Functions of `atexit` run in the reverse order of their registration: some after that of natsync."""
    written = ran(
        nats_servers,
        """
        import atexit, sys

        def first():
            nc.publish("seen", nc.request("echo", b"asked", timeout=10).data)
            nc.flush()
            for number in range(3000):
                nc.publish("seen", b"%d" % number)
            nc.publish("seen", b"x" * 500_000)
            nc.publish("seen", b"last")

        atexit.register(first)
        import natsync
        atexit.register(lambda: nc.publish("seen", b"registered later"))
        nc = natsync.connect(sys.argv[1])
        nc.publish("seen", b"from the program")
        """,
    )
    assert written == ""
    found = taken(seen, b"last")
    assert found[:3] == [b"from the program", b"registered later", b"asked"]
    assert found[3:3003] == [b"%d" % number for number in range(3000)]
    assert len(found) == 3005


def test_a_handler_that_does_not_end_is_told_and_the_rest_still_publishes(
    nats_servers: NatsServer, seen: natsync.Subscription
) -> None:
    written = ran(
        nats_servers,
        """
        import atexit, sys, threading
        atexit.register(lambda: nc.publish("seen", b"late"))
        import natsync
        begun = threading.Event()
        nc = natsync.connect(sys.argv[1])
        nc.subscribe("a", handler=lambda msg: (begun.set(), threading.Event().wait(60)))
        nc.publish("a")
        assert begun.wait(10)
        """,
    )
    assert written == "a handler or callback still runs at the end of the program\n"
    assert taken(seen, b"late") == [b"late"]


LOGS = """
import logging.handlers, sys
import natsync

class Handler(logging.Handler):
    def emit(self, record):
        try:
            nc.publish("seen", self.format(record).encode())
        except Exception:
            self.handleError(record)

nc = natsync.connect(sys.argv[1])
buffer = logging.handlers.MemoryHandler(100_000, target=Handler())
logging.getLogger().addHandler(buffer)
for number in range(1000):
    logging.warning("record %d", number)
"""


def test_log_handlers_that_are_flushed_last_still_publish(
    nats_servers: NatsServer, seen: natsync.Subscription
) -> None:
    """By `logging.shutdown`, which most programs register by an import before that of natsync."""
    assert ran(nats_servers, LOGS) == ""
    assert len(taken(seen, b"record 999")) == 1000


def test_what_was_reported_last_is_told(nats_servers: NatsServer) -> None:
    """The failures of a handler are counted for a second before they are told."""
    written = ran(
        nats_servers,
        """
        import sys, threading, natsync
        nc = natsync.connect(sys.argv[1])
        called = threading.Semaphore(0)

        def fails(msg):
            called.release()
            raise ValueError(msg.data.decode())

        nc.subscribe("fails", handler=fails)
        for number in range(500):
            nc.publish("fails", b"%d" % number)
        for number in range(500):
            called.acquire(timeout=10)
        """,
    )
    told = re.findall(r"^handler of fails failed: ValueError(?: .and (\d+) times)?", written, re.M)
    assert len(told) + sum(int(before or 0) for before in told) == 500


def test_handlers_end_before_the_rest(nats_servers: NatsServer, seen: natsync.Subscription) -> None:
    """A message that is being handled at the end is handled to its end, while many more arrive."""
    written = ran(
        nats_servers,
        """
        import atexit, sys, threading
        atexit.register(lambda: nc.publish("seen", b"last"))
        import natsync
        nc = natsync.connect(sys.argv[1])
        entered, leave = threading.Event(), threading.Event()

        def handle(msg):
            entered.set()
            leave.wait(10)
            nc.publish("seen", b"handled")
            leave.clear()

        nc.subscribe("work", handler=handle)
        nc.subscribe("flood")
        for _ in range(1000):
            nc.publish("flood", bytes(1000))
            nc.publish("work")
        nc.flush()
        entered.wait(10)
        atexit.register(leave.set)
        """,
    )
    assert taken(seen, b"last") == [b"handled", b"last"]
    assert written == ""


def test_a_connection_that_is_made_last_needs_no_close(
    nats_servers: NatsServer, seen: natsync.Subscription
) -> None:
    written = ran(
        nats_servers,
        """
        import atexit, sys

        def last():
            client = natsync.connect(sys.argv[1])
            client.publish("seen", b"last")

        atexit.register(last)
        import natsync
        """,
    )
    if sys.version_info < (3, 12):  # later versions start no thread then, and the call says so
        assert taken(seen, b"last") == [b"last"] and written == ""
    else:
        assert "ConnectError" in written


def test_the_rest_of_the_client_works_until_the_end(
    nats_servers: NatsServer, seen: natsync.Subscription
) -> None:
    """A function that was registered first may close the client, or subscribe."""
    written = ran(
        nats_servers,
        """
        import atexit, sys

        def last():
            with nc.subscribe("own") as sub:
                nc.publish("own", b"own")
                nc.publish("seen", sub.next_msg(10).data)
            nc.publish("seen", b"last")
            nc.drain()
            try:
                nc.publish("seen", b"too late")
            except natsync.ConnectionClosedError as error:
                print(error, file=sys.stderr)

        atexit.register(last)
        import natsync
        nc = natsync.connect(sys.argv[1])
        """,
    )
    assert taken(seen, b"last") == [b"own", b"last"]
    assert written == "connection closed by drain() on thread MainThread\n"


def test_what_comes_after_the_very_end_says_so_at_once(nats_servers: NatsServer) -> None:
    """Finalizers run while the interpreter shuts down, when the other threads are frozen."""
    began = monotonic()
    written = ran(
        nats_servers,
        """
        import builtins, sys, natsync
        nc = natsync.connect(sys.argv[1])

        class Late:
            def __init__(self, call):
                self.call = call
            def __del__(self):
                self.call()

        builtins.late = [Late(lambda: nc.publish("seen", b"lost")), Late(lambda: nc.request("echo"))]
        builtins.late += [Late(nc.flush), Late(nc.drain), Late(nc.close)]
        """,
    )
    assert monotonic() - began < 5
    why = "natsync.ConnectionClosedError: connection closed: the interpreter is shutting down"
    assert written.count(why) == written.count("Traceback") == 4


@pytest.mark.parametrize("gone", [False, True], ids=["silent", "gone"])
def test_a_server_that_does_not_answer_delays_the_end_a_little(
    start_server: StartServer, gone: bool
) -> None:
    """And what cannot be sent is told on standard error."""
    server = start_server()
    with started(
        server,
        """
        import atexit, sys
        atexit.register(lambda: nc.publish("seen", b"late"))
        import natsync
        def gone(error): print("disconnected", file=sys.stderr, flush=True)
        nc = natsync.connect(sys.argv[1], on_disconnect=gone)
        print("connected", file=sys.stderr, flush=True)
        sys.stdin.readline()
        nc.publish("seen", b"published")
        """,
    ) as program:
        try:
            assert program.stderr and program.stdin
            assert program.stderr.readline() == "connected\n"
            if gone:
                server.stop()
                assert program.stderr.readline() == "disconnected\n"
            else:
                server.pause()
            began = monotonic()
            written = program.communicate("\n", timeout=TIMEOUT)[1]
            assert monotonic() - began < 8
        finally:
            program.kill()
            if not gone:
                server.resume()
    assert "natsync.ConnectionClosedError: connection closed by the end of the program" in written
    assert not gone or "connection closed with 1 messages" in written


PROCESSES = """
import atexit, multiprocessing, sys
from multiprocessing.util import Finalize
import natsync

def work(url):
    client = natsync.connect(url)
    Finalize(None, lambda: client.publish("seen", b"last"), exitpriority=-100)
    client.publish("seen", b"first")

if __name__ == "__main__":
    child = multiprocessing.get_context(METHOD).Process(target=work, args=(sys.argv[1],))
    child.start()
    child.join()
"""


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_what_a_process_of_multiprocessing_runs_last(
    server: NatsServer, tmp_path: Path, method: str
) -> None:
    file = tmp_path / "program.py"
    file.write_text(PROCESSES.replace("METHOD", repr(method)), encoding="utf-8")
    with natsync.connect(server.url) as nc:
        sub = nc.subscribe("seen")
        nc.flush()
        subprocess.run(
            [sys.executable, "-W", "ignore", file, server.url],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            timeout=TIMEOUT,
        )
        assert taken(sub, b"last") == [b"first", b"last"]


def test_a_worker_of_gunicorn_publishes_to_its_end(server: NatsServer, tmp_path: Path) -> None:
    if find_spec("gunicorn") is None:
        missing("gunicorn", "pip install 'natsync[test]'")
    (tmp_path / "last.py").write_text(
        """
import atexit, os
atexit.register(lambda: nc.publish("seen", b"last"))
import natsync
nc = natsync.connect(os.environ["NATS_URL"])

def app(environ, start):
    nc.publish("seen", b"a request")
    start("200 OK", [("Content-Length", "2")])
    return [b"ok"]
""",
        encoding="utf-8",
    )
    with natsync.connect(server.url) as nc:
        sub = nc.subscribe("seen")
        nc.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "-b", "127.0.0.1:0", "last:app"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NATS_URL": server.url},
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stderr
        log = ""
        try:
            while not (found := re.search(r"Listening at: (http\S+)", log)):
                line = process.stderr.readline()
                assert line, log
                log += line
            assert urlopen(found[1], timeout=TIMEOUT).read() == b"ok"
        finally:
            process.send_signal(SIGTERM)
            _, rest = process.communicate(timeout=TIMEOUT)
        assert taken(sub, b"last") == [b"a request", b"last"]
        assert "Traceback" not in rest
