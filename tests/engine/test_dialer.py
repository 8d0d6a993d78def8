"""Connecting: addresses in turn, names, and a resolver that blocks."""

from __future__ import annotations

import os
import select
import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import ExitStack
from time import monotonic

import pytest

import natsync
from natsync import errors
from natsync._engine.dialer import Dialer, _mixed, _shuffled
from natsync._engine.loop import Loop
from natsync._engine.transport import Address, resolve
from natsync.errors import ConnectionClosedError
from natsync.options import Options, parse_servers
from natsync.protocol import Pub

from tests.engine.test_loop import TIMEOUT, nothing, run
from tests.support.fake_server import Background, FakeServer
from tests.support.faults import abort_on_close


def test_a_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sink:
        port = sink.getsockname()[1]

        def body(loop: Loop) -> None:
            until = monotonic() + TIMEOUT
            Dialer(loop).dial(
                Dialer(loop).look_up("localhost", port, until, nothing), until, nothing
            )
            assert loop.write(memoryview(b"hello")) == 5
            while (data := loop.read(100)) is None:
                assert loop.wait(until)
            assert data == b"HELLO"
            loop.drop()
            loop.drop()
            assert (loop.read(100), loop.write(memoryview(b"x"))) == (None, 0)

        call = Background(lambda: run(body))
        far, _ = sink.accept()
        with far:
            far.settimeout(TIMEOUT)
            far.sendall(far.recv(100).upper())
            assert far.recv(100) == b""
        call.result()


def test_the_next_address_is_tried() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = resolve("127.0.0.1", closed.getsockname()[1], numeric=True)
    with socket.create_server(("127.0.0.1", 0)) as sink:
        alive = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)
        run(lambda loop: Dialer(loop).dial(dead + alive, monotonic() + TIMEOUT, nothing))
        sink.accept()[0].close()
    with pytest.raises(ConnectionRefusedError):
        run(lambda loop: Dialer(loop).dial(dead + dead, monotonic() + TIMEOUT, nothing))


def test_an_address_that_is_silent_is_not_waited_for() -> None:
    """As an IPv6 address behind a firewall: the next one is tried soon, and the first may still answer."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as silent,
        socket.create_server(("127.0.0.1", 0)) as sink,
    ):
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(silent.getsockname())
        (first,) = resolve("127.0.0.1", silent.getsockname()[1], numeric=True)
        (second,) = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)
        until = monotonic() + 6 * TIMEOUT
        run(lambda loop: Dialer(loop).dial([first, second], until, nothing))
        sink.accept()[0].close()
        with pytest.raises(TimeoutError):
            run(lambda loop: Dialer(loop).dial([first, first], monotonic() + 0.3, nothing))
        for filler in fillers:
            filler.close()


def test_closing_ends_a_race() -> None:
    def check() -> None:
        raise ConnectionClosedError

    with socket.create_server(("127.0.0.1", 0)) as sink:
        (address,) = resolve("127.0.0.1", sink.getsockname()[1], numeric=True)
        with pytest.raises(ConnectionClosedError):
            run(lambda loop: Dialer(loop).dial([address] * 2, monotonic() + TIMEOUT, check))


def test_families_take_turns() -> None:
    four = [Address(socket.AF_INET, 0, (n,)) for n in range(3)]
    six = [Address(socket.AF_INET6, 0, (n,)) for n in range(1)]
    assert _mixed(six + four) == [six[0], *four] and _mixed(four) == four
    assert _mixed([*four, *six]) == [four[0], six[0], *four[1:]]


@pytest.mark.parametrize("randomize", [True, False])
def test_clients_spread_over_the_addresses_of_a_name(
    monkeypatch: pytest.MonkeyPatch, randomize: bool
) -> None:
    """As the pods of a service in Kubernetes: resolvers give all clients the same order."""
    hosts = [f"127.0.0.{number}" for number in (1, 2, 3)]
    with ExitStack() as stack:
        sink = stack.enter_context(socket.create_server((hosts[0], 0)))
        port = sink.getsockname()[1]
        for host in hosts[1:]:
            stack.enter_context(socket.create_server((host, port)))
        kind = (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "")
        found = [(*kind, (host, port)) for host in hosts]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        (server,) = parse_servers("nats.example")
        options = Options(servers=(server,), randomize=randomize)
        seen: list[str | None] = []

        def body(loop: Loop) -> None:
            Dialer(loop).reach(options, server, monotonic() + TIMEOUT, nothing, lambda step: None)
            assert loop.transport
            seen.append(loop.transport.remote_address)

        while len(set(seen)) < (3 if randomize else 1) or len(seen) < 9:
            run(body)
            assert len(seen) < 100
        assert {*seen} == {f"{host}:{port}" for host in (hosts if randomize else hosts[:1])}


def test_the_family_that_the_system_prefers_stays_the_first() -> None:
    four = [Address(socket.AF_INET, 0, (f"10.0.0.{n}", 5)) for n in range(4)]
    six = [Address(socket.AF_INET6, 0, (f"fe80::{n}", 5, 0, 0)) for n in range(4)]
    for _ in range(20):
        mixed = _shuffled([six[0], *four, *six[1:]])
        assert {*mixed[:4]} == {*six} and {*mixed[4:]} == {*four}


def test_a_name_nobody_has() -> None:
    with pytest.raises(socket.gaierror):
        run(lambda loop: _look_up(loop, "no.such.host.invalid"))


def _look_up(loop: Loop, host: str) -> None:
    Dialer(loop).look_up(host, 1, monotonic() + TIMEOUT, nothing)


@pytest.fixture
def slow_resolver(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The system's resolver blocks until this is set."""
    answered = threading.Event()

    def getaddrinfo(*args: object, **options: object) -> list[object]:
        if not options.get("flags"):
            assert answered.wait(TIMEOUT)
        raise socket.gaierror(socket.EAI_NONAME, "not known")

    monkeypatch.setattr("socket.getaddrinfo", getaddrinfo)
    return answered


