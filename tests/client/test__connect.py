"""`connect` as a whole: with wrong arguments nothing is opened, at exit everything is closed."""

from __future__ import annotations

import copy
import gc
import pickle
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync.protocol import Msg, Ping, Pub

from tests.support.fake_server import FakeServer
from tests.support.paths import ROOT

LEAVES = """
import sys, natsync
nc = natsync.connect(sys.argv[1])
nc.publish("a", b"last")
"""


def test_a_program_that_ends_without_close_gets_out_what_it_published() -> None:
    with FakeServer() as server:
        program = subprocess.Popen([sys.executable, "-c", LEAVES, server.url])
        try:
            peer = server.accept()
            peer.greet()
            assert peer.until(Pub).payload == b"last"
            peer.expect_end()
            peer.close()
            assert program.wait(10) == 0
        finally:
            program.kill()
            program.wait()


LEAVES_MUCH = """
import atexit, sys

def last():
    nc.publish("a", bytes(300_000))
    print("written", flush=True)

atexit.register(last)
import natsync
nc = natsync.connect(sys.argv[1])
"""


def test_a_server_that_reads_slowly_gets_what_is_published_last() -> None:
    """Although it sends a PING that nobody reads any more: the system would drop what it has not sent yet."""
    with FakeServer() as server:
        command = [sys.executable, "-c", LEAVES_MUCH, server.url]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
            try:
                peer = server.accept()
                peer.greet()
                peer.answer()
                assert program.stdout and program.stdout.readline() == b"written\n"
                with suppress(subprocess.TimeoutExpired):  # it waits, and would end otherwise
                    program.wait(0.5)
                peer.send(Ping())
                assert len(peer.until(Pub).payload) == 300_000
                peer.expect_end()
                peer.close()
                assert program.wait(10) == 0
            finally:
                program.kill()


WORKS = """
import multiprocessing, sys, natsync
nc = natsync.connect(sys.argv[1])

def work():
    for _ in range(20_000):
        nc.publish("a", b"x")
    nc.publish("a", b"last")

child = multiprocessing.get_context("fork").Process(target=work)
child.start()
child.join()
nc.close()
sys.exit(child.exitcode)
"""


def test_a_process_of_multiprocessing_gets_out_what_it_published() -> None:
    """It ends without the functions of `atexit`."""
    with FakeServer() as server:
        program = subprocess.Popen(
            [sys.executable, "-W", "ignore::DeprecationWarning", "-c", WORKS, server.url]
        )
        try:
            parent = server.accept()
            parent.greet()
            peer = server.accept()
            peer.greet()
            while peer.until(Pub).payload != b"last":
                pass
            peer.expect_end()
            parent.expect_end()
            assert program.wait(10) == 0
        finally:
            program.kill()
            program.wait()


@pytest.mark.parametrize(
    "options",
    [{"connect_timeout": 0}, {"reconnect_buffer": -1}, {"max_reconnects": -1}, {"name": 5}],
)
def test_what_makes_no_sense_is_refused_before_anything_is_opened(options: dict[str, int]) -> None:
    with FakeServer() as server, pytest.raises((errors.OptionError, TypeError)):
        natsync.connect(server.url, **options)  # type: ignore[arg-type] # wrong on purpose


def test_a_system_without_threads_is_noticed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It waited a second for the end of a thread that had never begun."""

    def no_more(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    begun = monotonic()
    with pytest.raises(errors.ConnectError, match="can't start new thread"):
        natsync.connect("nats://127.0.0.1:1")
    assert monotonic() - begun < 0.9


SUBINTERPRETER = """
import sys
code = '''
import sys
sys.path[:] = %r
import natsync
try:
    natsync.connect("nats://127.0.0.1:1")
except natsync.ConnectError as error:
    print(error.step, error.reason, flush=True)
''' % sys.path
if sys.version_info >= (3, 14):
    from concurrent import interpreters
    interpreters.create().exec(code)
elif sys.version_info >= (3, 13):
    import _interpreters
    _interpreters.exec(_interpreters.create(), code)
else:
    import _xxsubinterpreters
    _xxsubinterpreters.run_string(_xxsubinterpreters.create(isolated=True), code)
"""


def test_an_isolated_subinterpreter_is_named() -> None:
    """It may start no threads, or no daemon threads."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SUBINTERPRETER],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
        timeout=20,
    )
    why = "connect in the main interpreter, not in an isolated subinterpreter: "
    assert done.stdout.startswith(f"tcp {why}") and "thread" in done.stdout


def test_a_client_cannot_be_copied() -> None:
    """The end of a copy would end the connection of both."""
    with FakeServer() as server, server.client() as (nc, _):
        for call in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match="a client cannot be pickled or copied: connect in"):
                call(nc)
            with pytest.raises(TypeError, match="a subscription cannot be pickled or copied"):
                call(nc.subscribe("a"))


def test_a_client_that_is_never_closed_warns_and_ends() -> None:
    with FakeServer() as server:
        call = server.connecting(natsync.connect)
        peer = server.accept()
        peer.greet()
        nc = call.result()
        del call
        nc.publish("last", b"words")
        with pytest.warns(ResourceWarning, match="unclosed client Client"):
            del nc
            gc.collect()
        assert peer.until(Pub).subject == b"last"
        peer.expect_end()


def test_a_client_that_is_never_closed_ends_where_warnings_are_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    raised: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: raised.append(args.exc_type))
    with FakeServer() as server:
        call = server.connecting(natsync.connect)
        peer = server.accept()
        peer.greet()
        nc = call.result()
        del call
        del nc  # the filter of this test run is `error`
        gc.collect()
        peer.expect_end()
    assert raised == [ResourceWarning]


def test_the_first_connect_imports_little() -> None:
    """Modules that only unusual URLs need took most of its time."""
    code = (
        "import sys, natsync\n"
        "try: natsync.connect('nats://127.0.0.1:1')\n"
        "except natsync.ConnectError: print('refused')\n"
        "print(*{'urllib.parse', 'ipaddress', 'encodings.idna', 'ssl', 'logging'} & {*sys.modules})"
    )
    # Without `site`: what finds an editable installation imports pathlib, and with it urllib.parse.
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert done.stdout == "refused\n\n"


def test_none_waits_for_ever() -> None:
    with FakeServer() as server:
        connect = partial(
            natsync.connect, connect_timeout=None, request_timeout=None, write_timeout=None
        )
        with server.client(connect) as (nc, peer):
            future = nc.request_async("x")
            peer.send(Msg(peer.until(Pub).reply, b"1", b"", b"here"))
            assert future.result(None).data == b"here"
