"""The topology: servers in their clusters, the links between them, and the clients of each server, with the
sessions that show them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..questions.ask import QueryEngine, ask

_SERVERS = 2000
_PAIRS = 4000


@dataclass(slots=True)
class ConnectionGroup:
    """Connections that share one line of the drawing. `sessions` are the ids of the first ones."""

    count: int = 0
    messages: int = 0
    bytes: int = 0
    errors: int = 0
    sessions: list[str] = field(default_factory=list)

    def add(self, other: ConnectionGroup) -> None:
        """Adds other connections."""
        self.count += other.count
        self.messages += other.messages
        self.bytes += other.bytes
        self.errors += other.errors


@dataclass(slots=True)
class Server:
    """A server as its connections show it."""

    cluster: str = ""
    version: str = ""


class ServerLink(NamedTuple):
    """Connections of one kind between two servers; the names are sorted."""

    one: str
    other: str
    kind: str


class Client(NamedTuple):
    """Connections of one client to one server."""

    server: str
    name: str


@dataclass(slots=True)
class Topology:
    """Servers, links and clients. `dropped` is the number of sessions that are not among them."""

    servers: dict[str, Server] = field(default_factory=dict)
    links: dict[ServerLink, ConnectionGroup] = field(default_factory=dict)
    clients: dict[Client, ConnectionGroup] = field(default_factory=dict)
    dropped: int = 0


def topology_of(engine: QueryEngine, servers: int = _SERVERS, pairs: int = _PAIRS) -> Topology:
    """The servers with most connections, their links and clients."""
    # DuckDB 2.0.1 drops the LIMIT if statistics tell that no session has the id of a server: it takes the
    # rows of a left join with nothing for at most one.
    named = ask(engine, "servers", limit=servers)[:servers]
    found = Topology({row.name: Server(row.cluster, row.version) for row in named})
    seen = shown = 0
    for row in ask(engine, "topology", limit=pairs)[:pairs]:
        seen = row.seen
        ends = (row.one, row.two) if row.link else (row.one,)
        if not found.servers.keys() >= {*ends}:
            continue
        shown += row.count
        begun = sorted((int(first_ns), id) for first_ns, id in map(str.split, row.sessions))
        sessions = [id for _, id in begun]
        group = ConnectionGroup(row.count, row.messages, row.bytes, row.errors, sessions)
        if row.link:
            found.links[ServerLink(row.one, row.two, row.link)] = group
        else:
            found.clients[Client(row.one, row.two)] = group
    found.dropped = seen - shown
    return found
