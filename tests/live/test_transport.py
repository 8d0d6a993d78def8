"""TLS with real servers: after INFO and before it, certificates of servers and of clients."""

from __future__ import annotations

from contextlib import closing

import pytest

from natsync.tls import TLS

from tests.support.secured import (
    READ_BYTES,
    Certificates,
    dial,
    make_certificates,
    read_all,
    shake,
    wait,
)
from tests.support.servers import NatsServer, StartServer

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def greeted(server: NatsServer, tls: TLS) -> str:
    """PING over TLS with a real server: how the handshake and it went."""
    near = dial(server.host, server.port)
    with closing(near):
        if not tls.handshake_first:
            wait(near)
            assert (near.read(READ_BYTES) or b"").startswith(b"INFO ")
        shake(near, tls, server.host)
        if tls.handshake_first:
            assert (read_all(near, 1)).startswith(b"INFO ")
        near.write(memoryview(b'CONNECT {"verbose":false}\r\nPING\r\n'))
        return read_all(near, 6).decode()[:6]


@pytest.mark.parametrize("which", ["current", "old"])
def test_a_real_server_with_tls(
    start_server: StartServer, certificates: Certificates, which: str
) -> None:
    config = f"tls {{ {certificates.server.config} }}\n"
    server = start_server(config, which="old" if which == "old" else "current")
    assert greeted(server, TLS(ca_file=certificates.ca)) == "PONG\r\n"
    with pytest.raises(
        OSError, match="of 127.0.0.1:4222 is not accepted: unable to get .*; ca_file"
    ):
        greeted(server, TLS(ca_file=certificates.other_ca))
    with pytest.raises(OSError, match="'elsewhere.example'; .* set hostname to a name in it"):
        greeted(server, TLS(ca_file=certificates.ca, hostname="elsewhere.example"))
    # Without `first` if INFO comes too late to be looked at before OpenSSL reads it.
    with pytest.raises(OSError, match="does not talk TLS( first)?, "):
        greeted(server, TLS(ca_file=certificates.ca, handshake_first=True))


def test_a_real_server_whose_certificate_has_expired(
    start_server: StartServer, certificates: Certificates
) -> None:
    server = start_server(f"tls {{ {certificates.expired.config} }}\n")
    with pytest.raises(OSError, match="certificate has expired"):
        greeted(server, TLS(ca_file=certificates.ca))
    assert greeted(server, TLS(verify=False)) == "PONG\r\n"


@pytest.mark.parametrize("which", ["current", "old"])
def test_a_real_server_that_wants_certificates(
    start_server: StartServer, certificates: Certificates, which: str
) -> None:
    config = f'tls {{ {certificates.server.config}, ca_file: "{certificates.ca}", verify: true }}\n'
    server = start_server(config, which="old" if which == "old" else "current")
    client = certificates.client
    with_one = TLS(ca_file=certificates.ca, cert_file=client.cert, key_file=client.key)
    assert greeted(server, with_one) == "PONG\r\n"
    with pytest.raises(OSError, match="it (may want|wants) a client certificate"):
        greeted(server, TLS(ca_file=certificates.ca))


def test_a_real_server_that_shakes_hands_first(
    start_server: StartServer, certificates: Certificates
) -> None:
    server = start_server(f"tls {{ {certificates.server.config}, handshake_first: true }}\n")
    assert greeted(server, TLS(ca_file=certificates.ca, handshake_first=True)) == "PONG\r\n"
