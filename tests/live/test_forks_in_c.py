"""Processes that fork in C, of which Python knows nothing: parent and children share no connection."""

from __future__ import annotations

import subprocess
import sys

import pytest

import natsync

from tests.support.jetstream import JETSTREAM
from tests.support.servers import StartServer

pytestmark = pytest.mark.server

CALLS = ["request", "request_async", "request_many", "publish_async", "subscribe", "flush", "drain"]
CALLS += ["close", "exit_", "parents_objects"]
FIRST = ["next_msg", "messages", "pending", "replies", "future", "reply stream", "window", "reader"]


@pytest.mark.parametrize("call", CALLS + FIRST)
def test_children_notice_at_their_first_call(start_server: StartServer, call: str) -> None:
    """While a thread of the parent holds the client's lock. Children of different calls, since the first call
    is the one that matters."""
    server = start_server(JETSTREAM)
    with natsync.connect(server.url) as nc:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        nc.subscribe("silent")
        nc.flush()
        program = subprocess.run(
            [sys.executable, "-m", "tests.support.forked_in_c", server.url, call],
            capture_output=True,
            text=True,
            timeout=50,
        )
    assert program.stdout == "done\n", program.stderr
