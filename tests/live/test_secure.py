"""`connect` with TLS, nkeys and JWTs, against real servers; and again after a loss."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import natsync
from natsync import TLS, errors

from tests.support.http_proxy import ConnectProxy
from tests.support.logins import ALICE, SEED, USER, creds, operator_config, user_jwt
from tests.support.secured import Certificates, make_certificates
from tests.support.servers import NatsServer, StartServer, Which

pytestmark = pytest.mark.server

TIMEOUT = 10.0
BOTH = pytest.mark.parametrize("which", ["current", "old"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def works(nc: natsync.Client) -> None:
    """Requests, and messages that fill many records."""
    nc.subscribe("svc", handler=lambda msg: msg.respond(msg.data))
    assert nc.request("svc", b"hello", timeout=TIMEOUT).data == b"hello"
    payload = bytes(900_000)
    assert nc.request("svc", payload, timeout=TIMEOUT).data == payload
    sub = nc.subscribe("many")
    for number in range(5000):
        nc.publish("many", b"%d" % number)
    assert [sub.next_msg(TIMEOUT).data for _ in range(5000)][-1] == b"4999"


@BOTH
def test_tls_after_info(
    start_server: StartServer, which: Which, certificates: Certificates
) -> None:
    server = start_server(f"tls {{ {certificates.server.config} }}", which=which)
    trusting = TLS(ca_file=certificates.ca)
    with natsync.connect(server.url.replace("127.0.0.1", "localhost"), tls=trusting) as nc:
        works(nc)
    with natsync.connect(server.url.replace("nats:", "tls:"), tls=trusting) as nc:
        assert nc.rtt() > 0
    with pytest.raises(errors.ConnectError, match="certificate") as caught:
        natsync.connect(server.url)  # the server demands it; its authority is not known here
    assert caught.value.step == "tls"
    with pytest.raises(errors.ConnectError, match="certificate"):
        natsync.connect(server.url, tls=TLS(ca_file=certificates.other_ca))
    with pytest.raises(errors.ConnectError, match="certificate"):
        natsync.connect(server.url, tls=TLS(ca_file=certificates.ca, hostname="other.example"))


def test_tls_first_and_a_certificate_of_the_client(
    start_server: StartServer, certificates: Certificates
) -> None:
    first = start_server(f"tls {{ {certificates.server.config}, handshake_first: true }}")
    with natsync.connect(first.url, tls=TLS(ca_file=certificates.ca, handshake_first=True)) as nc:
        works(nc)
    asks = start_server(
        f'tls {{ {certificates.server.config}, ca_file: "{certificates.ca}", verify: true }}'
    )
    mine = certificates.client
    with natsync.connect(
        asks.url, tls=TLS(ca_file=certificates.ca, cert_file=mine.cert, key_file=mine.key)
    ) as nc:
        works(nc)
    with pytest.raises(errors.ConnectError):
        natsync.connect(asks.url, tls=TLS(ca_file=certificates.ca))


def test_what_a_proxy_says_before_tls_is_not_taken_for_the_server(
    start_server: StartServer, certificates: Certificates
) -> None:
    """Somebody in between could send an INFO of his own in clear text (CVE-2011-0411)."""
    server = start_server(f"tls {{ {certificates.server.config}, handshake_first: true }}")
    first = TLS(ca_file=certificates.ca, handshake_first=True)
    with (
        ConnectProxy() as proxy,
        natsync.connect(server.url, tls=first, http_proxy=proxy.url) as nc,
    ):
        works(nc)
    with ConnectProxy(early=b'INFO {"server_id":"mine","headers":true}\r\n') as proxy:
        with pytest.raises(errors.ConnectError, match="before TLS") as caught:
            natsync.connect(server.url, tls=first, http_proxy=proxy.url)
        assert caught.value.step == "tls"


@pytest.mark.parametrize("form", ["tls", "tls first", "wss"])
def test_the_state_of_tls(start_server: StartServer, certificates: Certificates, form: str) -> None:
    first = ", handshake_first: true" if form == "tls first" else ""
    section = f"tls {{ {certificates.server.config}{first} }}"
    server = start_server(
        f"websocket {{ listen: 127.0.0.1:-1, {section} }}" if form == "wss" else section
    )
    url = f"tls://localhost:{server.port}"
    if form == "wss":
        url = f"wss://localhost:{server.websocket_port}"
    trusting = TLS(ca_file=certificates.ca, handshake_first=form == "tls first")
    with natsync.connect(url, tls=trusting) as nc:
        state = nc.tls_state
        assert isinstance(state, natsync.TLSState)
        assert (state.version, state.server_name, state.verified) == ("TLSv1.3", "localhost", True)
        assert state.cipher.startswith("TLS_")
        assert state.certificate["subject"] == ((("commonName", "server"),),)
        pem = certificates.server.cert.read_text()
        assert ssl.DER_cert_to_PEM_cert(state.certificate_der).strip() == pem.strip()
        assert "certificate" not in repr(state)
    assert nc.tls_state is None and nc.local_address is None  # it is closed
    careless = TLS(verify=False, handshake_first=form == "tls first")
    with natsync.connect(url, tls=careless) as nc:
        assert nc.tls_state and not nc.tls_state.verified and nc.tls_state.certificate == {}
        assert nc.tls_state.certificate_der == state.certificate_der


def test_tls_that_the_server_does_not_have(start_server: StartServer) -> None:
    server = start_server()
    with pytest.raises(errors.SecureConnWantedError):
        natsync.connect(server.url, tls=True)
    with pytest.raises(errors.OptionError, match="ca_file"):
        natsync.connect(server.url, tls=TLS(ca_file="no/such/file.pem"))


def test_a_lost_tls_connection_comes_back(
    start_server: StartServer, certificates: Certificates
) -> None:
    server = start_server(f"tls {{ {certificates.server.config} }}")
    with natsync.connect(server.url, tls=TLS(ca_file=certificates.ca), reconnect_wait=0.01) as nc:
        sub = nc.subscribe("a")
        nc.flush()
        nc.reconnect()
        nc.publish("a", b"over the loss")
        assert sub.next_msg(TIMEOUT).data == b"over the loss"


@pytest.fixture(params=["current", "old"])
def operated(request: pytest.FixtureRequest, start_server: StartServer) -> Iterator[NatsServer]:
    yield start_server(operator_config(), which=request.param)


def test_credentials_with_a_jwt_log_in(operated: NatsServer, tmp_path: Path) -> None:
    jwt = user_jwt()
    content = creds(jwt, ALICE.seed)
    file = tmp_path / "alice.creds"
    file.write_text(content)
    for credentials in (file, str(file), content, lambda: content.encode()):
        with natsync.connect(operated.url, credentials=credentials) as nc:
            works(nc)
    for options in (
        {"jwt": lambda: jwt, "sign": ALICE.sign},
        {"jwt": jwt, "nkey": ALICE.seed},
        {"jwt": jwt.encode(), "nkey": lambda: ALICE.seed.encode()},
    ):
        with natsync.connect(operated.url, **options) as nc:
            works(nc)
    with pytest.raises(errors.AuthorizationError):
        natsync.connect(operated.url)


def test_credentials_are_read_again_for_every_connection(
    operated: NatsServer, tmp_path: Path
) -> None:
    asked = threading.Semaphore(0)

    def read() -> str:
        asked.release()
        return creds(user_jwt(), ALICE.seed)

    with natsync.connect(operated.url, credentials=read, reconnect_wait=0.01) as nc:
        assert asked.acquire(timeout=TIMEOUT)
        nc.reconnect()
        assert asked.acquire(timeout=TIMEOUT)
        assert nc.wait_connected(TIMEOUT)


@BOTH
def test_nkeys_log_in(start_server: StartServer, which: Which) -> None:
    config = "authorization { users: [ { nkey: %s } ] }"
    server = start_server(config % USER, which=which)
    for nkey in (SEED, SEED.encode(), lambda: SEED):
        with natsync.connect(server.url, nkey=nkey) as nc:
            works(nc)
    with pytest.raises(errors.AuthorizationError) as caught:
        natsync.connect(server.url, nkey=ALICE.seed)
    assert SEED not in repr(caught.value) and ALICE.seed not in repr(caught.value)


def test_credentials_that_cannot_be_had(start_server: StartServer) -> None:
    server = start_server()

    def fails() -> str:
        raise KeyError("vault is shut")

    with pytest.raises(errors.CredentialsError) as caught:
        natsync.connect(server.url, token=fails)
    assert isinstance(caught.value.__cause__, KeyError)
