"""A cluster of three real servers whose members go and come back, under load."""

from __future__ import annotations

import re
import signal
import threading
from collections.abc import Iterator
from queue import SimpleQueue

import pytest

import natsync
from natsync import errors

from tests.support.fake_server import Background
from tests.support.meshes import mesh
from tests.support.servers import NatsServer, Which, require_server, wait_routed
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

TIMEOUT = 20.0


@pytest.fixture(params=["current", "old"])
def three(request: pytest.FixtureRequest) -> Iterator[list[NatsServer]]:
    which: Which = request.param
    require_server(which)
    with mesh(3, which=which, trace=True) as servers:
        yield servers


class Load:
    """Publishes numbers until stopped, and keeps those that were accepted."""

    def __init__(self, nc: natsync.Client, subject: str) -> None:
        self.accepted: list[int] = []
        self._nc = nc
        self._subject = subject
        self._stop = threading.Event()
        self._call = Background(self._run)

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            try:
                self._nc.publish(self._subject, b"%d" % number)
                self.accepted.append(number)
            except errors.OutboundBufferLimitError:
                self._stop.wait(0.01)
            number += 1
            if not number % 20:
                self._stop.wait(0.002)

    def stop(self) -> None:
        self._stop.set()
        self._call.result()


def at(nc: natsync.Client, servers: list[NatsServer]) -> NatsServer:
    return next(server for server in servers if server.name == nc.server_info.server_name)


def test_the_others_are_discovered(three: list[NatsServer]) -> None:
    found: list[str] = []
    with natsync.connect(three[0].url, on_discover=found.extend) as nc:
        known = {f"127.0.0.1:{server.port}" for server in three}
        eventually(
            lambda: set(nc.server_info.connect_urls) == known
        )  # in one INFO, or in a later one
        three[0].kill()
        eventually(lambda: nc.stats.reconnects == 1 and nc.status is natsync.Status.CONNECTED)
        assert at(nc, three).name != three[0].name