def test_a_resolver_that_blocks_is_left_alone(slow_resolver: threading.Event) -> None:
    start = monotonic()
    with pytest.raises(TimeoutError):
        run(lambda loop: _look_up_until(loop, start + 0.05, nothing))
    assert monotonic() - start < TIMEOUT / 2
    slow_resolver.set()


def test_a_wake_up_reaches_who_waits_for_the_resolver(slow_resolver: threading.Event) -> None:
    def check() -> None:
        raise ConnectionClosedError

    def body(loop: Loop) -> None:
        loop.wake()
        _look_up_until(loop, monotonic() + TIMEOUT, check)

    with pytest.raises(ConnectionClosedError):
        run(body)
    slow_resolver.set()


def _look_up_until(loop: Loop, until: float, check: Callable[[], None]) -> None:
    Dialer(loop).look_up("slow", 1, until, check)


def test_the_program_opens_the_socket_itself() -> None:
    with FakeServer() as server:
        asked: list[tuple[str, int]] = []

        def through(host: str, port: int) -> socket.socket:
            asked.append((host, port))
            return socket.create_connection(("127.0.0.1", server.port))

        call = Background(
            lambda: natsync.connect(
                "nats://no.such.name:99", open_socket=through, connect_timeout=9
            )
        )
        peer = server.accept()
        peer.greet()
        with call.result() as nc:
            nc.publish("a", b"x")
            assert peer.expect(Pub).payload == b"x"
            assert (asked, nc.server) == ([("no.such.name", 99)], "no.such.name:99")
            nc.close(0)


def test_a_unix_socket_will_do() -> None:
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(10)
        ours.sendall(b"INFO {}\r\nPONG\r\n")
        call = Background(lambda: natsync.connect(open_socket=lambda host, port: theirs))
        with call.result() as nc:
            nc.publish("a", b"x")
            read = b""
            while not read.endswith(b"PUB a 1\r\nx\r\n"):
                read += ours.recv(4096)
            nc.close(0)


def in_tls() -> ssl.SSLSocket:
    ours, theirs = socket.socketpair()
    theirs.close()
    context = ssl.create_default_context()
    return context.wrap_socket(ours, do_handshake_on_connect=False, server_hostname="a")


@pytest.mark.parametrize(
    ("open_socket", "expected"),
    [
        (lambda host, port: None, "option open_socket: the function returned NoneType"),
        (lambda host, port: in_tls(), "option open_socket: .* a socket with TLS: the option tls"),
        (lambda host, port: 1 // 0, "option open_socket: the function failed: .* by zero"),
    ],
)
def test_a_function_that_fails_says_so(
    open_socket: Callable[[str, int], object], expected: str
) -> None:
    with pytest.raises(errors.OptionError, match=expected):
        natsync.connect(open_socket=open_socket)


def test_a_refusal_of_the_function_is_a_connect_error_and_a_late_socket_is_closed() -> None:
    def refuse(host: str, port: int) -> socket.socket:
        raise ConnectionRefusedError(111, "proxy says no")

    with pytest.raises(errors.ConnectError, match="proxy says no") as caught:
        natsync.connect(open_socket=refuse)
    assert caught.value.step == "tcp"
    ours, theirs = socket.socketpair()
    late = threading.Event()

    def slow(host: str, port: int) -> socket.socket:
        late.wait(10)
        return theirs

    with ours:
        with pytest.raises(errors.ConnectTimeoutError):
            natsync.connect(open_socket=slow, connect_timeout=0.05)
        late.set()
        ours.settimeout(10)
        assert ours.recv(1) == b""


class ResetInTime(socket.socket):
    """A connected socket that its peer resets after connecting has been found to have worked: when the
    `ssl` module looks at its type, before it looks whether it is connected."""

    peer: socket.socket | None = None

    def getsockopt(self, level: int, option: int) -> int:  # type: ignore[override]  # only one form is used
        found = super().getsockopt(level, option)
        if option == socket.SO_TYPE and self.peer:
            reset(self.peer, self)
        return found


def reset(far: socket.socket, near: socket.socket) -> None:
    """Resets the connection; returns when `near` can see that."""
    abort_on_close(far)
    far.close()
    gone = select.poll()
    gone.register(near, select.POLLIN)
    assert gone.poll(TIMEOUT * 1000)


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("scheme", ["tls", "wss"])
def test_after_a_reset_before_tls_begins_the_next_server_is_tried(scheme: str, early: bool) -> None:
    """And no descriptor is left, although the error is kept."""

    def connected(host: str, port: int) -> socket.socket:
        tries.append(port)
        if len(tries) == 3:
            raise ConnectionRefusedError(111, "enough")
        with socket.create_server(("127.0.0.1", 0)) as sink:
            plain = socket.create_connection(sink.getsockname())
            far, _ = sink.accept()
        near = ResetInTime(fileno=plain.detach())
        if early:
            reset(far, near)
        else:
            near.peer = far
        return near

    tries: list[int] = []
    tls = natsync.TLS(handshake_first=True)
    servers = [f"{scheme}://127.0.0.1:{port}" for port in (1, 2, 3)]
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(errors.NoServersError, match="the TLS handshake: Connection reset by peer"):
        natsync.connect(servers, tls=tls, open_socket=connected)
    assert sorted(tries) == [1, 2, 3]
    assert set(os.listdir("/proc/self/fd")) <= before
