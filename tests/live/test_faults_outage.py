"""While there is no connection: why, and when there is one again; over TCP and WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from time import process_time

import pytest

import natsync
from natsync import errors

from tests.live.test_faults_network import Events
from tests.support.certificates import Authority, Paths
from tests.support.servers import NatsServer, StartServer
from tests.support.websocket_server import WEBSOCKETS, running

pytestmark = pytest.mark.server

TIMEOUT = 10.0


@pytest.fixture(params=["current", *WEBSOCKETS])
def reached(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NatsServer]:
    with running(request.param, tmp_path) as server:
        yield server


def test_after_reconnect_the_next_connection_is_waited_for(reached: NatsServer) -> None:
    with natsync.connect(reached.url, reconnect_wait=0.01) as nc:
        for count in range(1, 101):
            nc.reconnect()
            assert nc.wait_connected(TIMEOUT)
            nc.flush(TIMEOUT)
            assert nc.stats.reconnects == count


def test_why_there_is_no_connection_reaches_who_waits(reached: NatsServer) -> None:
    reported = SimpleQueue[errors.Error]()
    with natsync.connect(
        reached.url, reconnect_wait=0.01, reconnect_buffer=60, on_error=reported.put
    ) as nc:
        reached.stop()
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


def test_a_certificate_that_is_not_trusted_any_more(
    start_server: StartServer, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    good = authority.issue("server", "localhost", "127.0.0.1")
    bad = Authority(tmp_path, "other").issue("server2", "localhost", "127.0.0.1")
    now = Paths(tmp_path / "now.pem", tmp_path / "now.key")

    def use(paths: Paths) -> None:
        now.cert.write_bytes(paths.cert.read_bytes())
        now.key.write_bytes(paths.key.read_bytes())

    use(good)
    server = start_server(f"tls {{ {now.config} }}")
    events = Events()
    tls = natsync.TLS(ca_file=authority.cert)
    url = f"tls://127.0.0.1:{server.port}"
    with events.connect(url, tls=tls, reconnect_wait=0.05) as nc:
        use(bad)
        server.stop()
        events.wait_for("lost")
        server.start()
        spent = process_time()
        assert not nc.wait_connected(2.0)
        assert process_time() - spent < 1.0
        # 0.05, 0.1, 0.2 ... of a second between tries.
        assert len([line for line in server.log().splitlines() if "handshake" in line]) <= 12
        use(good)
        server.stop()
        server.start()
        assert nc.wait_connected(TIMEOUT)
        events.wait_for("lost", "back")
