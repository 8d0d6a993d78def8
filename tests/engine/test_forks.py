"""A process that forks: parent and child each have a connection that works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import wraps

import pytest

from natsync.protocol import Pub, Sub

from tests.support.fake_server import FakeServer, Peer

# A fork in a process with threads is what Python 3.12 and later warn of; programs do it all the same.
PROGRAM = """
import ctypes, mmap, os, sys, threading, warnings
warnings.simplefilter("ignore", DeprecationWarning)
fork = sys.argv[2]
if fork == "old kernel":
    class Old(mmap.mmap):
        def madvise(self, *args): raise OSError
    mmap.mmap = Old
if fork == "emulator":
    class Emulated(mmap.mmap):
        def madvise(self, *args): pass
    mmap.mmap = Emulated
import natsync

def child():
    {child}

nc = natsync.connect(sys.argv[1], name="app", {options})
sub = nc.subscribe("a")
nc.publish("parent", b"before")
nc.flush()
# The library's function runs none of Python's hooks. Without PyDLL, another thread could have the GIL. No
# thread may ask for it at the fork: the child would yield it to that thread, which it has not.
sys.setswitchinterval(30)
pid = os.fork() if fork == "os.fork" else ctypes.PyDLL(None).fork()
if not pid:
    child()
    os._exit(0)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
nc.publish("parent", b"after")
nc.close()
"""


# Announced to Python or not; and without memory that the kernel clears: before Linux 4.14, and where the
# kernel's part is played by a program that knows no such memory.
FORKS = ["os.fork", "fork", "old kernel", "emulator"]


def forks(test: Callable[..., None]) -> Callable[..., None]:
    """Runs a test with each kind of fork; again where a child does not get on after a fork in C: CPython
    itself may wait in such a child for a thread that only the parent has, and natsync cannot prevent it.
    """

    @wraps(test)
    def repeated(*args: object, fork: str, **options: object) -> None:
        for _ in range(2 if fork != "os.fork" else 0):
            try:
                return test(*args, fork=fork, **options)
            except TimeoutError:
                pass
        return test(*args, fork=fork, **options)

    each: Callable[..., None] = pytest.mark.parametrize("fork", FORKS)(repeated)
    return each


def start(
    server: FakeServer, child: str, fork: str = "os.fork", options: str = ""
) -> subprocess.Popen[bytes]:
    text = PROGRAM.format(child=child, options=options)
    return subprocess.Popen([sys.executable, "-c", text, server.url, fork])


def parent_of(server: FakeServer) -> Peer:
    peer = server.accept()
    assert peer.greet().name == "app"
    assert peer.until(Sub).subject == b"a"
    assert peer.until(Pub).payload == b"before"
    peer.answer()
    return peer


def ends(program: subprocess.Popen[bytes], parent: Peer) -> None:
    """The parent goes on as if nothing had been: the child has sent nothing on its connection."""
    assert parent.expect(Pub).payload == b"after"
    parent.expect_end()
    assert program.wait(10) == 0


def test_the_child_connects_to_a_server_that_the_parent_knows_now() -> None:
    with FakeServer() as server, FakeServer() as other:
        text = PROGRAM.format(child="nc.publish_confirmed('child', b'hello')", options="")
        text = text.replace("pid =", f"nc.set_server_pool('{other.url}')\npid =")
        program = subprocess.Popen([sys.executable, "-c", text, server.url, "os.fork"])
        try:
            parent = parent_of(server)
            peer = other.accept()
            peer.greet()
            assert peer.until(Pub).payload == b"hello"
            peer.answer()
            ends(program, parent)
        finally:
            program.kill()
            program.wait()


@forks
@pytest.mark.parametrize(
    "child",
    [
        'nc.publish("child", b"hello"); nc.close()',
        'nc.subscribe("b"); nc.publish("child", b"hello"); nc.close()',
        'nc.publish_confirmed("child", b"hello"); natsync._connect._leave_at_exit()',
    ],
)
def test_the_child_gets_a_connection_of_its_own(child: str, fork: str) -> None:
    with FakeServer() as server:
        program = start(server, child, fork)
        try:
            parent = parent_of(server)
            peer = server.accept()
            assert peer.greet().name == "app"
            assert peer.until(Pub).payload == b"hello"
            peer.answer()
            peer.expect_end()
            ends(program, parent)
        finally:
            program.kill()
            program.wait()


@forks
@pytest.mark.parametrize(
    ("child", "options"),
    [
        ("pass", ""),
        ("nc.close(); repr(nc); nc.status", ""),
        ("global nc, sub; del nc, sub; import gc; gc.collect()", ""),
        ("import atexit; atexit._run_exitfuncs()", ""),
        ("assert not any(sub.stats); assert sub.closed; sub.unsubscribe()", ""),
        (
            "\n    ".join(
                [
                    "try: nc.publish('a')",
                    "except natsync.ForkedError: pass",
                    "else: os._exit(1)",
                ]
            ),
            "reconnect_after_fork=False",
        ),
        (
            "\n    ".join(
                [
                    "try: sub.next_msg(1)",
                    "except natsync.ForkedError: pass",
                    "else: os._exit(1)",
                ]
            ),
            "",
        ),
        (
            "\n    ".join(
                [
                    "try: sub.drain(60)",
                    "except natsync.ForkedError: pass",
                    "else: os._exit(1)",
                ]
            ),
            "",
        ),
    ],
)
def test_a_child_that_asks_for_nothing_opens_nothing(child: str, options: str, fork: str) -> None:
    with FakeServer() as server:
        program = start(server, child, fork, options)
        try:
            ends(program, parent_of(server))
        finally:
            program.kill()
            program.wait()


# What waits for the collector when the process forks is collected in the child, at its first chance. There,
# functions run in the order in which they are registered: the first one before the client's.
COLLECTING = """
import gc, os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)
gc.set_threshold(1_000_000)
os.register_at_fork(after_in_child=lambda: gc.set_threshold(1))
import natsync
natsync.connect  # loads the client

