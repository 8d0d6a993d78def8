"""What the server says reaches those whom it concerns; on the wire: test_connection.py, test_keeper.py."""

from __future__ import annotations

import pytest

from natsync.desk import Desk
from natsync.dispatch import Dispatcher
from natsync.engine import Delivery, InfoChanged, Lost, Ponged
from natsync.errors import MaxMessagesError, StaleConnectionError
from natsync.options import Callbacks, Server
from natsync.pending import Overflow
from natsync.protocol import Msg, ServerInfo
from natsync.registry import Registry
from natsync.servers import ServerPool
from natsync.subscription import Subscription
from natsync.waiter import Waiter

from tests.support.driving import home, idle

HERE = Server("here", user="u", password="p", tls=True)


def new_desk(discover: bool = True) -> tuple[Desk, Registry, ServerPool]:
    registry, pool = Registry(), ServerPool([HERE])
    return Desk(registry, Dispatcher("test", Callbacks()), pool, discover), registry, pool


def test_messages_go_to_their_subscription_and_its_limit_ends_it() -> None:
    desk, registry, _ = new_desk()
    sub = Subscription("a", "", home(), (10, 100), max_msgs=2)
    sid = registry.add(sub)
    desk.act(Delivery(sid, [Msg(b"a", sid)] * 3))
    desk.act(Delivery(b"99", [Msg(b"a", b"99")]))
    assert (sub.received, desk.in_msgs) == (2, 4)
    assert registry.get(sid) is None
    assert len([msg.subject for msg in sub]) == 2
    with pytest.raises(MaxMessagesError):
        sub.next_msg(0)


def blocking(most: int, max_msgs: int | None = None) -> Subscription:
    return Subscription("a", "", home(), (most, -1), Overflow.BLOCK, max_msgs)


def test_a_full_subscription_makes_the_connection_wait_until_it_has_room_or_ends() -> None:
    desk, registry, _ = new_desk()
    sub, limited = blocking(1), blocking(1, 2)
    sid, limited_sid = registry.add(sub), registry.add(limited)
    desk.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert desk.paused and not desk.has_room()
    desk.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert limited.closed and desk.has_room() and not desk.paused
    desk.act(Delivery(sid, [Msg(b"a", sid)]))
    assert desk.paused
    sub.next_msg(0)
    assert desk.has_room() and not desk.paused
    limited = blocking(1, 1)
    limited_sid = registry.add(limited)
    desk.act(Delivery(limited_sid, [Msg(b"a", limited_sid)]))
    assert limited.closed and not desk.paused


def test_nobody_waits_for_room_that_was_made_meanwhile() -> None:
    class Taken(Subscription):
        @property
        def is_full(self) -> bool:
            """Another thread takes the message behind this look."""
            full = super().is_full
            if full:
                self.next_msg(0)
                assert desk.has_room()
            return full

    desk, registry, _ = new_desk()
    sub = Taken("a", "", home(), (1, -1), Overflow.BLOCK)
    sid = registry.add(sub)
    desk.act(Delivery(sid, [Msg(b"a", sid)]))
    assert not desk.paused


def test_a_pong_settles_who_waits_or_is_the_last_one() -> None:
    desk, _, _ = new_desk()
    waiter: Waiter[bool] = Waiter(idle)
    desk.act(Ponged(waiter))
    assert waiter.wait(0) and not desk.farewell_said
    desk.act(Ponged(desk.farewell.token))
    assert desk.farewell_said


def test_servers_told_of_are_reached_as_the_one_that_told() -> None:
    desk, _, pool = new_desk()
    desk.greet(ServerInfo(connect_urls=("10.0.0.1:4222", "[::1]:4333")), HERE, again=False)
    assert pool.servers == [
        HERE,
        Server("10.0.0.1", 4222, "u", "p", tls=True, tls_name="here"),
        Server("::1", 4333, "u", "p", tls=True, tls_name="here"),
    ]
    desk.act(InfoChanged(ServerInfo(connect_urls=("[::1]:4333",))))
    assert len(pool.servers) == 2 and desk.info.connect_urls == ("[::1]:4333",)


def test_nothing_is_discovered_where_that_is_not_wanted() -> None:
    desk, _, pool = new_desk(discover=False)
    desk.greet(ServerInfo(connect_urls=("10.0.0.1:4222",)), HERE, again=False)
    assert pool.servers == [HERE]


def test_a_loss_is_raised() -> None:
    desk, _, _ = new_desk()
    with pytest.raises(StaleConnectionError):
        desk.act(Lost(StaleConnectionError()))
