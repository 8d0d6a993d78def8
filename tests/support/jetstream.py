"""Servers with JetStream for the tests: one of each kind for all of them, a client and a stream name for
each."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import natsync
from natsync.jetstream import JetStream

from tests.support.servers import NatsServer, require_server

JETSTREAM = "jetstream { store_dir: $FOLDER }\n"


@pytest.fixture(scope="session")
def js_server() -> Iterator[NatsServer]:
    """A current server with JetStream, one for all tests: use a `stream_name` of your own."""
    require_server("current")
    with NatsServer(JETSTREAM) as running:
        yield running


@pytest.fixture(scope="session")
def old_js_server() -> Iterator[NatsServer]:
    """An old server (2.9) with JetStream."""
    require_server("old")
    with NatsServer(JETSTREAM, which="old") as running:
        yield running


@pytest.fixture
def js_client(js_server: NatsServer) -> Iterator[natsync.Client]:
    """A client of `js_server`."""
    with natsync.connect(js_server.url) as nc:
        yield nc


@pytest.fixture
def js(js_client: natsync.Client) -> JetStream:
    """The JetStream context of `js_client`."""
    return js_client.jetstream()


@pytest.fixture
def old_js(old_js_server: NatsServer) -> Iterator[JetStream]:
    """A JetStream context of the old server."""
    with natsync.connect(old_js_server.url) as nc:
        yield nc.jetstream()


@pytest.fixture
def stream_name(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; its stream may have the subjects `NAME` and `NAME.>`."""
    return re.sub(r"\W", "_", f"{request.module.__name__.rpartition('.')[2]}_{request.node.name}")
