"""The client over WebSocket: plain, compressed, and in TLS, against a real server, with everything that it
does over TCP."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import natsync
from natsync import errors
from natsync.testing import NatsCluster

from tests.support.certificates import Authority
from tests.support.http_proxy import ConnectProxy
from tests.support.proxy import Proxy
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server
TIMEOUT = 10.0
FORMS = ["ws", "ws compressed", "wss", "wss compressed"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def plain() -> Iterator[NatsServer]:
    with NatsServer(
        "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }"
    ) as server:
        yield server


@pytest.fixture(scope="module")
def secure(authority: Authority) -> Iterator[NatsServer]:
    paths = authority.issue("server", "localhost", "127.0.0.1")
    section = f"tls {{ {paths.config} }}"
    config = f"websocket {{ listen: 127.0.0.1:-1, compression: true, {section} }}"
    with NatsServer(config) as server:
        yield server


@pytest.fixture(params=FORMS)
def nc(
    request: pytest.FixtureRequest, plain: NatsServer, secure: NatsServer, authority: Authority
) -> Iterator[natsync.Client]:
    scheme, *compressed = request.param.split()
    server = secure if scheme == "wss" else plain
    tls = natsync.TLS(ca_file=authority.cert) if scheme == "wss" else False
    with natsync.connect(
        f"{scheme}://127.0.0.1:{server.websocket_port}",
        tls=tls,
        websocket_compression=bool(compressed),
    ) as client:
        yield client


def test_publish_subscribe_and_request(nc: natsync.Client) -> None:
    with nc.subscribe("a.*") as sub:
        nc.publish("a.b", b"hello", headers={"Tone": "warm"})
        msg = sub.next_msg(TIMEOUT)
        assert (msg.subject, msg.data, msg.headers["Tone"]) == ("a.b", b"hello", "warm")
    with nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data)):
        assert nc.request("echo", b"x" * 300, timeout=TIMEOUT).data == b"x" * 300
    with pytest.raises(errors.NoRespondersError):
        nc.request("nobody", timeout=TIMEOUT)
    assert nc.rtt(TIMEOUT) < TIMEOUT


def test_compression_with_a_small_max_payload() -> None:
    """A server ends the connection after a message that inflates to more than that."""
    config = "websocket { listen: 127.0.0.1:-1, no_tls: true, compression: true }\n"
    with NatsServer(f"{config} max_payload: 200") as server:
        url = f"ws://127.0.0.1:{server.websocket_port}"
        with natsync.connect(
            url, websocket_compression=True, name="n" * 500, reconnect=False
        ) as nc:
            with nc.subscribe("a") as sub:
                for number in range(100):
                    nc.publish("a", bytes(200))
                nc.flush(TIMEOUT)
                assert len([*sub.messages(TIMEOUT, 100)]) == 100


def test_large_and_many_messages(nc: natsync.Client) -> None:
    noise = random.Random(3).randbytes(900_000)
    with nc.subscribe("big") as sub:
        nc.publish("big", noise)
        nc.publish("big", bytes(900_000))
        assert sub.next_msg(TIMEOUT).data == noise
        assert sub.next_msg(TIMEOUT).data == bytes(900_000)
    with nc.subscribe("many") as sub:
        for number in range(5_000):
            nc.publish("many", b"%d" % number)
        assert [int(sub.next_msg(TIMEOUT).data) for _ in range(5_000)] == list(range(5_000))


def test_requests_from_many_threads(nc: natsync.Client) -> None:
    answers: list[bytes] = []

    def work(number: int) -> None:
        for _ in range(20):
            answers.append(nc.request("echo.threads", b"%d" % number, timeout=TIMEOUT).data)

    with nc.subscribe("echo.threads", handler=lambda msg: msg.respond(msg.data), workers=2):
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(TIMEOUT)
    assert sorted(answers) == sorted(b"%d" % number for number in range(6) for _ in range(20))


def test_drain_handles_what_came(nc: natsync.Client) -> None:
    taken: list[bytes] = []
    nc.subscribe("drained", handler=lambda msg: taken.append(msg.data))
    for number in range(200):
        nc.publish("drained", b"%d" % number)
    nc.flush(TIMEOUT)
    nc.drain(TIMEOUT)
    assert len(taken) == 200


def test_a_lost_connection_is_made_again(plain: NatsServer) -> None:
    again = threading.Event()
    with (
        Proxy("127.0.0.1", plain.websocket_port) as proxy,
        natsync.connect(
            proxy.url.replace("nats://", "ws://") + "/nats?team=shop",
            reconnect_wait=0.01,
            on_reconnect=again.set,
        ) as nc,
        nc.subscribe("kept") as sub,
    ):
        nc.flush(TIMEOUT)
        proxy.cut(reset=True)
        assert again.wait(TIMEOUT)
        nc.publish("kept", b"after")
        assert sub.next_msg(TIMEOUT).data == b"after"
        assert nc.stats.reconnects == 1


def test_other_servers_are_discovered_and_reached(plain: NatsServer) -> None:
    """The INFO of a WebSocket names the WebSocket listeners of the cluster."""
    with NatsCluster(size=2, websocket=True) as servers:
        ports = [server.websocket_port for server in servers]
        with natsync.connect(f"ws://127.0.0.1:{ports[0]}", reconnect_wait=0.01) as nc:
            known = {f"127.0.0.1:{port}" for port in ports}
            eventually(lambda: set(nc.server_info.connect_urls) == known)
            servers[0].stop()
            eventually(lambda: nc.stats.reconnects == 1 and nc.status is natsync.Status.CONNECTED)
            assert nc.server_info.server_name == servers[1].name
            assert nc.rtt(TIMEOUT) < TIMEOUT


def test_the_programs_headers_are_sent(plain: NatsServer) -> None:
    with NatsServer(
        "websocket { listen: 127.0.0.1:-1, no_tls: true, token_cookie: pass }\n"
        'authorization { token: "s3cret" }'
    ) as server:
        url = f"ws://127.0.0.1:{server.websocket_port}"
        with natsync.connect(url, websocket_headers={"Cookie": "pass=s3cret"}) as nc:
            nc.flush(TIMEOUT)
        with pytest.raises(errors.AuthorizationError):
            natsync.connect(url)


def test_headers_from_a_function_are_made_for_each_attempt() -> None:
    """A token in them may expire. What the function raises, or returns wrongly, is reported like the error of
    other functions that credentials come from."""
    made: list[dict[str, str] | Exception] = [
        KeyError("the vault is shut"),
        {"Cookie": "pass=s3cret"},
        {"Cookie": "pass=s3cret\r\n"},
        {"Cookie": "pass=expired"},
        {"Cookie": "pass=s3cret"},
    ]
    threads: set[str] = set()

    def headers() -> dict[str, str]:
        threads.add(threading.current_thread().name.rpartition("-")[2])
        value = made.pop(0)
        if isinstance(value, Exception):
            raise value
        return value

    with NatsServer(
        "websocket { listen: 127.0.0.1:-1, no_tls: true, token_cookie: pass }\n"
        'authorization { token: "s3cret" }'
    ) as server:
        url = f"ws://127.0.0.1:{server.websocket_port}"
        with pytest.raises(errors.CredentialsError, match="callable raised KeyError") as caught:
            natsync.connect(url, websocket_headers=headers)
        assert isinstance(caught.value.__cause__, KeyError)
        failures: list[errors.Error] = []
        with natsync.connect(
            url, websocket_headers=headers, reconnect_wait=0.01, on_error=failures.append
        ) as nc:
            nc.reconnect()
            assert nc.wait_connected(TIMEOUT)
            nc.flush(TIMEOUT)
        wrong, refused = failures
        assert isinstance(wrong, errors.CredentialsError) and wrong.option == "websocket_headers"
        assert isinstance(refused, errors.AuthorizationError)
        assert not any("s3cret" in f"{error!r} {error}" for error in failures)
    assert threads == {"blocking"} and not made


def test_a_server_that_is_no_websocket(plain: NatsServer) -> None:
    with pytest.raises(errors.ConnectError, match="opening the WebSocket: .*it said 'INFO"):
        natsync.connect(f"ws://127.0.0.1:{plain.port}")
    with pytest.raises(
        errors.ConnectError, match="opening the WebSocket: .*it said .HTTP/1.1 200 OK"
    ):
        natsync.connect(f"ws://127.0.0.1:{plain.monitor_port}/varz")


def test_a_server_with_tls_needs_wss_or_tls(
    secure: NatsServer, authority: Authority, tmp_path: Path
) -> None:
    url = f"ws://127.0.0.1:{secure.websocket_port}"
    with pytest.raises(errors.ConnectError):
        natsync.connect(url, connect_timeout=5)
    with natsync.connect(url, tls=natsync.TLS(ca_file=authority.cert)) as nc:
        assert nc.tls_state and nc.remote_address == f"127.0.0.1:{secure.websocket_port}"
    with pytest.raises(errors.ConnectError, match="TLS"):
        natsync.connect(f"wss://127.0.0.1:{secure.websocket_port}", connect_timeout=5)


@pytest.mark.parametrize("scheme", ["ws", "wss", "nats"])
def test_through_an_http_proxy(
    scheme: str, plain: NatsServer, secure: NatsServer, authority: Authority
) -> None:
    """Also after the connection was lost."""
    server = secure if scheme == "wss" else plain
    port = server.port if scheme == "nats" else server.websocket_port
    tls = natsync.TLS(ca_file=authority.cert) if scheme == "wss" else False
    lost, back = threading.Event(), threading.Event()
    with ConnectProxy(password="s3cret") as proxy:
        with natsync.connect(
            f"{scheme}://127.0.0.1:{port}",
            tls=tls,
            http_proxy=proxy.url,
            on_disconnect=lambda error: lost.set(),
            on_reconnect=back.set,
        ) as nc:
            with nc.subscribe("a") as sub:
                nc.publish("a", b"x" * 200_000)
                assert sub.next_msg(TIMEOUT).data == b"x" * 200_000
                nc.reconnect()
                assert lost.wait(TIMEOUT) and back.wait(TIMEOUT)
                nc.publish("a", b"again")
                assert sub.next_msg(TIMEOUT).data == b"again"
    assert len(proxy.asked) == 2
    assert all(head.startswith(f"CONNECT 127.0.0.1:{port} ".encode()) for head in proxy.asked)
