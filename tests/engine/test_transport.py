"""TCP without blocking: dialling, reading, writing, and the pair that wakes a selector."""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

import pytest

from natsync._engine.transport import Transport, WakePair, is_numeric, resolve

TIMEOUT = 10.0
READ_BYTES = 64 << 10


@pytest.fixture
def ends() -> Iterator[tuple[Transport, socket.socket]]:
    """A transport and the far end of its connection."""
    with socket.create_server(("127.0.0.1", 0)) as sink:
        (address,) = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)
        near = Transport(address)
        far, _ = sink.accept()
    far.settimeout(TIMEOUT)
    assert ready(near, selectors.EVENT_WRITE)
    near.finish()
    yield near, far
    near.close()
    far.close()


def ready(waited: Transport | WakePair, events: int, timeout: float = TIMEOUT) -> bool:
    with selectors.DefaultSelector() as selector:
        selector.register(waited, events)
        return bool(selector.select(timeout))


def test_a_transport_reads_what_arrives_and_then_the_end(
    ends: tuple[Transport, socket.socket],
) -> None:
    near, far = ends
    assert near.read(READ_BYTES) is None
    far.sendall(b"hello")
    assert ready(near, selectors.EVENT_READ)
    assert near.read(READ_BYTES) == b"hello"
    far.close()
    assert ready(near, selectors.EVENT_READ)
    assert near.read(READ_BYTES) == b""


def test_writing_as_much_as_fits(ends: tuple[Transport, socket.socket]) -> None:
    near, far = ends
    left = memoryview(bytes(READ_BYTES))
    sent = 0
    while count := near.write(left):
        sent += count
    received = 0
    while received < sent:
        received += len(far.recv(1 << 20))
    assert ready(near, selectors.EVENT_WRITE)
    assert near.write(left) > 0


def test_a_refused_connection_is_reported_by_finish() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sink:
        port = sink.getsockname()[1]
    near: Transport | None = None
    try:
        with pytest.raises(ConnectionRefusedError) as caught:
            near = Transport(resolve("127.0.0.1", port, numeric=True)[0])
            assert ready(near, selectors.EVENT_WRITE)
            near.finish()
        assert caught.value.strerror == "Connection refused"
    finally:
        if near:
            near.close()


def test_names_and_numbers() -> None:
    assert is_numeric("127.0.0.1") and is_numeric("::1")
    assert not is_numeric("localhost")
    assert {address.place[1] for address in resolve("localhost", 5)} == {5}
    with pytest.raises(OSError):
        resolve("localhost", 5, numeric=True)


def test_the_addresses_of_both_ends() -> None:
    near, far = socket.socketpair()
    with far:
        transport = Transport(near)
        assert transport.local_address == transport.remote_address == ""
        assert transport.tls_state is None
        transport.close()
        assert transport.local_address is transport.remote_address is None
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as sink:
        transport = Transport(socket.create_connection(sink.getsockname()[:2]))
        far, address = sink.accept()
        with far:
            assert transport.local_address == f"[::1]:{address[1]}"
            assert transport.remote_address == f"[::1]:{sink.getsockname()[1]}"
            transport.close()


def test_a_name_of_several_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = (socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
    six = (socket.AF_INET6, *stream, ("fe80::1", 5, 0, 2))
    four = (socket.AF_INET, *stream, ("10.0.0.1", 5))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [six, four, six])
    assert [address.place for address in resolve("h", 5)] == [("fe80::1", 5, 0, 2), ("10.0.0.1", 5)]


def test_the_scope_of_an_address_is_kept() -> None:
    name = socket.if_indextoname(1)
    for scope in (name, "1"):
        (address,) = resolve(f"fe80::1%{scope}", 5, numeric=True)
        assert (address.family, address.place) == (socket.AF_INET6, ("fe80::1", 5, 0, 1))
    assert not is_numeric("fe80::1%no-such-interface")


def test_ipv6() -> None:
    try:
        sink = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with sink:
        (address,) = resolve("::1", sink.getsockname()[1], numeric=True)
        near = Transport(address)
        far, _ = sink.accept()
        with far:
            assert ready(near, selectors.EVENT_WRITE)
            near.finish()
            assert near.write(memoryview(b"x")) == 1 and far.recv(10) == b"x"
            near.close()
            assert far.recv(10) == b""


def test_a_pair_wakes_until_it_is_cleared() -> None:
    pair = WakePair()
    assert not ready(pair, selectors.EVENT_READ, 0)
    for _ in range(3):
        pair.wake()
    assert ready(pair, selectors.EVENT_READ, 0)
    pair.clear()
    assert not ready(pair, selectors.EVENT_READ, 0)
    pair.clear()
    pair.close()


def test_waking_never_blocks() -> None:
    pair = WakePair()
    for _ in range(10_000):
        pair.wake()
    assert ready(pair, selectors.EVENT_READ, 0)
    pair.close()


@pytest.mark.parametrize("host", ["a" * 64 + ".example", "a..b", ".", "\udcff"])
def test_a_name_that_cannot_be_one_is_an_os_error(host: str) -> None:
    assert not is_numeric(host)
    with pytest.raises(OSError, match="not a host name"):
        resolve(host, 4222)