class Garbage:
    def __init__(self):
        self.me = self

    def __del__(self):
        if os.getpid() != parent:
            nc.publish("child", b"x")

parent = os.getpid()
os.register_at_fork(before=lambda: [Garbage() for _ in range(3)])
nc = natsync.connect(sys.argv[1], name="app")
nc.subscribe("a")
nc.publish("parent", b"before")
nc.flush()
pid = os.fork()
if not pid:
    assert gc.isenabled()
    gc.collect()
    nc.close()
    os._exit(0)
assert gc.isenabled() and os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
nc.publish("parent", b"after")
nc.close()
"""


def test_finalizers_find_a_client_of_the_child() -> None:
    """Never one that is half its parent's."""
    with FakeServer() as server:
        program = subprocess.Popen([sys.executable, "-c", COLLECTING, server.url])
        try:
            parent = parent_of(server)
            peer = server.accept()
            assert peer.greet().name == "app"
            assert [peer.until(Pub).payload for _ in range(3)] == [b"x"] * 3
            peer.expect_end()
            ends(program, parent)
        finally:
            program.kill()
            program.wait()


def test_a_child_that_never_used_its_connection_may_fork_again() -> None:
    child = """
    pid = os.fork() if fork == "os.fork" else ctypes.PyDLL(None).fork()
    if pid:
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    else:
        nc.publish("child", b"hello"); nc.close()"""
    for fork in FORKS:
        with FakeServer() as server:
            program = start(server, child.strip(), fork)
            try:
                parent = parent_of(server)
                peer = server.accept()
                peer.greet()
                assert peer.until(Pub).payload == b"hello"
                peer.expect_end()
                ends(program, parent)
            finally:
                program.kill()
                program.wait()
