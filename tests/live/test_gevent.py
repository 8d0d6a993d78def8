"""Under gevent's monkey-patching, where threads are greenlets and epoll is gone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

from tests.support.requirements import missing
from tests.support.servers import StartServer

pytestmark = pytest.mark.server

PROGRAM = """
from gevent import monkey
monkey.patch_all()
import sys, gevent, natsync

nc = natsync.connect(sys.argv[1])
nc.subscribe("svc", handler=lambda msg: msg.respond(b"re " + msg.data))
replies = []
gevent.joinall(
    [
        gevent.spawn(lambda n=n: replies.append(nc.request("svc", b"%d" % n, timeout=10).data))
        for n in range(20)
    ],
    raise_error=True,
)
assert sorted(replies) == sorted(b"re %d" % n for n in range(20)), replies
sub = nc.subscribe("a")
gevent.spawn_later(0.01, nc.publish, "a", b"later")
assert sub.next_msg(10).data == b"later"
futures = [nc.request_async("svc", b"x") for _ in range(10)]
assert {future.result(10).data for future in futures} == {b"re x"}
nc.drain(10)
"""


def test_greenlets_share_a_connection(start_server: StartServer) -> None:
    if importlib.util.find_spec("gevent") is None:
        missing("gevent", "pip install gevent")
    server = start_server()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, server.url],
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert (done.returncode, done.stderr) == (0, "")
