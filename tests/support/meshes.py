"""Clusters whose members find each other again after any of them was away: JetStream needs that."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator

from tests.support.servers import NatsServer, Which, wait_routed


def lasting_ports(count: int) -> list[int]:
    """Free ports below those that the system hands out, so that nobody takes them while a server is away."""
    found: list[int] = []
    candidates = iter(random.Random(os.urandom(8)).sample(range(20_000, 30_000), 1000))
    while len(found) < count:
        port = next(candidates)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


@contextlib.contextmanager
def mesh(
    count: int, config: str = "", *, which: Which = "current", trace: bool = False
) -> Iterator[list[NatsServer]]:
    """`count` servers named c-0 and on; each knows the ports of all, which are chosen here."""
    with contextlib.ExitStack() as stack:
        ports = lasting_ports(count)
        routes = ", ".join(f'"nats://127.0.0.1:{port}"' for port in ports)
        servers = []
        for number, port in enumerate(ports):
            section = f"cluster {{ name: c, host: 127.0.0.1, port: {port}, routes: [{routes}] }}\n"
            server = NatsServer(section + config, which=which, name=f"c-{number}", trace=trace)
            servers.append(stack.enter_context(server))
        for server in servers:
            wait_routed(server, count - 1)
        yield servers
