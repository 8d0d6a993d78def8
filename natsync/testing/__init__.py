"""Servers for the tests of your programs: real nats-server processes, and one in memory.

>>> with natsync.testing.NatsServer() as server, server.connect() as nc:
...     nc.jetstream().create_stream(StreamConfig(name="orders"))

    NatsServer          a nats-server on a free port, with JetStream; stop, pause, resume, restart
    NatsCluster         a cluster of them
    MemoryServer        a server in this process, for unit tests: starts in a millisecond
    NatsServerError     a server that is missing, did not start or died

Under pytest, the fixtures `nats_server`, `nats_cluster` and `nats_memory_server` are there as soon as natsync
is installed. The program comes from the extra `testing`; docs/testing.md is the manual.
"""

from .cluster import NatsCluster
from .memory import MemoryServer
from .program import NatsServerError
from .server import NatsServer

__all__ = ["MemoryServer", "NatsCluster", "NatsServer", "NatsServerError"]
