"""Pre-shared keys instead of certificates, as proxies in front of NATS use them. OpenSSL is on both sides."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, sleep

import pytest

from dissect.nats import FlowRecord, FrameRecord, Options
from dissect.nats.pipeline import records

from tests.bench.tap import Tap
from tests.support.requirements import missing

KEY = "00112233445566778899aabbccddeeff"
INFO = b'INFO {"server_id":"a","version":"2.15.1","max_payload":1048576}\r\n'
CONNECT = b'CONNECT {"verbose":false}\r\n'
TIMEOUT = 20.0
# Level 0 allows suites with SHA-1 or a tag of 8 bytes.
V13, V12 = "-tls1_3 -ciphersuites ", "-tls1_2 -cipher @SECLEVEL=0:"
SUITES = {
    "TLS_AES_128_GCM_SHA256": V13 + "TLS_AES_128_GCM_SHA256",
    "TLS_CHACHA20_POLY1305_SHA256": V13 + "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_PSK_WITH_AES_256_GCM_SHA384": V12 + "PSK-AES256-GCM-SHA384",
    "TLS_PSK_WITH_AES_128_CCM_8": V12 + "PSK-AES128-CCM8",
    "TLS_PSK_WITH_AES_128_CBC_SHA": V12 + "PSK-AES128-CBC-SHA",
    "TLS_DHE_PSK_WITH_AES_256_CCM": V12 + "DHE-PSK-AES256-CCM",
    "TLS_DHE_PSK_WITH_AES_128_GCM_SHA256": V12 + "DHE-PSK-AES128-GCM-SHA256",
    "TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256": V12 + "ECDHE-PSK-CHACHA20-POLY1305",
    "TLS_ECDHE_PSK_WITH_AES_256_CBC_SHA384": V12 + "ECDHE-PSK-AES256-CBC-SHA384",
}


@pytest.mark.parametrize("suite", SUITES)
def test_a_connection_with_a_pre_shared_key_is_decrypted(tmp_path: Path, suite: str) -> None:
    keys, capture = tmp_path / "keys", tmp_path / "psk.pcap"
    with ExitStack() as stack:
        port = free_port()
        listening = f"s_server -accept {port} -nocert -keylogfile {keys}"
        server = stack.enter_context(openssl(listening, SUITES[suite]))
        wait(lambda: listens(port))
        tap = stack.enter_context(Tap(port))
        client = stack.enter_context(
            openssl(f"s_client -connect 127.0.0.1:{tap.port}", SUITES[suite])
        )
        wait(lambda: has_secrets(keys))
        send(server, INFO)
        assert line(client) == INFO
        send(client, CONNECT + b"PUB orders.new 3\r\ntea\r\nPING\r\n")
        assert [line(server) for _ in range(4)][-1] == b"PING\r\n"
        send(server, b"PONG\r\n")
        assert line(client) == b"PONG\r\n"
    tap.write(capture, 4222)
    found = list(records([str(capture)], ("frames", "flows"), Options(keylog=[str(keys)])))
    frames = [row for row in found if isinstance(row, FrameRecord)]
    assert [row.op for row in frames] == ["INFO", "CONNECT", "PUB", "PING", "PONG"]
    (flow,) = (row for row in found if isinstance(row, FlowRecord))
    assert flow.tls_cipher == suite


def test_keys_that_a_renegotiation_has_changed(tmp_path: Path) -> None:
    """Both sides shake hands again inside the connection (RFC 5246, 7.4.1.1), and get other keys."""
    keys, capture = tmp_path / "keys", tmp_path / "psk.pcap"
    suite = SUITES["TLS_PSK_WITH_AES_256_GCM_SHA384"].replace("@SECLEVEL=0:", "")
    with ExitStack() as stack:
        port = free_port()
        listening = f"s_server -accept {port} -nocert -client_renegotiation -keylogfile {keys}"
        server = stack.enter_context(openssl(listening, suite, "-no_ticket"))
        wait(lambda: listens(port))
        tap = stack.enter_context(Tap(port))
        dialing = f"s_client -connect 127.0.0.1:{tap.port}"
        client = stack.enter_context(openssl(dialing, suite, "-no_ticket"))
        wait(lambda: has_secrets(keys))
        send(server, INFO)
        wait(lambda: line(client) == INFO)
        send(client, CONNECT)
        wait(lambda: line(server) == CONNECT)
        send(client, b"R\n")
        wait(lambda: keys.read_text().count("CLIENT_RANDOM ") == 2)
        send(client, b"SUB orders.* 1\r\n")
        wait(lambda: line(server) == b"SUB orders.* 1\r\n")
        send(server, b"MSG orders.new 1 3\r\ntea\r\n")
        wait(lambda: line(client) == b"tea\r\n")
    tap.write(capture, 4222)
    tables = "frames", "flows", "anomalies"
    found = list(records([str(capture)], tables, Options(keylog=[str(keys)])))
    frames = [row for row in found if isinstance(row, FrameRecord)]
    assert [row.op for row in frames] == ["INFO", "CONNECT", "SUB", "MSG"]
    assert "tls_error" not in {getattr(row, "anomaly", None) for row in found}


@contextmanager
def openssl(command: str, suite: str, mode: str = "-quiet") -> Iterator[subprocess.Popen[bytes]]:
    program = shutil.which("openssl") or missing("openssl", "apt-get install openssl")
    process = subprocess.Popen(
        [program, *command.split(), "-psk", KEY, mode, *suite.split()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with process:
        try:
            yield process
        finally:
            process.terminate()


def send(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin
    process.stdin.write(data)
    process.stdin.flush()


def line(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout
    return process.stdout.readline()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def has_secrets(keys: Path) -> bool:
    """Whether the server shakes hands with the client: before, what it is told to send could go to the
    connection of `listens`."""
    return any(each and each[0] != "#" for each in keys.read_text().splitlines())


def listens(port: int) -> bool:
    """OpenSSL says nowhere that it listens."""
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except ConnectionRefusedError:
        return False
    return True


def wait(ready: Callable[[], bool]) -> None:
    until = monotonic() + TIMEOUT
    while not ready():
        assert monotonic() < until
        sleep(0.01)
