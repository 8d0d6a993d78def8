"""The topology from sessions: one server for all its connections, one link for all between two servers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dissect.nats.report.aggregates import topology
from dissect.nats.report.aggregates.topology import Client, Link, Topology
from dissect.nats.schema.records import SessionRecord

from tests.dissector.samples.rows import rows
from tests.support.paths import CAPTURES


def of(*names: str) -> tuple[Topology, list[SessionRecord]]:
    found = Topology()
    every = rows([CAPTURES / name for name in names], Topology.tables)
    for row in every:
        found.add(row)
    return found, [row for row in every if isinstance(row, SessionRecord)]


def test_servers_links_and_clients() -> None:
    found, sessions = of("gateway-2.15.1.pcap")
    assert {name: server.cluster for name, server in found.servers.items()} == {
        "east-1": "east",
        "west-1": "west",
    }
    (link,) = found.links
    assert link == Link("east-1", "west-1", "gateway")
    assert found.links[link].count == sum(row.kind == "gateway" for row in sessions) == 2
    assert found.clients[Client("east-1", "east's bank")].count == 1
    listed = {
        id for group in (*found.links.values(), *found.clients.values()) for id in group.sessions
    }
    assert listed == {row.session for row in sessions}


def test_routes_of_a_cluster() -> None:
    found, _ = of("cluster-2.15.1.pcap")
    assert {link for link in found.links} == {
        Link("shop-1", "shop-2", "route"),
        Link("shop-1", "shop-3", "route"),
        Link("shop-2", "shop-3", "route"),
    }


def test_a_server_that_dials_its_own_address_is_one_server() -> None:
    """Its CONNECT on a route has its id alone, and no INFO with its name follows."""
    _, (row, *_) = of("cluster-2.15.1.pcap")
    found = Topology()
    found.add(replace(row, remote_name=row.server_id))
    assert [*found.servers] == [row.server_name] and not found.links


def test_a_server_that_dials_its_own_address_and_tells_its_name_is_one_server() -> None:
    _, (row, *_) = of("cluster-2.9.10.pcap")
    found = Topology()
    found.add(replace(row, remote_name=row.server_name))
    assert [*found.servers] == [row.server_name] and not found.links


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("parts", [1, 2])
def test_a_route_that_names_its_server_by_id_is_a_link_of_that_server(
    order: int, parts: int
) -> None:
    """It was closed as a duplicate before its originator sent INFO."""
    _, sessions = of("cluster-2.15.1.pcap")
    routes = [row for row in sessions if row.kind == "route"]
    ids = {row.server_name: row.server_id for row in routes}
    one = next(row for row in routes if row.remote_name in ids)
    early = replace(one, session="f" * 16, remote_name=ids[one.remote_name])
    every = [early, *sessions][::order]
    found = [Topology() for _ in range(parts)]
    for row in every:
        found[row is early and parts > 1].add(row)
    for other in found[1:]:
        found[0].merge(other)
    whole, _ = of("cluster-2.15.1.pcap")
    assert found[0].servers == whole.servers
    assert {link: group.count for link, group in found[0].links.items()} == {
        link: group.count + ({one.remote_name, one.server_name} == {*link[:2]})
        for link, group in whole.links.items()
    }
    assert {*found[0].clients} == {*whole.clients}


def test_connections_of_an_unnamed_server_are_one_link_from_its_address() -> None:
    """Each has another port: a server that finds the wrong port, say, tries again each second."""
    _, (row, *_) = of("cluster-2.15.1.pcap")
    found = Topology()
    for port in (50001, 50002):
        found.add(replace(row, remote_name=None, originator=f"10.0.0.9:{port}"))
    assert {*found.servers} == {row.server_name, "10.0.0.9"}
    assert [group.count for group in found.links.values()] == [2]


def test_parts_add_up() -> None:
    one, _ = of("gateway-2.15.1.pcap")
    other, _ = of("leafcluster-2.15.1.pcap")
    both, _ = of("gateway-2.15.1.pcap", "leafcluster-2.15.1.pcap")
    one.merge(other)
    assert (one.servers, one.links, one.clients) == (both.servers, both.links, both.clients)


def test_servers_and_links_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    _, (row, *_) = of("cluster-2.15.1.pcap")
    routes = [
        replace(row, kind="route", server_name=f"n{one}", remote_name=f"n{other}")
        for one in range(6)
        for other in range(6)
        if one != other
    ]
    for limit, servers, links in (("_LIMIT", 3, 3), ("_LINKS", 6, 3)):
        monkeypatch.setattr(topology, limit, 3)
        found = Topology()
        for each in routes:
            found.add(each)
        assert (len(found.servers), len(found.links)) == (servers, links)
        assert sum(group.count for group in found.links.values()) + found.dropped == 30
        monkeypatch.undo()
