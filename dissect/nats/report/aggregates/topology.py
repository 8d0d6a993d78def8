"""The topology: servers in their clusters, the links between them, and the clients of each server, with the
sessions that show them.

A server that several sessions show counts once; so do clients with the same name on one server. A route or
gateway that ends before the INFO of its originator has only the id of that server, in its CONNECT: it is
counted under the name, as soon as another session tells it. A server that tells neither is known by its
address alone, because each of its connections has another port.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ...schema.records import Record, SessionRecord
from .connections import server_of, who

_SESSIONS = 50
_LIMIT = 2000  # servers, and clients
_LINKS = 20_000


@dataclass(slots=True)
class Group:
    """Connections that share one line of the drawing. `sessions` are the ids of the first ones."""

    count: int = 0
    messages: int = 0
    bytes: int = 0
    errors: int = 0
    sessions: list[str] = field(default_factory=list)

    def add(self, row: SessionRecord) -> None:
        """Adds a connection."""
        self.count += 1
        self.messages += row.messages_originator + row.messages_responder
        self.bytes += row.bytes_originator + row.bytes_responder
        self.errors += len(row.errors or ())
        if len(self.sessions) < _SESSIONS:
            self.sessions.append(row.session)

    def merge(self, other: Group) -> None:
        """Adds other connections."""
        self.count += other.count
        self.messages += other.messages
        self.bytes += other.bytes
        self.errors += other.errors
        self.sessions = [*self.sessions, *other.sessions][:_SESSIONS]


@dataclass(slots=True)
class Server:
    """A server as its connections show it."""

    cluster: str = ""
    version: str = ""


class Link(NamedTuple):
    """Connections of one kind between two servers; the names are sorted."""

    one: str
    other: str
    kind: str


class Client(NamedTuple):
    """Connections of one client to one server."""

    server: str
    name: str


class Topology:
    """Servers, links and clients, from sessions."""

    tables = ("sessions",)

    def __init__(self) -> None:
        self.servers: dict[str, Server] = {}
        self.links: dict[Link, Group] = {}
        self.clients: dict[Client, Group] = {}
        self.dropped = 0
        self._names: dict[str, str] = {}  # of servers, by id

    def add(self, row: Record) -> None:
        """Adds a row; only sessions count."""
        if not isinstance(row, SessionRecord):
            return
        server = server_of(row)
        if not self._has_room(server):
            self.dropped += 1
            return
        self._learn(server, row.cluster, row.server_version)
        if row.server_id and row.server_name:
            self._learn_name(row.server_id, row.server_name)
        if row.kind in ("route", "gateway", "leafnode"):
            remote = who(row)
            remote = self._names.get(remote, remote)
            if remote in (server, row.server_id):
                return  # a server that connected to itself, and noticed
            link = Link(min(server, remote), max(server, remote), row.kind)
            if not self._has_room(remote) or link not in self.links and len(self.links) >= _LINKS:
                self.dropped += 1
                return
            self._learn(remote, row.remote_cluster, row.client_version)
            self.links.setdefault(link, Group()).add(row)
        else:
            client = Client(server, who(row) if row.kind == "client" else "unknown")
            if len(self.clients) >= _LIMIT and client not in self.clients:
                client = Client(server, "(others)")
            self.clients.setdefault(client, Group()).add(row)

    def merge(self, other: Topology) -> None:
        """Adds the topology of another part."""
        for id, name in other._names.items():
            self._learn_name(id, name)
        self._add(other.servers, other.links, other.clients)
        self.dropped += other.dropped

    def _add(
        self,
        servers: dict[str, Server],
        links: dict[Link, Group],
        clients: dict[Client, Group],
    ) -> None:
        """Adds servers, links and clients under the names of the servers that are known."""
        names = self._names
        for name, server in servers.items():
            self._learn(names.get(name, name), server.cluster, server.version)
        for link, group in links.items():
            one, other = sorted(names.get(end, end) for end in link[:2])
            if one != other:
                self.links.setdefault(Link(one, other, link.kind), Group()).merge(group)
        for client, group in clients.items():
            client = client._replace(server=names.get(client.server, client.server))
            self.clients.setdefault(client, Group()).merge(group)

    def _learn_name(self, id: str, name: str) -> None:
        """Learns the name of a server, which may have been counted under its id."""
        if id in self._names or len(self._names) >= _LIMIT:
            return
        self._names[id] = name
        if id in self.servers:
            counted = self.servers, self.links, self.clients
            self.servers, self.links, self.clients = {}, {}, {}
            self._add(*counted)

    def _has_room(self, server: str) -> bool:
        """Whether the server is known, or there is room for one more."""
        return server in self.servers or len(self.servers) < _LIMIT

    def _learn(self, name: str, cluster: str | None, version: str | None) -> None:
        known = self.servers.setdefault(name, Server())
        known.cluster = cluster or known.cluster
        known.version = version or known.version
