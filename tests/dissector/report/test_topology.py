"""The topology from sessions: one server for all its connections, one link for all between two servers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from dissect.nats.report.topology import Client, ServerLink, Topology, topology_of
from dissect.nats.schema.records import Record, SessionRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES
from tests.support.report import engine_over


def made_of(sessions: Iterable[Record], servers: int = 2000, pairs: int = 4000) -> Topology:
    with engine_over(sessions) as engine:
        return topology_of(engine, servers, pairs)


def of(*names: str) -> tuple[Topology, list[SessionRecord]]:
    every = rows([CAPTURES / name for name in names], ["sessions"])
    return made_of(every), [row for row in every if isinstance(row, SessionRecord)]


def test_servers_links_and_clients() -> None:
    found, sessions = of("gateway-2.15.1.pcap")
    assert {name: server.cluster for name, server in found.servers.items()} == {
        "east-1": "east",
        "west-1": "west",
    }
    (link,) = found.links
    assert link == ServerLink("east-1", "west-1", "gateway")
    assert found.links[link].count == sum(row.kind == "gateway" for row in sessions) == 2
    assert found.clients[Client("east-1", "east's bank")].count == 1
    listed = {
        id for group in (*found.links.values(), *found.clients.values()) for id in group.sessions
    }
    assert listed == {row.session for row in sessions}


def test_routes_of_a_cluster() -> None:
    found, _ = of("cluster-2.15.1.pcap")
    assert {link for link in found.links} == {
        ServerLink("shop-1", "shop-2", "route"),
        ServerLink("shop-1", "shop-3", "route"),
        ServerLink("shop-2", "shop-3", "route"),
    }


def test_a_server_that_dials_its_own_address_is_one_server() -> None:
    """Its CONNECT on a route has its id alone, and no INFO with its name follows."""
    _, (row, *_) = of("cluster-2.15.1.pcap")
    found = made_of([replace(row, remote_name=row.server_id)])
    assert [*found.servers] == [row.server_name] and not found.links


def test_a_server_that_dials_its_own_address_and_tells_its_name_is_one_server() -> None:
    _, (row, *_) = of("cluster-2.9.10.pcap")
    found = made_of([replace(row, remote_name=row.server_name)])
    assert [*found.servers] == [row.server_name] and not found.links


@pytest.mark.parametrize("order", [1, -1])
def test_a_route_that_names_its_server_by_id_is_a_link_of_that_server(order: int) -> None:
    """It was closed as a duplicate before its originator sent INFO."""
    whole, sessions = of("cluster-2.15.1.pcap")
    routes = [row for row in sessions if row.kind == "route"]
    ids = {row.server_name: row.server_id for row in routes}
    one = next(row for row in routes if row.remote_name in ids)
    early = replace(one, session="f" * 16, remote_name=ids[one.remote_name])
    found = made_of([early, *sessions][::order])
    assert found.servers == whole.servers
    assert {link: group.count for link, group in found.links.items()} == {
        link: group.count + ({one.remote_name, one.server_name} == {*link[:2]})
        for link, group in whole.links.items()
    }
    assert {*found.clients} == {*whole.clients}


def test_connections_of_an_unnamed_server_are_one_link_from_its_address() -> None:
    """Each has another port: a server that finds the wrong port, say, tries again each second."""
    _, (row, *_) = of("cluster-2.15.1.pcap")
    ports = (50001, 50002)
    some = [replace(row, remote_name=None, originator=f"10.0.0.9:{port}") for port in ports]
    found = made_of(some)
    assert {*found.servers} == {row.server_name, "10.0.0.9"}
    assert [group.count for group in found.links.values()] == [2]


def test_the_sessions_of_a_link_are_the_first_ones() -> None:
    _, (row, *_) = of("cluster-2.15.1.pcap")
    some = [replace(row, session=f"{at:016x}", first_ns=9 - at) for at in range(20)]
    (group,) = made_of(some).links.values()
    assert (group.count, group.sessions) == (20, [f"{at:016x}" for at in range(19, 7, -1)])


def test_servers_and_links_have_a_limit() -> None:
    _, (row, *_) = of("cluster-2.15.1.pcap")
    routes = [
        replace(row, kind="route", server_name=f"n{one}", remote_name=f"n{other}", server_id=None)
        for one in range(6)
        for other in range(6)
        if one != other
    ]
    for (servers, pairs), expected in {(3, 4000): (3, 3), (2000, 3): (6, 3)}.items():
        found = made_of(routes, servers, pairs)
        assert (len(found.servers), len(found.links)) == expected
        assert sum(group.count for group in found.links.values()) + found.dropped == 30
