"""The server processes under the live tests: they start, answer, and leave nothing behind."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from signal import SIGKILL

import pytest

from tests.support.servers import (
    NatsServer,
    ServerError,
    StartServer,
    cluster,
    find_server,
    require_server,
)

pytestmark = pytest.mark.server


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
    with pytest.raises(ServerError, match="no gateways port"):
        server.gateway_port
    with pytest.raises(ServerError, match="no websocket port"):
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


def test_it_comes_back_on_the_same_port_after_a_crash(start_server: StartServer) -> None:
    server = start_server()
    port = server.port
    server.terminate(SIGKILL)
    with pytest.raises(ServerError, match="not running"):
        server.pid
    server.start()
    assert server.port == port
    assert first_info(server)["port"] == port


def test_a_bad_configuration_shows_the_log() -> None:
    require_server("current")
    with pytest.raises(ServerError, match="ended with status 1"):
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


def test_a_cluster_is_a_full_mesh() -> None:
    require_server("current")
    with cluster(3) as servers:
        assert [server.name for server in servers] == ["demo-1", "demo-2", "demo-3"]
        assert len({server.route_port for server in servers}) == 3


def test_an_override_that_is_no_server_counts_as_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("NATS_SERVER", str(tmp_path / "none"))
    assert find_server("current") is None
    with pytest.raises(ServerError, match="no current nats-server"):
        NatsServer()
