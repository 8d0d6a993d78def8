"""Real nats-server processes for the tests of your programs.

>>> with natsync.testing.NatsServer() as server, server.connect() as nc:
...     nc.jetstream().create_stream(StreamConfig(name="orders"))

    NatsServer          a nats-server on a free port, with JetStream; stop, pause, resume, restart
    NatsCluster         a cluster of them
    NatsServerError     a server that is missing, did not start or died

Under pytest, the fixtures `nats_server` and `nats_cluster` are there as soon as natsync is installed. The
program comes from the extra `testing`; docs/testing.md is the manual.
"""

from .cluster import NatsCluster
from .program import NatsServerError
from .server import NatsServer

__all__ = ["NatsCluster", "NatsServer", "NatsServerError"]
