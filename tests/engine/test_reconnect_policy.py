"""Delays and servers that the program chooses; what happens if its functions fail."""

from __future__ import annotations

import sys
from functools import partial
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors
from natsync.protocol import ServerInfo

from tests.support.fake_server import Background, FakeServer

TIMEOUT = 10.0


def test_the_program_says_how_long_to_wait() -> None:
    asked: SimpleQueue[int] = SimpleQueue()

    def delay(rounds: int) -> float:
        asked.put(rounds)
        return 0.01

    with FakeServer() as server:
        with server.client(partial(natsync.connect, reconnect_wait=delay)) as (nc, peer):
            peer.close()
            server.accept().close()
            server.accept().close()
            server.accept().greet()
            assert nc.wait_connected(TIMEOUT)
            assert [asked.get(timeout=TIMEOUT) for _ in range(2)] == [1, 2]


@pytest.mark.parametrize("answer", [float("nan"), -1.0, "soon"])
def test_a_delay_that_is_none_is_reported(answer: float) -> None:
    reported: SimpleQueue[errors.Error] = SimpleQueue()
    connect = partial(
        natsync.connect,
        reconnect_wait=lambda rounds: answer,
        reconnect_max_wait=0.01,
        on_error=reported.put,
    )
    with FakeServer() as server, server.client(connect) as (nc, peer):
        peer.close()
        server.accept().close()
        server.accept().greet()
        assert nc.wait_connected(TIMEOUT)
        texts = [str(reported.get(timeout=TIMEOUT)) for _ in range(2)]
        assert any("option reconnect_wait: the function failed" in text for text in texts)


def test_the_program_chooses_the_server() -> None:
    offered: SimpleQueue[tuple[list[str], str]] = SimpleQueue()

    def select(servers: list[str], info: ServerInfo) -> str:
        offered.put((servers, info.server_name))
        return max(servers, key=lambda name: name == chosen)

    with FakeServer() as first, FakeServer() as second:
        chosen = second.url.removeprefix("nats://")
        call = Background(
            lambda: natsync.connect(
                [first.url, second.url], randomize=False, select_server=select, connect_timeout=5
            )
        )
        peer = second.accept()
        peer.greet()
        with call.result() as nc:
            assert nc.server == chosen
            assert nc.servers[0] == chosen and len(nc.servers) == 2
            peer.close()
            second.accept().greet()
            assert nc.wait_connected(TIMEOUT)
            both = {first.url.removeprefix("nats://"), chosen}
            for name in ("", "fake"):
                servers, last = offered.get(timeout=TIMEOUT)
                assert (set(servers), last) == (both, name)
            nc.close(0)


def test_a_choice_that_is_none_of_them_is_reported_and_the_next_one_is_tried() -> None:
    reported: SimpleQueue[errors.Error] = SimpleQueue()
    connect = partial(
        natsync.connect, select_server=lambda servers, info: "elsewhere:1", on_error=reported.put
    )
    with FakeServer() as server, server.client(connect) as (nc, _):
        assert nc.status is natsync.Status.CONNECTED
        assert "'elsewhere:1' is not one of the known servers" in str(reported.get(timeout=TIMEOUT))


def test_functions_that_call_sys_exit_are_reported_and_end_nothing() -> None:
    reported: SimpleQueue[errors.Error] = SimpleQueue()
    connect = partial(
        natsync.connect, select_server=lambda servers, info: sys.exit(3), on_error=reported.put
    )
    with FakeServer() as server, server.client(connect):
        report = reported.get(timeout=TIMEOUT)
        assert isinstance(report, errors.OptionError) and report.option == "select_server"
        assert isinstance(report.__cause__, SystemExit)


def test_closing_ends_a_function_that_blocks() -> None:
    entered: SimpleQueue[None] = SimpleQueue()
    leave: SimpleQueue[None] = SimpleQueue()

    def select(servers: list[str], info: ServerInfo) -> None:
        if info.server_name:
            entered.put(None)
            leave.get(timeout=TIMEOUT)

    with FakeServer() as server:
        with server.client(partial(natsync.connect, select_server=select)) as (nc, peer):
            peer.close()
            entered.get(timeout=TIMEOUT)
            nc.close(0)
            leave.put(None)


def test_servers_may_be_replaced() -> None:
    with FakeServer() as first, FakeServer() as second, first.client() as (nc, peer):
        nc.set_server_pool([second.url])
        assert nc.servers == [second.url.removeprefix("nats://")]
        nc.reconnect()
        second.accept().greet()
        assert nc.wait_connected(TIMEOUT)
        assert nc.server == second.url.removeprefix("nats://")
        with pytest.raises(errors.OptionError, match="unknown scheme 'http'"):
            nc.set_server_pool("http://x")
