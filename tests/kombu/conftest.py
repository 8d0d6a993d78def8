"""Connections of kombu to a server with JetStream, whose queues have a prefix of the test's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest
from kombu import Connection

import natsync.kombu

from tests.support.servers import NatsServer

Connect = Callable[..., Connection]


@pytest.fixture
def broker(js_server: NatsServer, stream_name: str) -> Iterator[Connect]:
    """broker(**transport_options): one more connection to the same queues."""
    natsync.kombu.register()
    with ExitStack() as stack:

        def connect(**options: object) -> Connection:
            options = {"prefix": stream_name, **options}
            return stack.enter_context(Connection(js_server.url, transport_options=options))

        yield connect
