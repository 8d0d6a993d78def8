"""How far a call walks through the client: it must not grow unnoticed."""

from __future__ import annotations

import pytest

import natsync
from natsync.protocol.grammar import grammar

from tests.bench.walk import WARM, shortest
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

TIMEOUT = 10.0


def test_a_request_and_a_publish_stay_short(server: NatsServer) -> None:
    """12 files and 34 moves between them on CPython 3.11, where the caller reads the reply itself."""
    grammar.cache_clear()  # else the decoder knows what it has learned in other tests
    with natsync.connect(server.url) as other, natsync.connect(server.url) as nc:
        other.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        other.flush()
        for _ in range(WARM):
            nc.request("echo", timeout=TIMEOUT)
        steps = shortest(lambda: nc.request("echo", b"x", timeout=TIMEOUT), True)
        assert len(set(steps)) <= 12 and len(steps) - 1 <= 35
        steps = shortest(lambda: nc.publish("nobody", b"x"), False)
        assert len(set(steps)) <= 2 and len(steps) - 1 <= 2
