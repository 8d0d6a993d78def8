"""While there is no connection: why, and when there is one again."""

from __future__ import annotations

from queue import SimpleQueue

import pytest

import natsync
from natsync import errors

from tests.support.servers import NatsServer, StartServer

pytestmark = pytest.mark.server

TIMEOUT = 10.0


def test_after_reconnect_the_next_connection_is_waited_for(server: NatsServer) -> None:
    with natsync.connect(server.url, reconnect_wait=0.01) as nc:
        for count in range(1, 101):
            nc.reconnect()
            assert nc.wait_connected(TIMEOUT)
            nc.flush(TIMEOUT)
            assert nc.stats.reconnects == count


def test_why_there_is_no_connection_reaches_who_waits(start_server: StartServer) -> None:
    reported = SimpleQueue[errors.Error]()
    server = start_server("")
    with natsync.connect(
        server.url, reconnect_wait=0.01, reconnect_buffer=60, on_error=reported.put
    ) as nc:
        server.terminate()
        error = reported.get(timeout=TIMEOUT)
        while not isinstance(error, errors.ConnectError):
            error = reported.get(timeout=TIMEOUT)
        assert "refused" in error.reason
        with pytest.raises(errors.ConnectionReconnectingError, match="refused"):
            nc.flush(TIMEOUT)
        with pytest.raises(errors.RequestTimeoutError, match="no connection: .*refused"):
            nc.request("x", timeout=0.05)
        with pytest.raises(errors.RequestTimeoutError, match="no connection: .*refused"):
            nc.request_async("x", timeout=0.05).result(TIMEOUT)
        with pytest.raises(errors.OutboundBufferLimitError, match="refused"):
            nc.publish("x")
