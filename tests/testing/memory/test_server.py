"""The in-memory server over its sockets: logins, restarts, and nothing left behind."""

from __future__ import annotations

import socket

import pytest

import natsync
from natsync.jetstream import ConsumerConfig, ConsumerNotFoundError, StreamConfig
from natsync.kv import BucketNotFoundError
from natsync.testing import MemoryServer

from tests.support.waiting import eventually

TIMEOUT = 10.0


def test_clients_share_it() -> None:
    with MemoryServer() as server, server.connect() as one, natsync.connect(server.url) as other:
        sub = other.subscribe("greet")
        other.flush(TIMEOUT)
        one.publish("greet", b"hello" * 100_000)
        assert sub.next_msg(TIMEOUT).data == b"hello" * 100_000
        assert one.server_info.server_name == "memory"
        assert "memory nats://127.0.0.1:" in repr(server)


def test_a_restart_forgets_everything() -> None:
    with MemoryServer() as server, server.connect(reconnect_wait=0.01) as nc:
        nc.jetstream().create_key_value("settings")
        url = server.url
        server.restart()
        eventually(lambda: nc.stats.reconnects)
        assert nc.wait_connected(TIMEOUT) and server.url == url
        nc.flush(TIMEOUT)
        with pytest.raises(BucketNotFoundError):
            nc.jetstream().key_value("settings")
        server.start()  # it runs already
        server.stop()
        server.stop()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", server.port))


@pytest.mark.parametrize("who", [{"token": "s3cret"}, {"users": {"anna": "s3cret"}}])
def test_only_some_may_connect(who: dict[str, object]) -> None:
    with MemoryServer(**who) as server:  # type: ignore[arg-type]  # as the parameters say
        assert "s3cret" not in repr(server)
        with server.connect() as nc:
            nc.flush(TIMEOUT)
        for wrong in ({}, {"token": "x"}, {"user": "anna", "password": "x"}, {"user": "x"}):
            with pytest.raises(natsync.AuthorizationError):
                natsync.connect(server.url, **wrong)


def test_messages_may_be_too_large() -> None:
    with MemoryServer(max_payload=100) as server, server.connect() as nc:
        with pytest.raises(natsync.MaxPayloadError):
            nc.publish("a", bytes(101))
        nc.publish("a", bytes(100))
        nc.flush(TIMEOUT)
        with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT) as raw:
            raw.sendall(b"CONNECT {}\r\nPUB a 101\r\n" + bytes(101) + b"\r\n")
            answer = b"".join(iter(lambda: raw.recv(65536), b""))
        assert answer.endswith(b"-ERR 'Maximum Payload Violation'\r\n")


def test_a_client_that_vanishes_is_forgotten() -> None:
    with MemoryServer() as server, server.connect() as nc:
        with server.connect() as other:
            other.subscribe("a")
            other.flush(TIMEOUT)
        with pytest.raises(natsync.NoRespondersError):
            nc.request("a", timeout=TIMEOUT)


def test_a_consumer_that_nobody_uses_is_deleted() -> None:
    with MemoryServer() as server, server.connect() as nc:
        stream = nc.jetstream().create_stream(StreamConfig("S"))
        stream.create_consumer(ConsumerConfig(name="c", inactive_threshold=0.1))

        def gone() -> bool:
            try:
                stream.consumer("c")
            except ConsumerNotFoundError:
                return True
            return False

        eventually(gone)
        assert stream.info().state.consumer_count == 0
