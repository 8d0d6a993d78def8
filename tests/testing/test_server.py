"""Server processes: they start, answer, come back on their ports, and leave nothing behind."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from signal import SIGHUP

import pytest

import natsync
import natsync.testing
from natsync.testing import NatsServerError

from tests.support.certificates import Authority
from tests.support.paths import ROOT
from tests.support.servers import NatsServer, StartServer, find_server, require_server
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

TIMEOUT = 10.0
# Starts a server, and says where it listens; lives until it is killed.
STARTS = """
import sys
from natsync.testing import NatsServer
with NatsServer() as server:
    print(server.port, flush=True)
    sys.stdin.read()
"""


def first_info(server: NatsServer) -> dict[str, object]:
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        line = connection.makefile("rb").readline()
    assert line.startswith(b"INFO ")
    info: dict[str, object] = json.loads(line[5:])
    return info


def test_current_server_greets_with_its_name_and_port(server: NatsServer) -> None:
    info = first_info(server)
    assert info["server_name"] == "demo"
    assert info["port"] == server.port
    assert info["version"] == server.version
    assert server.url == f"nats://127.0.0.1:{server.port}"


def test_both_versions_greet(nats_servers: NatsServer) -> None:
    assert first_info(nats_servers)["version"] == nats_servers.version
    assert nats_servers.monitor("varz")["version"] == nats_servers.version


def test_the_old_server_is_before_pooling(start_server: StartServer) -> None:
    old = start_server(which="old")
    assert int(old.version.split(".")[1]) < 10


def test_every_listener_has_its_port(start_server: StartServer) -> None:
    config = """
        cluster { name: C, host: 127.0.0.1, port: -1 }
        gateway { name: C, host: 127.0.0.1, port: -1 }
        leafnodes { host: 127.0.0.1, port: -1 }
        websocket { host: 127.0.0.1, port: -1, no_tls: true }
        accounts { SYS: { users: [ { user: sys, password: s3cret } ] } }
        system_account: SYS
    """
    server = start_server(config)
    ports = {
        server.port,
        server.monitor_port,
        server.route_port,
        server.gateway_port,
        server.leaf_port,
        server.websocket_port,
    }
    assert len(ports) == 6
    for port in ports:
        socket.create_connection((server.host, port), timeout=10).close()


def test_a_missing_listener_is_named(server: NatsServer) -> None:
    with pytest.raises(NatsServerError, match="no gateways port"):
        server.gateway_port
    with pytest.raises(NatsServerError, match="no websocket port"):
        server.websocket_port


def test_nothing_is_left_behind() -> None:
    require_server("current")
    open_before = set(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else set()
    with NatsServer() as server:
        pid, folder = server.pid, server.folder
        assert folder.is_dir()
    assert not folder.exists()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    if open_before:
        assert set(os.listdir("/proc/self/fd")) == open_before


def test_every_port_stays_the_same(tmp_path: Path) -> None:
    require_server("current")
    with natsync.testing.NatsServer(websocket=True) as server:
        ports = server.port, server.websocket_port, server.monitor_port
        server.kill()
        with pytest.raises(NatsServerError, match="not running"):
            server.pid
        server.start()
        assert (server.port, server.websocket_port, server.monitor_port) == ports
        assert first_info(server)["port"] == ports[0]
        server.restart()
        assert (server.port, server.websocket_port, server.monitor_port) == ports


def test_nobody_takes_the_port_of_a_stopped_server(server: NatsServer) -> None:
    server.stop()
    try:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((server.host, server.port), timeout=TIMEOUT)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind((server.host, server.port))
    finally:
        server.start()


def test_what_jetstream_stored_outlives_a_restart() -> None:
    require_server("current")
    with natsync.testing.NatsServer() as server, server.connect(reconnect_wait=0.01) as nc:
        kv = nc.jetstream().create_key_value("settings")
        kv.put("colour", b"red")
        server.restart()
        eventually(lambda: nc.stats.reconnects)
        assert kv.get("colour").value == b"red"


def test_a_paused_server_answers_when_it_is_resumed(server: NatsServer) -> None:
    with server.connect() as nc:
        server.pause()
        with pytest.raises(natsync.FlushTimeoutError):
            nc.flush(0.05)
        server.resume()
        nc.flush(TIMEOUT)
        server.pause()  # `stop` ends a paused one as well
        server.restart()
        eventually(lambda: nc.stats.reconnects)


def test_a_client_logs_in_by_itself() -> None:
    require_server("current")
    users = {"anna": 'quote " dollar $x backslash \\', "ben": "b"}
    with natsync.testing.NatsServer(users=users) as server:
        assert users["anna"] not in repr(server)
        with server.connect() as anna, server.connect(user="ben", password="b") as ben:
            anna.flush(TIMEOUT)
            ben.flush(TIMEOUT)
        with pytest.raises(natsync.AuthorizationError):
            natsync.connect(server.url)
    with natsync.testing.NatsServer(token="s3cret") as server:
        with server.connect() as nc:
            nc.flush(TIMEOUT)
        with pytest.raises(natsync.AuthorizationError):
            server.connect(token="other")


def test_a_client_trusts_the_certificate(tmp_path: Path) -> None:
    require_server("current")
    authority = Authority(tmp_path)
    paths = authority.issue("server", "localhost", "127.0.0.1")
    with natsync.testing.NatsServer(
        cert_file=paths.cert, key_file=paths.key, websocket=True
    ) as server:
        tls = natsync.TLS(ca_file=authority.cert)
        with server.connect(tls=tls) as nc:
            nc.flush(TIMEOUT)
        with server.connect(tls=tls, servers=server.websocket_url) as nc:
            nc.flush(TIMEOUT)
    client = authority.issue("client", "somebody")
    with natsync.testing.NatsServer(
        cert_file=paths.cert, key_file=paths.key, ca_file=authority.cert
    ) as server:
        with pytest.raises(natsync.ConnectError):
            server.connect()
        tls = natsync.TLS(ca_file=authority.cert, cert_file=client.cert, key_file=client.key)
        with server.connect(tls=tls) as nc:
            nc.flush(TIMEOUT)


def test_configuration_is_reloaded(start_server: StartServer) -> None:
    server = start_server()
    (server.folder / "server.conf").write_text(
        (server.folder / "server.conf").read_text() + "max_payload: 1000\n"
    )
    server.signal(SIGHUP)
    server.wait_log("Reloaded: max_payload")


def test_a_server_ends_with_the_program_that_started_it() -> None:
    require_server("current")
    program = subprocess.Popen(
        [sys.executable, "-c", STARTS], cwd=ROOT, stdin=-1, stdout=-1, text=True
    )
    assert program.stdout and program.stdin
    port = int(program.stdout.readline())
    socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT).close()
    program.kill()
    program.wait()
    program.stdin.close()
    program.stdout.close()

    def refused() -> bool:
        with socket.socket() as connection:
            return connection.connect_ex(("127.0.0.1", port)) != 0

    eventually(refused)


def test_a_bad_configuration_shows_the_log() -> None:
    require_server("current")
    with pytest.raises(NatsServerError, match="ended with status 1"):
        with NatsServer("max_payload: lots"):
            pass


def test_jetstream_keeps_its_files_in_the_folder(start_server: StartServer) -> None:
    server = start_server("jetstream { store_dir: $FOLDER }")
    assert first_info(server)["jetstream"] is True
    assert (server.folder / "jetstream").is_dir()


def test_trace_lists_the_operations(start_server: StartServer) -> None:
    server = start_server(trace=True)
    with socket.create_connection((server.host, server.port), timeout=10) as connection:
        connection.sendall(b"CONNECT {}\r\nSUB some.subject 1\r\n")
        assert server.wait_log(r"<<- \[SUB (\S+) 1\]")[1] == "some.subject"


def test_an_override_that_is_no_server_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NATS_SERVER", str(tmp_path / "none"))
    assert find_server("current") is None
    with pytest.raises(NatsServerError, match="current nats-server: not found"):
        NatsServer()
