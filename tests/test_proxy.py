"""The proxy of the tests does the harm it promises, to the byte, and leaves nothing behind."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from time import monotonic

import pytest

import natsync

from tests.support.faults import Link
from tests.support.proxy import Admission, Proxy
from tests.support.servers import NatsServer

TIMEOUT = 10.0


@dataclass
class Setting:
    """Two ends, with a proxy between them."""

    proxy: Proxy
    link: Link
    client: socket.socket
    server: socket.socket


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(TIMEOUT)
        yield listener


@pytest.fixture
def proxy(listener: socket.socket) -> Iterator[Proxy]:
    with Proxy(*listener.getsockname()) as proxy:
        yield proxy


def dial(proxy: Proxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port), TIMEOUT)
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return client


@pytest.fixture
def setting(proxy: Proxy, listener: socket.socket) -> Iterator[Setting]:
    with ExitStack() as stack:
        client = stack.enter_context(dial(proxy))
        server = stack.enter_context(listener.accept()[0])
        server.settimeout(TIMEOUT)
        yield Setting(proxy, proxy.link(0), client, server)


def receive(end: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := end.recv(size - len(data))):
        data += piece
    return data


def test_it_passes_bytes_both_ways_and_counts_them(setting: Setting) -> None:
    setting.link.to_client.record()
    setting.client.sendall(b"hello")
    assert receive(setting.server, 5) == b"hello"
    setting.server.sendall(b"good day")
    assert receive(setting.client, 8) == b"good day"
    up, down = setting.link.to_server, setting.link.to_client
    setting.proxy.wait_for(lambda: up.passed == 5 and down.passed == 8)
    assert (up.taken, up.dropped, up.held, down.taken) == (5, 0, 0, 8)
    assert (bytes(up.recorded), bytes(down.recorded)) == (b"", b"good day")


def test_much_data_arrives_whole(setting: Setting) -> None:
    data = bytes(range(256)) * 40_000
    setting.link.to_server.stall(reading=False)
    setting.client.setblocking(False)
    sent = setting.client.send(data)
    setting.link.to_server.resume()
    setting.client.settimeout(TIMEOUT)
    assert receive(setting.server, sent) == data[:sent]


def test_each_side_can_end_its_half(setting: Setting) -> None:
    setting.client.sendall(b"last")
    setting.client.shutdown(socket.SHUT_WR)
    assert receive(setting.server, 10) == b"last"
    setting.server.sendall(b"answer")
    setting.server.close()
    assert receive(setting.client, 10) == b"answer"
    setting.proxy.wait_for(lambda: setting.link.closed)
    assert not setting.link.cut_off


def test_cut_with_fin_even_where_bytes_are_unread(setting: Setting) -> None:
    setting.link.to_server.stall()
    setting.client.sendall(b"lost")
    setting.proxy.wait_for(lambda: setting.link.to_server.held == 4)
    setting.link.cut()
    assert setting.client.recv(10) == b"" == setting.server.recv(10)
    setting.client.sendall(b"into the void")
    setting.proxy.wait_for(lambda: setting.link.to_server.taken == 17)
    assert setting.link.to_server.dropped == 17 and setting.link.to_server.passed == 0
    setting.client.close()
    setting.server.close()
    setting.proxy.wait_for(lambda: setting.link.closed)


def test_cut_with_rst(setting: Setting) -> None:
    setting.link.cut(reset=True)
    for end in (setting.client, setting.server):
        with pytest.raises(ConnectionResetError):
            end.recv(10)
    assert setting.link.closed


def test_a_reset_by_one_side_reaches_the_other(setting: Setting) -> None:
    setting.server.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    setting.server.close()
    with pytest.raises(ConnectionResetError):
        setting.client.recv(10)


def test_reset_under_load(setting: Setting) -> None:
    up = setting.link.to_server
    setting.client.setblocking(False)
    while up.passed < 1 << 20:
        try:
            setting.client.send(bytes(1 << 16))
        except BlockingIOError:
            setting.server.recv(1 << 20)
    setting.proxy.cut(reset=True)
    with pytest.raises(ConnectionError):
        while True:
            setting.client.send(b"x")
    assert up.taken == up.passed + up.dropped and up.held == 0


@pytest.mark.parametrize("size", [0, 1, 7, 19])
def test_cut_after_exactly_so_many_bytes(setting: Setting, size: int) -> None:
    setting.link.to_client.cut_at(size)
    setting.server.sendall(b"MSG a 1 5\r\nhello\r\n..")
    assert receive(setting.client, 100) == b"MSG a 1 5\r\nhello\r\n.."[:size]
    setting.proxy.wait_for(lambda: setting.link.cut_off)
    assert setting.link.to_client.passed == size


def test_a_stall_that_reads_keeps_the_bytes(setting: Setting) -> None:
    setting.link.to_client.stall()
    setting.server.sendall(b"kept")
    setting.server.close()
    setting.proxy.wait_for(lambda: setting.link.to_client.ended)
    assert setting.link.to_client.held == 4
    setting.client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        setting.client.recv(10)
    setting.client.settimeout(TIMEOUT)
    setting.link.to_client.resume()
    assert receive(setting.client, 10) == b"kept"


def test_a_stall_that_does_not_read_fills_the_sender_up(setting: Setting) -> None:
    setting.link.to_server.stall(reading=False)
    setting.client.settimeout(0.2)
    with pytest.raises(TimeoutError):
        while True:
            setting.client.sendall(bytes(1 << 20))
    assert setting.link.to_server.taken == 0


def test_a_black_hole_takes_everything(setting: Setting) -> None:
    setting.link.to_server.swallow()
    setting.client.sendall(b"x" * 100)
    setting.client.shutdown(socket.SHUT_WR)
    setting.proxy.wait_for(lambda: setting.link.to_server.ended)
    assert setting.link.to_server.dropped == 100
    setting.server.sendall(b"other way")
    assert receive(setting.client, 9) == b"other way"
    setting.server.settimeout(0.05)
    with pytest.raises(TimeoutError):
        setting.server.recv(10)


def test_a_trickle_comes_in_pieces_with_pauses(setting: Setting) -> None:
    setting.link.to_client.trickle(3, pause=0.01)
    start = monotonic()
    setting.server.sendall(b"0123456789")
    assert len(setting.client.recv(100)) <= 3
    receive(setting.client, 7)
    assert monotonic() - start >= 0.03
    setting.link.to_client.trickle(1)
    setting.server.sendall(b"x" * 50_000)
    assert receive(setting.client, 50_000) == b"x" * 50_000


def test_a_delay(setting: Setting) -> None:
    setting.link.to_client.delay(0.1)
    start = monotonic()
    setting.server.sendall(b"late")
    assert receive(setting.client, 4) == b"late"
    assert monotonic() - start >= 0.1
    setting.link.to_client.delay(60)
    setting.server.sendall(b"freed")
    setting.proxy.wait_for(lambda: setting.link.to_client.held == 5)
    setting.link.to_client.resume()
    assert receive(setting.client, 5) == b"freed"


def test_one_byte_is_corrupted(setting: Setting) -> None:
    setting.link.to_client.corrupt(2, mask=0x20)
    setting.link.to_client.corrupt(5)
    setting.server.sendall(b"abcd")
    setting.server.sendall(b"efgh")
    assert receive(setting.client, 8) == b"abCde\x99gh"
    with pytest.raises(AssertionError, match="passed already"):
        setting.link.to_client.corrupt(1)


def test_refused_then_admitted_on_the_same_port(proxy: Proxy, listener: socket.socket) -> None:
    proxy.admit(Admission.REFUSE)
    with pytest.raises(ConnectionRefusedError):
        dial(proxy)
    proxy.admit(Admission.FORWARD)
    with dial(proxy), listener.accept()[0]:
        assert proxy.link(0) is proxy.links[0]


def test_hung_up_and_reset_at_once(proxy: Proxy) -> None:
    proxy.admit(Admission.HANG_UP)
    with dial(proxy) as client:
        assert client.recv(10) == b""
    proxy.admit(Admission.RESET)
    with pytest.raises(ConnectionResetError), dial(proxy) as client:
        client.recv(10)
    assert (proxy.accepted, proxy.links) == (2, [])


def test_accepted_and_never_answered(proxy: Proxy) -> None:
    proxy.admit(Admission.SWALLOW)
    with dial(proxy) as client:
        client.sendall(b"hello?")
        link = proxy.link(0)
        proxy.wait_for(lambda: link.to_server.dropped == 6)
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(10)


def test_a_server_that_is_not_there_resets(listener: socket.socket) -> None:
    place = listener.getsockname()
    listener.close()
    with Proxy(*place) as proxy:
        with pytest.raises(ConnectionResetError), dial(proxy) as client:
            client.recv(10)


def test_links_can_be_harmed_before_their_first_byte(listener: socket.socket) -> None:
    place = listener.getsockname()
    with Proxy(*place, when_linked=lambda link: link.to_client.cut_at(3)) as proxy:
        with dial(proxy) as client, listener.accept()[0] as server:
            server.sendall(b"INFO {}\r\n")
            assert receive(client, 10) == b"INF"


def test_a_wait_that_is_in_vain_fails(proxy: Proxy) -> None:
    with pytest.raises(AssertionError, match="did not happen"):
        proxy.wait_for(lambda: proxy.accepted > 0, timeout=0.01)


def test_what_goes_wrong_in_the_proxy_is_reported(listener: socket.socket) -> None:
    def fail(_: Link) -> None:
        raise ZeroDivisionError

    proxy = Proxy(*listener.getsockname(), when_linked=fail)
    with dial(proxy):
        with pytest.raises(ZeroDivisionError):
            proxy.wait_for(lambda: False)
    with pytest.raises(ZeroDivisionError):
        proxy.close()


def test_after_close_commands_do_nothing(setting: Setting) -> None:
    setting.proxy.close()
    setting.proxy.close()
    setting.link.cut()
    setting.link.to_client.stall()
    assert setting.client.recv(10) == b""


@pytest.mark.server
def test_between_a_client_and_a_real_server(server: NatsServer) -> None:
    with Proxy(server.host, server.port) as proxy, natsync.connect(proxy.url) as nc:
        link = proxy.link(0)
        sub = nc.subscribe("a")
        nc.publish("a", b"x" * 100)
        assert len(sub.next_msg(TIMEOUT).data) == 100
        assert link.to_server.passed > 100 and link.to_client.passed > 100
        link.to_client.stall()
        with pytest.raises(natsync.FlushTimeoutError):
            nc.flush(0.1)
        link.to_client.resume()
        nc.flush(TIMEOUT)