def test_rolling_restarts_with_kill(three: list[NatsServer]) -> None:
    """The count of what was lost is known exactly: each message was taken by one server, which its trace
    shows, or is one of those that the publisher calls unconfirmed. What the server that was killed had taken,
    and not yet passed on, died with it: that is the end of what it had taken, and nothing else is missing at
    the listener, who is at another server. Nothing is taken or comes twice."""
    events: list[str] = []
    urls = [server.url for server in three]
    with (
        natsync.connect(
            urls,
            reconnect_wait=0.02,
            on_disconnect=lambda error: events.append("lost"),
            on_reconnect=lambda: events.append("back"),
            on_close=lambda error: events.append("closed"),
        ) as nc,
        natsync.connect(urls[0], randomize=False) as direct,
    ):
        echo = direct.subscribe("ask", handler=lambda msg: msg.respond(msg.data), queue="q")
        assert echo.state.value == "active"
        direct.flush()
        listeners: list[natsync.Subscription] = []
        accepted = missing = 0
        for victim in three:
            if at(nc, three) is not victim:
                continue_at(nc, victim)
            safe = next(server for server in three if server is not victim)
            with natsync.connect(safe.url, discover=False, reconnect=False) as witness:
                sub = witness.subscribe("load", pending_msgs_limit=-1, pending_bytes_limit=-1)
                witness.flush()
                eventually(lambda: knows(nc, sub))
                listeners.append(sub)
                before = nc.stats
                logged = {server.name: len(server.log()) for server in three}
                load = Load(nc, "load")
                eventually(lambda: len(load.accepted) > 1000)
                losses = events.count("lost")
                victim.kill()
                eventually(lambda: events.count("back") > losses)
                eventually(lambda: knows(nc, sub))
                load.stop()
                nc.flush(TIMEOUT)
                last = load.accepted[-1] + 1
                nc.publish("load", b"%d" % last)
                got = [int(msg.data) for msg in until_number(sub, last)]
                taken = [number for server in three for number in published(server, logged)]
                assert len(set(taken)) == len(taken), "a message was taken twice"
                assert len(set(got)) == len(got), "a message came twice"
                lost = set(load.accepted) - set(taken)
                assert len(lost) <= nc.stats.unconfirmed_msgs - before.unconfirmed_msgs
                died = set(taken) - set(got) - {last}
                with_it = published(victim, logged)
                assert died == set(with_it[len(with_it) - len(died) :])
                accepted += len(load.accepted)
                missing += len(lost) + len(died)
            victim.start()
            for server in three:
                wait_routed(server, 2)
        assert accepted > 3000 and missing < accepted
        assert events == ["lost", "back"] * (len(events) // 2)
    assert events[-1] == "closed"


def published(server: NatsServer, before: dict[str, int]) -> list[int]:
    """The numbers that it took from the publisher, in order, since its log was that long."""
    log = server.log()[before[server.name] :]
    return [int(number) for number in re.findall(r' cid:.* <<- MSG_PAYLOAD: \["(\d+)"\]', log)]


def continue_at(nc: natsync.Client, server: NatsServer) -> None:
    """Makes the client go round until it is at that server."""
    for _ in range(50):
        if nc.server_info.server_name == server.name:
            return
        before = nc.stats.reconnects
        nc.reconnect()
        eventually(lambda: nc.stats.reconnects > before)
    raise AssertionError(f"never at {server.name}")


def knows(nc: natsync.Client, sub: natsync.Subscription) -> bool:
    """Whether the publisher's server passes messages on to the listener."""
    seen = sub.received
    try:
        nc.publish(sub.subject, b"-1")
        nc.flush(TIMEOUT)
    except errors.ConnectionReconnectingError:
        return False
    threading.Event().wait(0.02)
    return sub.received > seen


def until_number(sub: natsync.Subscription, last: int) -> Iterator[natsync.Msg]:
    """The numbered messages before that one."""
    for msg in sub.messages(timeout=TIMEOUT):
        if int(msg.data) == last:
            return
        if int(msg.data) >= 0:
            yield msg


def test_rolling_restarts_in_peace(three: list[NatsServer]) -> None:
    """Each says that it is about to go, and goes; what was published is with the others by then."""
    callbacks: list[str] = []
    urls = [server.url for server in three]
    with natsync.connect(
        urls, reconnect_wait=0.02, on_lame_duck=lambda: callbacks.append("duck")
    ) as nc:
        for victim in three:
            continue_at(nc, victim)
            load = Load(nc, "peace")
            eventually(lambda: len(load.accepted) > 200)
            before = nc.stats.reconnects
            ducks = len(callbacks)
            victim.signal(signal.SIGUSR2)
            eventually(lambda: len(callbacks) > ducks)
            victim.stop()
            eventually(lambda: nc.stats.reconnects > before)
            assert nc.wait_connected(TIMEOUT)
            load.stop()
            nc.flush(TIMEOUT)
            assert nc.server_info.server_name != victim.name
            victim.start()
            for server in three:
                wait_routed(server, 2)
        assert nc.stats.reconnects >= 3
    assert callbacks == ["duck"] * 3


def test_a_client_may_leave_a_lame_duck_at_once(three: list[NatsServer]) -> None:
    """Otherwise the server closes the connection when its turn comes, after ten seconds at the earliest."""
    lost = SimpleQueue[errors.Error | None]()
    urls = [server.url for server in three]
    with natsync.connect(urls, on_lame_duck=lambda: nc.reconnect(), on_disconnect=lost.put) as nc:
        duck = at(nc, three)
        duck.signal(signal.SIGUSR2)
        assert "reconnect was asked for" in str(lost.get(timeout=TIMEOUT))
        assert nc.wait_connected(TIMEOUT) and at(nc, three) is not duck
        nc.flush(TIMEOUT)
