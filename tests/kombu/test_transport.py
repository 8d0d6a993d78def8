"""The transport: URLs, options, secrets, what fails and what is closed."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
from threading import enumerate as threads
from time import monotonic

import pytest
from kombu import Connection

import natsync
import natsync.kombu
from natsync._extras import pip_install
from natsync.kombu import Transport

from tests.kombu.conftest import Connect
from tests.support.jetstream import JETSTREAM
from tests.support.paths import ROOT
from tests.support.servers import NatsServer


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("nats://me:secret@a:4222//", "nats://me:**@a:4222//"),
        ("nats://secret@a", "nats://**@a"),
        ("nats://me:secret@a,nats://secret@b", "nats://me:**@a,nats://**@b"),
        ("nats+tls://me:secret@a", "nats+tls://me:**@a"),
        ("nats://secret@a,me:secret@b:1", "nats://**@a,me:**@b:1"),
        ("nats://a/shop", "nats://a/shop"),
        ("nats://[::1]:4222,b:1,c", "nats://[::1]:4222,b:1,c"),
        # Passwords that should have been percent-encoded.
        ("nats://me:sec@ret@a", "nats://me:**@a"),
        ("nats://me:sec/ret@a", "nats://me:**@a"),
        ("nats://me:sec,ret@a", "nats://**,**@a"),
    ],
)
def test_urls_show_no_secret(url: str, shown: str) -> None:
    natsync.kombu.register()
    connection = Connection(url)
    assert connection.as_uri() == shown
    assert connection.as_uri(include_password=True) == url


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"hostname": "nats://a:1/shop"}, {"servers": "nats://a:1"}),
        ({"hostname": "nats+tls://a:1//"}, {"servers": "tls://a:1"}),
        ({"hostname": "nats://a:1,b:2/shop"}, {"servers": "nats://a:1,b:2"}),
        ({"hostname": "nats://a:1,nats://b:2/shop"}, {"servers": "nats://a:1,nats://b:2"}),
        ({"hostname": "nats+tls://a/shop,nats+tls://b"}, {"servers": "tls://a,tls://b"}),
        ({"hostname": "nats+ws://a/path"}, {"servers": "ws://a/path"}),
        (
            {"hostname": "a", "port": 1, "userid": "u", "password": "p"},
            {"servers": "nats://a:1", "user": "u", "password": "p"},
        ),
        (
            {"hostname": "nats://a", "ssl": {"ca_certs": "ca.pem", "cert_reqs": 2}},
            {"servers": "nats://a", "tls": natsync.TLS(ca_file="ca.pem")},
        ),
        ({"hostname": "nats://a", "ssl": True}, {"servers": "nats://a", "tls": True}),
        (
            {"hostname": "nats://a", "transport_options": {"connect": {"name": "shop"}}},
            {"servers": "nats://a", "name": "shop"},
        ),
    ],
)
def test_what_natsync_is_told(
    options: dict[str, object], expected: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: dict[str, object] = {}

    def connect(**arguments: object) -> None:
        told.update(arguments)
        raise ConnectionRefusedError

    natsync.kombu.register()
    monkeypatch.setattr("natsync.kombu.transport.connect", connect)
    if "://" not in str(options["hostname"]):
        options = {**options, "transport": "natsync.kombu:Transport"}
    with pytest.raises(ConnectionRefusedError):
        Connection(**options).transport.establish_connection()
    assert told == {"name": "kombu", "connect_timeout": 5, **expected}


def test_unknown_options_of_ssl_are_refused() -> None:
    natsync.kombu.register()
    with pytest.raises(natsync.OptionError, match="option ssl: unknown: ciphers"):
        Connection("nats://a", ssl={"ciphers": "x"}).transport.establish_connection()


@pytest.mark.server
def test_a_connection_ends_without_a_trace(
    broker: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "natsync.kombu"):
        connection = broker(socket_keepalive=True, interval_start=0)
    connection.connect()
    assert "transport options without effect on NATS: socket_keepalive" in caplog.text
    assert connection.connected
    transport = connection.transport
    assert isinstance(transport, Transport)
    with pytest.raises(socket.timeout):
        connection.drain_events(timeout=0.05)
    queue = connection.SimpleQueue("q")
    queue.put("one")
    assert queue.get(timeout=5).payload == "one"  # it is held, so that there is the thread
    assert any(thread.name == "natsync-kombu-progress" for thread in threads())
    connection.release()
    assert not any(thread.name == "natsync-kombu-progress" for thread in threads())
    assert not transport.verify_connection(transport)


@pytest.mark.server
@pytest.mark.parametrize("host", ["shop", "other", ""])
def test_the_server_of_a_failover_has_its_virtual_host(
    js_server: NatsServer, stream_name: str, host: str
) -> None:
    natsync.kombu.register()
    urls = f"nats://127.0.0.1:1/shop;{js_server.url}/{host}"
    with Connection(urls, transport_options={"prefix": stream_name}) as connection:
        connection.maybe_switch_next()
        connection.connect()
        transport = connection.transport
        assert isinstance(transport, Transport)
        assert transport.queues.names.prefix == (f"{stream_name}={host}" if host else stream_name)


@pytest.mark.server
def test_several_servers_have_one_virtual_host(js_server: NatsServer, stream_name: str) -> None:
    natsync.kombu.register()
    urls = f"{js_server.url},{js_server.url}/shop"
    with Connection(urls, transport_options={"prefix": stream_name}) as connection:
        transport = connection.transport
        assert isinstance(transport, Transport)
        connection.connect()
        assert transport.queues.names.prefix == f"{stream_name}=shop"
        assert set(transport.nats.servers) == {js_server.url.removeprefix("nats://")}


def test_a_failover_to_tls_or_to_a_user_keeps_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[object] = []

    def connect(**arguments: object) -> None:
        told.append((arguments["servers"], arguments.get("user")))
        raise ConnectionRefusedError

    natsync.kombu.register()
    monkeypatch.setattr("natsync.kombu.transport.connect", connect)
    connection = Connection("nats+tls://a/shop;nats+tls://b:1/shop;nats://me:p%40ss@b:1/shop")
    for _ in range(3):
        connection.maybe_switch_next()
        with pytest.raises(ConnectionRefusedError):
            connection.clone().transport.establish_connection()
    assert told == [("tls://b:1", None), ("nats://me:p%40ss@b:1", None), ("tls://a", None)]


@pytest.mark.server
def test_virtual_hosts_are_apart(js_server: NatsServer, stream_name: str) -> None:
    natsync.kombu.register()
    options = {"prefix": stream_name}
    with (
        Connection(f"{js_server.url}/red", transport_options=options) as red,
        Connection(f"{js_server.url}/blue", transport_options=options) as blue,
    ):
        red.SimpleQueue("q").put(1)
        assert red.SimpleQueue("q").qsize() == 1
        assert blue.SimpleQueue("q").qsize() == 0


def test_what_fails_meanwhile_is_tried_again_by_kombu() -> None:
    natsync.kombu.register()
    connection = Connection("nats://127.0.0.1:1", connect_timeout=1)
    with pytest.raises(connection.recoverable_connection_errors):
        connection.transport.establish_connection()
    for error in (natsync.RequestTimeoutError("a", 1.0), natsync.ConnectionReconnectingError("")):
        assert isinstance(error, connection.recoverable_connection_errors)


@pytest.mark.server
def test_a_server_that_is_gone_delays_no_end(stream_name: str) -> None:
    natsync.kombu.register()
    with NatsServer(JETSTREAM) as server:
        connection = Connection(server.url, transport_options={"prefix": stream_name})
        queue = connection.SimpleQueue("q")
        queue.put("one")
        message = queue.get(timeout=5)
    before = monotonic()
    message.ack()
    with pytest.raises(connection.recoverable_connection_errors):
        queue.put("two")
    connection.release()
    assert monotonic() - before < 20.0
    assert not any(thread.name.startswith("natsync") for thread in threads())


@pytest.mark.server
def test_a_timeout_that_no_thread_could_keep_is_refused(broker: Connect) -> None:
    with pytest.raises(natsync.OptionError, match="visibility_timeout: must be at least 0.5 s"):
        broker(visibility_timeout=0.01).connect()


def test_without_kombu_it_names_the_extra() -> None:
    code = "import sys; sys.modules['kombu'] = None\nimport natsync.kombu"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert ran.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: natsync.kombu needs kombu: {pip_install('kombu')}"
    )
