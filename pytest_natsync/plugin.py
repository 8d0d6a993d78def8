"""The fixtures of natsync's pytest plugin: `nats_server`, `nats_cluster` and `nats_memory_server`.

Each test that asks for one gets one of its own. When a test fails, its report has the last lines of the log
of every server that runs then, also of those that the project's own fixtures started with `natsync.testing`.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from natsync.testing import MemoryServer, NatsCluster, NatsServer

_LOG_LINES = 50


@pytest.fixture
def nats_server() -> Iterator[NatsServer]:
    """A real nats-server with JetStream on a free port, for one test: a `natsync.testing.NatsServer`."""
    from natsync.testing import NatsServer

    with NatsServer() as server:
        yield server


@pytest.fixture
def nats_cluster() -> Iterator[NatsCluster]:
    """A cluster of three real nats-servers with JetStream, for one test: a `natsync.testing.NatsCluster`."""
    from natsync.testing import NatsCluster

    with NatsCluster() as cluster:
        yield cluster


@pytest.fixture
def nats_memory_server() -> Iterator[MemoryServer]:
    """A NATS server in this process, for one test: a `natsync.testing.MemoryServer`."""
    from natsync.testing import MemoryServer

    with MemoryServer() as server:
        yield server


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the logs of servers to the report of a failure."""
    report = yield
    if report.failed and (server := sys.modules.get("natsync.testing.server")):
        for running in server.running_servers():
            log = running.log_tail(_LOG_LINES)
            report.sections.append((f"log of nats-server {running.name}", log))
    return report
