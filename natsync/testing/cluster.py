"""`NatsCluster`: servers in a full mesh, each of which may go and come back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

from ..client import Client
from .server import START_TIMEOUT, NatsServer

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NatsCluster"]


class NatsCluster:
    """A cluster; a context manager that starts it. Inside, all servers know each other, and JetStream has its
    meta leader: streams with as many replicas as there are servers can be made at once.

    The arguments are those of NatsServer, and hold for each server. The servers are named NAME-1 and on, and
    are in `servers`. Raises NatsServerError.
    """

    def __init__(
        self, config: str = "", *, size: int = 3, name: str = "nats", **options: object
    ) -> None:
        self.name = name
        self._config = config
        self._jetstream = options.get("jetstream", True)
        self.servers = [
            NatsServer(name=f"{name}-{number}", **options)  # type: ignore[arg-type]  # it checks them
            for number in range(1, size + 1)
        ]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for server in self.servers:
                stack.callback(server.close)
                server.config = self._section(server)
            for server in self.servers:
                server.start()
            self.wait_ready()
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getitem__(self, number: int) -> NatsServer:
        return self.servers[number]

    def __iter__(self) -> Iterator[NatsServer]:
        return iter(self.servers)

    def __len__(self) -> int:
        return len(self.servers)

    @property
    def url(self) -> str:
        """The URLs of all servers, separated by commas."""
        return ",".join(server.url for server in self.servers)

    def connect(self, **options: object) -> Client:
        """Returns a client that knows all servers; see `NatsServer.connect`."""
        return self.servers[0].connect(**{"servers": self.url, **options})

    def server(self, name: str) -> NatsServer:
        """Returns the server of that name, such as the leader of a stream (`info().cluster.leader`)."""
        return next(server for server in self.servers if server.name == name)

    def wait_ready(self, timeout: float = START_TIMEOUT) -> None:
        """Returns once all servers that run know each other, and JetStream has a meta leader for them. Raises
        NatsServerError after `timeout` seconds."""
        running = [server for server in self.servers if server.running]
        for server in running:
            wait_routed(server, len(running) - 1, timeout)
        if self._jetstream and len(running) > len(self.servers) // 2:
            for server in running:
                server.wait_for(lambda: self._led(server), timeout, "a meta leader of JetStream")

    def close(self) -> None:
        """Stops the servers, and removes their folders."""
        self._stack.close()

    def _section(self, server: NatsServer) -> str:
        """The configuration of one server. JetStream demands that it names the others."""
        routes = ", ".join(
            f'"nats://127.0.0.1:{other.reserve_port("cluster")}"'
            for other in self.servers
            if other is not server
        )
        at = f"host: 127.0.0.1, port: {server.reserve_port('cluster')}"
        return f'cluster {{ name: "{self.name}", {at}, routes: [{routes}] }}\n{self._config}'

    def _led(self, server: NatsServer) -> bool | None:
        running = {each.name for each in self.servers if each.running}
        meta = server.monitor("jsz").get("meta_cluster")
        if not isinstance(meta, dict) or meta.get("leader") not in running:
            return None
        if meta["leader"] != server.name:
            return True
        # Only the leader knows its peers. It may lead before it has heard of all of them, and then refuses a
        # stream for "no suitable peers".
        reached = {peer["name"] for peer in meta.get("replicas", ()) if not peer.get("offline")}
        return True if running - {server.name} <= reached else None


def wait_routed(server: NatsServer, peers: int, timeout: float = START_TIMEOUT) -> None:
    """Returns once a server has routes to that many other servers."""

    def routed() -> bool | None:
        routes = server.monitor("routez")["routes"]
        assert isinstance(routes, list)
        return True if len({route["remote_id"] for route in routes}) == peers else None

    server.wait_for(routed, timeout, f"routes to {peers} other servers")
