"""Server frames reach subscriptions and callers; on the wire: test_connection.py, test_supervisor.py."""

from __future__ import annotations

import threading

import pytest

from natsync._engine.dispatch import Dispatcher
from natsync._engine.engine import Delivery, InfoChanged, Lost, Ponged
from natsync._engine.outbound_buffer import OutboundBuffer
from natsync._engine.pending_queue import Overflow
from natsync._engine.refusals import Refusals
from natsync._engine.router import Router
from natsync._engine.seat import Waiter
from natsync._engine.servers import ServerPool
from natsync._engine.sink import SubscriptionSink
from natsync._engine.subscription_table import SubscriptionTable
from natsync.errors import MaxMessagesError, StaleConnectionError
from natsync.options import Callbacks, Server
from natsync.protocol import Msg, ServerInfo

from tests.support.driving import host, idle

HERE = Server("here", user="u", password="p", tls=True)


class Wakeup:
    """There is no driver to wake."""

    awake = standby = True

    def wake(self) -> None:
        pass

    def wake_if_due(self) -> None:
        pass


def new_desk(discover: bool = True) -> tuple[Router, SubscriptionTable, ServerPool]:
    table, pool, lock = SubscriptionTable(), ServerPool([HERE]), threading.RLock()
    dispatcher = Dispatcher("test", Callbacks(), lock)
    outbound = OutboundBuffer(Wakeup(), idle, lock, 1, 1.0, 1)
    refusals = Refusals(table, dispatcher, outbound, lock)
    return Router(table, dispatcher, pool, discover, refusals), table, pool


def test_messages_go_to_their_subscription_and_its_limit_ends_it() -> None:
    router, table, _ = new_desk()
    sub = SubscriptionSink("a", "", host(), (10, 100), max_msgs=2)
    sid = table.add(sub)
    router.act(Delivery(sid, [Msg(b"a", sid)] * 3))
    router.act(Delivery(b"99", [Msg(b"a", b"99")]))
    assert (sub.received, router.in_msgs) == (2, 4)
    assert table.get(sid) is None
    assert len([frame.subject for frame in sub.frames()]) == 2
    with pytest.raises(MaxMessagesError):
        sub.take(0)


def blocking(most: int, max_msgs: int | None = None) -> SubscriptionSink:
    return SubscriptionSink("a", "", host(), (most, -1), Overflow.BLOCK, max_msgs)


def test_a_full_subscription_makes_the_connection_wait_until_it_has_room_or_ends() -> None:
    router, table, _ = new_desk()
    sub, limited = blocking(1), blocking(1, 2)
    sid, limited_sid = table.add(sub), table.add(limited)
    router.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert router.full and not router.has_room()
    router.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert limited.closed and router.has_room() and not router.full
    router.act(Delivery(sid, [Msg(b"a", sid)]))
    assert router.full
    sub.take(0)
    assert router.has_room() and not router.full
    limited = blocking(1, 1)
    limited_sid = table.add(limited)
    router.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert limited.closed and not router.full


def test_nobody_waits_for_room_that_was_made_meanwhile() -> None:
    class Taken(SubscriptionSink):
        @property
        def is_full(self) -> bool:
            """Another thread takes the message after this look."""
            full = super().is_full
            if full:
                self.take(0)
                assert router.has_room()
            return full

    router, table, _ = new_desk()
    sub = Taken("a", "", host(), (1, -1), Overflow.BLOCK)
    sid = table.add(sub)
    router.act(Delivery(sid, [Msg(b"a", sid)]))
    assert not router.full


def test_a_pong_settles_who_waits_or_is_the_last_one() -> None:
    router, _, _ = new_desk()
    waiter: Waiter[bool] = Waiter(idle)
    router.act(Ponged(waiter))
    assert waiter.wait(0) and not router.final_ping_answered
    router.act(Ponged(router.final_ping.token))
    assert router.final_ping_answered


def test_discovered_servers_are_reached_as_the_one_that_announced_them() -> None:
    router, _, pool = new_desk()
    urls = ("10.0.0.1:4222", "[::1]:4333", "there:4222")
    router.connected(ServerInfo(connect_urls=urls), HERE, again=False)
    assert pool.servers == [
        HERE,
        Server("10.0.0.1", 4222, "u", "p", tls=True, tls_name="here"),
        Server("::1", 4333, "u", "p", tls=True, tls_name="here"),
        Server("there", 4222, "u", "p", tls=True),
    ]
    router.act(InfoChanged(ServerInfo(connect_urls=("[::1]:4333",))))
    assert len(pool.servers) == 2 and router.info.connect_urls == ("[::1]:4333",)


@pytest.mark.parametrize("odd", ["[::1", "a:99999", "a:b", "", "ws://b:80/"])
def test_an_announced_server_that_has_no_address_is_left_out(odd: str) -> None:
    router, _, pool = new_desk()
    info = ServerInfo(connect_urls=("10.0.0.1:4222", odd, "10.0.0.2:4222"))
    router.connected(info, HERE, again=False)
    assert {"10.0.0.1", "10.0.0.2"} <= {server.host for server in pool.servers}
    router.act(InfoChanged(info))
    assert router.info == info
    router._dispatcher.end(None)


@pytest.mark.parametrize(
    ("current", "name"),
    [
        (Server("here"), "here"),
        (Server("10.0.0.9", tls_name="here"), "here"),
        (Server("there"), "there"),
        (Server("10.0.0.9"), ""),
        (Server("fe80::1%1"), ""),
    ],
)
def test_the_name_that_an_announced_address_must_have(current: Server, name: str) -> None:
    """That of the current server; none, if that is known by its address only."""
    router, _, pool = new_desk()
    info = ServerInfo(connect_urls=("10.0.0.1:1", "[fe80::2]:1", "elsewhere:1"))
    router.connected(info, current, again=False)
    names = {server.host: server.tls_name for server in pool.servers if server.port == 1}
    assert names == {"10.0.0.1": name, "fe80::2": name, "elsewhere": ""}


def test_nothing_is_discovered_where_that_is_not_wanted() -> None:
    router, _, pool = new_desk(discover=False)
    router.connected(ServerInfo(connect_urls=("10.0.0.1:4222",)), HERE, again=False)
    assert pool.servers == [HERE]


def test_a_loss_is_raised() -> None:
    router, _, _ = new_desk()
    with pytest.raises(StaleConnectionError):
        router.act(Lost(StaleConnectionError()))
