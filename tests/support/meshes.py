"""Clusters of either kind of server, and ports that are known before a server starts."""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator

from natsync.testing import NatsCluster, NatsServer

from tests.support.servers import Which, program_of


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
    """The servers of a cluster. Without JetStream, unless `config` asks for it: then it has no leader yet."""
    program = program_of(which)
    with NatsCluster(
        config, size=count, name="c", jetstream=False, trace=trace, program=program
    ) as cluster:
        yield cluster.servers
