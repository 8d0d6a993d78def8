"""TLS on a transport, without blocking: against Python's own."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import ssl
import struct
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import monotonic

import pytest

from natsync._engine.transport import RECORD_BYTES, Transport
from natsync.errors import OptionError
from natsync.options import Server
from natsync.tls import TLS

from tests.support.certificates import Paths
from tests.support.fake_server import Background
from tests.support.secured import (
    READ_BYTES,
    TIMEOUT,
    Certificates,
    dial,
    make_certificates,
    read_all,
    shake,
    wait,
)

VERSIONS = pytest.mark.parametrize("version", ["TLSv1_2", "TLSv1_3"])


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


def server_context(paths: Paths) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(paths.cert, paths.key)
    return context


@contextmanager
def pair() -> Iterator[tuple[Transport, socket.socket]]:
    """A transport and the far end, both still in clear."""
    with socket.create_server(("127.0.0.1", 0)) as sink:
        near = dial("127.0.0.1", sink.getsockname()[1])
        far, _ = sink.accept()
    far.settimeout(TIMEOUT)
    with closing(near), far:
        yield near, far


@contextmanager
def secured(context: ssl.SSLContext, tls: TLS) -> Iterator[tuple[Transport, ssl.SSLSocket]]:
    with pair() as (near, plain):
        call = Background(lambda: context.wrap_socket(plain, server_side=True))
        shake(near, tls)
        with call.result() as far:
            yield near, far


def refused(context: ssl.SSLContext, tls: TLS, host: str = "localhost") -> OSError:
    """The error of a handshake that fails."""
    with pair() as (near, plain):

        def serve() -> None:
            try:
                context.wrap_socket(plain, server_side=True).close()
            except OSError:
                plain.close()

        call = Background(serve)
        with pytest.raises(OSError) as caught:
            shake(near, tls, host)
        near.close()
        call.result()
    return caught.value


@VERSIONS
def test_tls_carries_bytes_both_ways(certificates: Certificates, version: str) -> None:
    context = server_context(certificates.server)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    with secured(context, TLS(ca_file=certificates.ca)) as (near, far):
        assert near.read(READ_BYTES) is None
        assert near.write(memoryview(b"PING")) == 4
        assert far.recv(10) == b"PING"
        far.sendall(b"PONG")
        assert read_all(near, 4) == b"PONG"
        assert near.read(READ_BYTES) is None and not near.wants_write


def test_nothing_that_is_decrypted_waits_for_the_selector(certificates: Certificates) -> None:
    size = 5 * READ_BYTES + 123
    with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (near, far):
        call = Background(lambda: far.sendall(bytes(size)))
        assert read_all(near, size) == bytes(size)
        call.result()
        far.sendall(b"a" * RECORD_BYTES)
        wait(near)
        got = near.read(READ_BYTES) or b""
        with selectors.DefaultSelector() as selector:
            selector.register(near, selectors.EVENT_READ)
            while len(got) < RECORD_BYTES and selector.select(TIMEOUT):
                got += near.read(READ_BYTES) or b""
        assert got == b"a" * RECORD_BYTES


def test_writing_as_much_as_fits_then_the_rest(certificates: Certificates) -> None:
    data = os.urandom(8 << 20)
    with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (near, far):
        left = memoryview(data)
        while sent := near.write(left):
            assert sent <= RECORD_BYTES
            left = left[sent:]
        assert left, "it never filled up"
        received = Background(lambda: _receive(far, len(data)))
        # The bytes that did not fit come again in another place of memory, with more after them.
        rest = memoryview(bytes(left[:100]) + bytes(left[100:]))
        while rest:
            sent = near.write(rest)
            rest = rest[sent:]
            if not sent:
                wait(near, writing=True)
        assert received.result() == data


def test_what_did_not_fit_may_come_again_with_more_after_it(certificates: Certificates) -> None:
    with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (near, far):
        count = 0
        while near.write(memoryview(b"x" * 1000)):
            count += 1000
        received = Background(lambda: _receive(far, count + 2000))
        rest = memoryview(b"x" * 1000 + b"y" * 1000)
        while rest:
            sent = near.write(rest)
            rest = rest[sent:]
            if not sent:
                wait(near, writing=True)
        assert received.result() == b"x" * (count + 1000) + b"y" * 1000


def _receive(far: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size and (piece := far.recv(1 << 16)):
        data += piece
    return bytes(data)


def test_the_end_of_the_stream_with_and_without_farewell(certificates: Certificates) -> None:
    for final_ping in (True, False):
        with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (
            near,
            far,
        ):
            far.sendall(b"bye")
            if final_ping:
                with pytest.raises(OSError):  # it waits for ours, in vain
                    far.settimeout(0.05)
                    far.unwrap()
            far.close()
            assert read_all(near, 10) == b"bye"
            assert near.read(READ_BYTES) == b"" == near.read(READ_BYTES)


def test_a_reset_is_an_end(certificates: Certificates) -> None:
    with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (near, far):
        far.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        far.close()
        try:
            assert read_all(near, 1) == b""  # all that some versions of Python make of it
        except ConnectionResetError:
            pass


def test_closing_says_farewell_but_not_in_a_forked_process(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = server_context(certificates.server)
    context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF  # Debian's Python sets it
    with secured(context, TLS(ca_file=certificates.ca)) as (near, far):
        far.suppress_ragged_eofs = False
        assert (
            near.read(READ_BYTES) is None
        )  # takes the session tickets: what is unread turns FIN into RST
        near.close()
        near.close()
        assert far.recv(10) == b""
    with secured(context, TLS(ca_file=certificates.ca)) as (near, far):
        assert near.read(READ_BYTES) is None
        monkeypatch.setattr(os, "getpid", lambda: -1)
        near.close()
        with socket.fromfd(far.fileno(), far.family, far.type) as encrypted:
            assert encrypted.recv(1) == b""


def test_closing_never_blocks(certificates: Certificates) -> None:
    with secured(server_context(certificates.server), TLS(ca_file=certificates.ca)) as (near, far):
        while near.write(memoryview(bytes(RECORD_BYTES))):
            pass
        start = monotonic()
        near.close()
        assert monotonic() - start < 1
    with pair() as (near, _):
        near.secure(TLS(verify=False), Server("localhost"))
        near.handshake()
        near.close()


@pytest.mark.parametrize(
    ("which", "host", "reason"),
    [
        ("server", "elsewhere.example", "not valid for 'elsewhere.example'"),
        ("elsewhere", "127.0.0.1", "not valid for '127.0.0.1'"),
        ("expired", "localhost", "certificate has expired"),
    ],
)
def test_certificates_that_are_not_accepted(
    certificates: Certificates, which: str, host: str, reason: str
) -> None:
    context = server_context(getattr(certificates, which))
    error = refused(context, TLS(ca_file=certificates.ca), host)
    assert error.errno == errno.EPROTO
    assert (error.strerror or "").startswith(f"the certificate of {Server(host)} is not accepted: ")
    assert reason in str(error) and "\n" not in str(error) and "_ssl.c" not in str(error)
    assert isinstance(error.__cause__, ssl.SSLCertVerificationError)


def test_the_certificate_of_an_unknown_authority(certificates: Certificates) -> None:
    context = server_context(certificates.server)
    for tls in (TLS(ca_file=certificates.other_ca), TLS()):
        assert "unable to get local issuer certificate" in str(refused(context, tls))


def test_names_and_addresses_that_are_accepted(certificates: Certificates) -> None:
    context = server_context(certificates.server)
    for tls, host in (
        (TLS(ca_file=certificates.ca), "localhost"),
        (TLS(ca_file=certificates.ca), "127.0.0.1"),
        (TLS(ca_file=certificates.ca), "::1"),
        (TLS(ca_file=certificates.ca), "::1%lo"),
        (TLS(ca_file=certificates.ca, hostname="localhost"), "elsewhere.example"),
        (TLS(verify=False), "elsewhere.example"),
        (TLS(context=ssl.create_default_context(cafile=str(certificates.ca))), "localhost"),
    ):
        with pair() as (near, plain):
            call = Background(lambda: context.wrap_socket(plain, server_side=True))
            shake(near, tls, host)
            call.result().close()


def test_a_server_learns_the_name_that_its_certificate_must_have(
    certificates: Certificates,
) -> None:
    """It may have several certificates. An address is never sent (RFC 6066, section 3)."""
    names: list[str | None] = []
    context = server_context(certificates.server)
    context.sni_callback = lambda _, name, __: names.append(name)
    for server in (Server("10.9.8.7", tls_name="localhost"), Server("::1"), Server("localhost.")):
        with pair() as (near, plain):
            call = Background(lambda: context.wrap_socket(plain, server_side=True))
            near.secure(TLS(ca_file=certificates.ca), server)
            while not near.handshake():
                wait(near, near.wants_write)
            call.result().close()
    assert names == ["localhost", None, "localhost"]


def test_what_cannot_be_used_leaves_the_transport_to_be_closed() -> None:
    for tls in (TLS(verify=False, hostname="a..b"), TLS(ca_file="none.pem")):
        with pair() as (near, far):
            with pytest.raises(OptionError):
                near.secure(tls, Server("localhost"))
            near.close()
            assert far.recv(10) == b""


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        (b"INFO {}\r\n", "does not talk TLS first, it said 'INFO {}'"),
        (b"-ERR 'maximum connections exceeded'\r\n", "maximum connections exceeded"),
        (b"\x00" * 500, r"'\x00"),
    ],
)
def test_a_server_that_does_not_talk_tls(answer: bytes, shown: str) -> None:
    with pair() as (near, far):
        far.sendall(answer)
        wait(near)
        with pytest.raises(OSError, match="does not talk TLS") as caught:
            shake(near, TLS(verify=False))
        assert shown in str(caught.value) and "\n" not in str(caught.value)


def test_a_server_that_talks_nonsense_in_records() -> None:
    with pair() as (near, far):
        far.sendall(b"\x16\x03\x03\x00\x05hello")
        with pytest.raises(OSError, match="TLS failed: ") as caught:
            shake(near, TLS(verify=False))
        assert caught.value.errno == errno.EPROTO


def test_a_server_that_hangs_up_within_the_handshake() -> None:
    with pair() as (near, far):
        near.secure(TLS(verify=False), Server("localhost"))
        assert not near.handshake()
        far.recv(1 << 16)
        far.close()
        with pytest.raises(ConnectionResetError, match="server closed the connection"):
            while not near.handshake():
                wait(near)


def test_a_handshake_of_single_bytes(certificates: Certificates) -> None:
    context = server_context(certificates.server)
    inbound, outbound = ssl.MemoryBIO(), ssl.MemoryBIO()
    far_end = context.wrap_bio(inbound, outbound, server_side=True)
    with pair() as (near, far):
        near.secure(TLS(ca_file=certificates.ca), Server("localhost"))
        assert not near.handshake()
        steps = 0
        done = False
        while not done:
            inbound.write(far.recv(1 << 16))
            try:
                far_end.do_handshake()
            except ssl.SSLWantReadError:
                pass
            for byte in outbound.read():
                far.send(bytes([byte]))
                wait(near)
                done = done or near.handshake()
                steps += 1
        assert steps > 500


def flight(context: ssl.SSLContext, hello: bytes) -> bytes:
    """What a server answers to that ClientHello."""
    inbound, outbound = ssl.MemoryBIO(), ssl.MemoryBIO()
    far_end = context.wrap_bio(inbound, outbound, server_side=True)
    inbound.write(hello)
    with pytest.raises(ssl.SSLWantReadError):
        far_end.do_handshake()
    return outbound.read()


@VERSIONS
@pytest.mark.parametrize("harm", ["cut", "changed"])
def test_a_handshake_that_is_cut_or_changed_anywhere(
    certificates: Certificates, version: str, harm: str
) -> None:
    context = server_context(certificates.server)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[version]
    tls = TLS(ca_file=certificates.ca)
    size = 1
    for place in range(0, 10_000, 37):
        if place >= size:
            break
        with pair() as (near, far):
            near.secure(tls, Server("localhost"))
            assert not near.handshake()
            answer = bytearray(flight(context, far.recv(1 << 16)))
            size = len(answer)
            at = min(place, size - 1)  # signatures differ in length
            if harm == "cut":
                del answer[at:]
            else:
                answer[at] ^= 0x55
            far.sendall(answer)
            far.shutdown(socket.SHUT_WR)
            with pytest.raises(OSError) as caught:
                while not near.handshake():
                    wait(near)
        text = str(caught.value)
        assert caught.value.errno in (errno.EPROTO, errno.ECONNRESET), text
        assert "\n" not in text and "_ssl.c" not in text
    assert place > 500
