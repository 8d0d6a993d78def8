"""The servers in a capture and the links between them, from the INFO and CONNECT of all connections.

A server identifies itself in the INFO that opens a connection, and on links also in its CONNECT: there,
routes and gateways give their id, leafnodes `server_id` and `name` (nats-server: route.go sendRouteConnect,
gateway.go sendGatewayConnect, leafnode.go sendLeafConnect). Two kinds of INFO say nothing about their sender:
gossip, which announces another server of the cluster (`ip` begins with `nats-route://` and there is no
nonce), and commands (`gateway_cmd`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from ..number_formats import moment_text
from ..schema.declaration import ApplicationLayer, LayerFrame, Table, TextColumn, text_columns
from ..schema.records import Record
from ..types import EARLIEST_NS
from .messages import GREETINGS, LINKS

_GOSSIP = "nats-route://"
# Connections whose ends are remembered. Beyond this limit the oldest are forgotten, and a later CONNECT on
# one of them counts as another connection's.
_CONNECTIONS = 1 << 16
# Servers in a table. Real systems have some hundreds; a capture crafted to fill memory may have more.
_SERVERS = 1 << 16


_SEEN = TextColumn("seen", 23, lambda row: moment_text(row.first_ns), rank=6)


@dataclass(slots=True, kw_only=True)
class ServerRecord(Record):
    """One server."""

    server_id: Annotated[str | None, "id of the server, new with each start"] = None
    server_name: Annotated[
        str | None,
        "name of the server",
        TextColumn("name", 16, lambda row: row.server_name or row.server_id, may_cut=True),
    ] = None
    server_version: Annotated[
        str | None, "version of the server", TextColumn("version", 8, rank=3)
    ] = None
    cluster: Annotated[
        str | None,
        "cluster of the server; its gateway name, if it has one",
        TextColumn("cluster", 10, may_cut=True),
    ] = None
    domain: Annotated[
        str | None, "JetStream domain", TextColumn("domain", 8, may_cut=True, rank=4)
    ] = None
    first_ns: Annotated[
        int,
        "time of the first frame in which the server identifies itself",
        _SEEN,
    ]
    last_ns: Annotated[int, "time of the last frame in which the server identifies itself"]
    connections: Annotated[int, "number of connections on which the server identifies itself"] = 0
    clients: Annotated[
        int, "number of connections from clients to the server", TextColumn("clients", 7, rank=2)
    ] = 0
    copies: Annotated[
        int | None,
        "number of sessions that show one of these connections again: those with the same `client_id`; "
        "they are not counted",
        TextColumn("seen twice", 10, rank=6),
    ] = None
    links: Annotated[
        list[str] | None,
        "`KIND SERVER` for each linked server, by its name, or else its id",
        TextColumn("links", 40, may_cut=True, render=", ".join),
    ] = None
    connect_urls: Annotated[
        list[str] | None,
        "addresses that the server offers to clients",
        TextColumn("offers", 21, may_cut=True, rank=5, render=", ".join),
    ] = None


@dataclass(slots=True)
class _ServerFacts:
    """The facts about a server. The latest value of a fact wins, and of two at the same time the greater, so
    the order in which connections are read does not matter."""

    first_ns: int
    last_ns: int
    connections: int = 0
    clients: int = 0
    copies: int = 0
    facts: dict[str, tuple[int, str]] = field(default_factory=dict)
    urls: tuple[int, list[str]] = (EARLIEST_NS, [])
    links: set[tuple[str, str]] = field(default_factory=set)

    def learn(self, ts_ns: int, values: dict[str, str]) -> None:
        """Takes facts from an INFO or CONNECT of the server."""
        self.first_ns, self.last_ns = min(self.first_ns, ts_ns), max(self.last_ns, ts_ns)
        for name, value in values.items():
            if value:
                self.facts[name] = max((ts_ns, value), self.facts.get(name, (ts_ns, "")))


@dataclass(slots=True)
class _KnownConnection:
    """The servers at the ends of a connection, by sender, and its kind, once it is known that it links
    servers or that a client connects. If the clock of a capture goes back, a CONNECT may come before the INFO
    that it answers."""

    ends: dict[str, str] = field(default_factory=dict)
    kind: str = ""
    counted: bool = False  # as a client of its server


class Servers:
    """The layer's state: all servers, and the ends of the latest connections."""

    def __init__(self) -> None:
        self._servers: dict[str, _ServerFacts] = {}
        self._connections: dict[str, _KnownConnection] = {}
        # By what the sessions of a connection have in common, the latest ones.
        self._numbered: dict[tuple[str, int], _KnownConnection] = {}

    def add(self, frame: LayerFrame) -> Iterable[Record]:
        """Learns from an INFO or CONNECT; rows come at the end."""
        if frame.json is None:
            return ()
        info = _object(frame.json)
        connection = self._connection(frame.session)
        if frame.op == "INFO":
            connection = self._shown_before(connection, frame, info)
            self._learn_info(connection, frame, info)
        elif frame.kind in LINKS:
            self._learn_link(connection, frame, info)
        if frame.kind in LINKS or frame.op == "CONNECT":
            connection.kind = frame.kind
        self._link(connection)
        self._count_client(connection)
        return ()

    def finish(self) -> Iterable[Record]:
        """The rows of all servers."""
        names = {key: server.facts["server_name"][1] for key, server in self._named()}
        for key, server in self._servers.items():
            facts = {name: value for name, (_, value) in server.facts.items()}
            links = {f"{kind} {names.get(other, other)}" for kind, other in server.links}
            yield ServerRecord(
                server_id=key or None,
                server_name=facts.get("server_name"),
                server_version=facts.get("version"),
                cluster=facts.get("gateway") or facts.get("cluster"),
                domain=facts.get("domain"),
                first_ns=server.first_ns,
                last_ns=server.last_ns,
                connections=server.connections,
                clients=server.clients,
                copies=server.copies or None,
                links=sorted(links) or None,
                connect_urls=server.urls[1] or None,
            )

    def _named(self) -> Iterable[tuple[str, _ServerFacts]]:
        return ((key, one) for key, one in self._servers.items() if "server_name" in one.facts)

    def _connection(self, session: str) -> _KnownConnection:
        found = self._connections.get(session)
        if found is None:
            if len(self._connections) >= _CONNECTIONS:
                del self._connections[next(iter(self._connections))]
            found = self._connections[session] = _KnownConnection()
        return found

    def _shown_before(
        self, connection: _KnownConnection, frame: LayerFrame, info: dict[str, object]
    ) -> _KnownConnection:
        """The connection, as another session may have shown it before."""
        key = connection_in(info)
        if not key or frame.sender != "responder" or connection.ends.get("responder"):
            return connection
        known = self._numbered.get(key)
        if known is None:
            if len(self._numbered) >= _CONNECTIONS:
                del self._numbered[next(iter(self._numbered))]
            self._numbered[key] = connection
            return connection
        for sender, server_key in connection.ends.items():  # a CONNECT that came before this INFO
            if sender in known.ends:
                self._servers[server_key].connections -= 1
            else:
                known.ends[sender] = server_key
        known.kind = known.kind or connection.kind
        self._connections[frame.session] = known
        if server := self._servers.get(key[0]):
            server.copies += 1
        return known

    def _learn_info(
        self, connection: _KnownConnection, frame: LayerFrame, info: dict[str, object]
    ) -> None:
        key = _text(info, "server_id")
        if not key or not describes_sender(info):
            return
        if connection.ends.get(frame.sender, key) != key:
            return  # this INFO announces another server
        names = ("server_name", "version", "cluster", "gateway", "domain")
        server = self._server(connection, frame, key, {name: _text(info, name) for name in names})
        urls = info.get("connect_urls")
        if server and isinstance(urls, list):
            texts = [url for url in urls if isinstance(url, str)]
            if texts:
                server.urls = max(server.urls, (frame.ts_ns, texts))

    def _learn_link(
        self, connection: _KnownConnection, frame: LayerFrame, info: dict[str, object]
    ) -> None:
        """Learns from a CONNECT between servers."""
        if connection.ends.get(frame.sender):
            return
        values = {name: _text(info, name) for name in ("cluster", "gateway", "domain")}
        key = _text(info, "server_id") or _text(info, "name")
        if frame.kind == "leafnode":
            values |= {"server_name": _text(info, "name"), "version": _text(info, "version")}
        if key:
            self._server(connection, frame, key, values)

    def _server(
        self, connection: _KnownConnection, frame: LayerFrame, key: str, values: dict[str, str]
    ) -> _ServerFacts | None:
        """The server that sent the frame; None if the table of servers is full."""
        server = self._servers.get(key)
        if server is None:
            if len(self._servers) >= _SERVERS:
                return None
            server = self._servers[key] = _ServerFacts(frame.ts_ns, frame.ts_ns)
        if frame.sender not in connection.ends:
            server.connections += key not in connection.ends.values()
            connection.ends[frame.sender] = key
        server.learn(frame.ts_ns, values)
        return server

    def _count_client(self, connection: _KnownConnection) -> None:
        """Counts a client, once its CONNECT and its server are known."""
        server = self._servers.get(connection.ends.get("responder", ""))
        if server and connection.kind == "client" and not connection.counted:
            connection.counted = True
            server.clients += 1

    def _link(self, connection: _KnownConnection) -> None:
        """Notes the link between the two ends, once both are known. A server that finds its own address among
        its `routes` connects to itself, notices that and closes the connection (nats-server: route.go
        processRouteInfo), which is not a link."""
        if connection.kind in LINKS and len({*connection.ends.values()}) == 2:
            for sender, other in (("originator", "responder"), ("responder", "originator")):
                server = self._servers[connection.ends[sender]]
                server.links.add((connection.kind, connection.ends[other]))


def describes_sender(info: dict[str, object]) -> bool:
    """Whether an INFO describes the server that sent it: gossip and commands do not."""
    is_gossip = _text(info, "ip").startswith(_GOSSIP) and not _text(info, "nonce")
    return not is_gossip and not info.get("gateway_cmd")


def connection_in(info: dict[str, object]) -> tuple[str, int] | None:
    """What the sessions that show a connection have in common, by the INFO of its server: the id of the
    server and the number that the connection has there; None if nothing proves it."""
    server, number = info.get("server_id"), info.get("client_id")
    if not isinstance(server, str) or not server or number.__class__ is not int:
        return None
    return (server, number) if 0 < number < 1 << 63 else None


def _object(text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _text(values: dict[str, object], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _position(row: ServerRecord) -> tuple[int | str, ...]:
    return row.first_ns, row.server_id or ""


SERVERS = Table(
    name="servers",
    singular="server",
    summary="List servers: cluster, domain, links to other servers.",
    row=ServerRecord,
    time="first_ns",
    position=_position,
    text=text_columns(
        ServerRecord,
        "server_name server_version cluster domain first_ns clients copies links connect_urls",
    ),
    layer=ApplicationLayer(GREETINGS, Servers, across=True, marked=True),
)
