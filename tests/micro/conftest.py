"""A client for each test of services, on the module's server; what is reported to it."""

from __future__ import annotations

from collections.abc import Iterator
from queue import SimpleQueue

import pytest

import natsync

from tests.support.servers import NatsServer


@pytest.fixture
def reports() -> SimpleQueue[natsync.Error]:
    """What `on_error` of the client was called with."""
    return SimpleQueue()


@pytest.fixture
def nc(server: NatsServer, reports: SimpleQueue[natsync.Error]) -> Iterator[natsync.Client]:
    with natsync.connect(server.url, on_error=reports.put) as client:
        yield client
