"""`NatsServer`: one nats-server process on loopback, for tests.

The operating system chooses every port, and the server tells which in its ports file once all its listeners
accept: nobody guesses a port, and nothing connects to find out. Configuration, logs and JetStream's files are
in a temporary folder. While the server is stopped, its ports are held by sockets that do not listen: others
cannot take them meanwhile, and a client that reconnects does not by chance connect to itself.

A server has a watcher, a shell that waits for the end of a pipe: if this program dies, even by SIGKILL, the
pipe ends, and the watcher kills the process that it was told of last.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals
from typing import TYPE_CHECKING, NoReturn, TypeVar
from urllib.parse import SplitResult, urlsplit

from .._connect import connect
from ..client import Client
from ..tls import TLS
from .login import with_login
from .program import NatsServerError, check_program, find_program, program_version

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["NatsServer", "running_servers"]

T = TypeVar("T")

START_TIMEOUT = 20.0  # seconds
_STOP_TIMEOUT = 10.0
_POLL = 0.005
_LOG_LINES = 20

_WATCHER = 'while read -r pid; do last=$pid; done; [ -z "$last" ] || kill -KILL "$last"'

_started: weakref.WeakSet[NatsServer] = weakref.WeakSet()


def running_servers() -> list[NatsServer]:
    """Returns the servers of this process that run, the oldest first."""
    return sorted((server for server in _started if server.running), key=lambda each: each.pid)


class NatsServer:
    """One nats-server process; a context manager that starts it, and leaves nothing behind.

    `config` is configuration text. The server reads it after the lines that the options make, so it may
    override any of them. `$FOLDER` in it is the server's temporary folder.

    jetstream           JetStream, with its files in the temporary folder
    websocket           a WebSocket listener as well, see `websocket_url`
    token, users        who may connect: a token, or passwords by user; `connect` takes the first user
    cert_file, key_file the server demands TLS, with this certificate. With `ca_file`, clients need one
                        of that authority
    port                0: a free one
    trace               the log lists every operation
    program             which nats-server; default: see `find_program`

    Raises NatsServerError if there is no nats-server, or if it does not start. Not for several threads.
    """

    def __init__(
        self,
        config: str = "",
        *,
        name: str = "nats",
        host: str = "127.0.0.1",
        port: int = 0,
        jetstream: bool = True,
        websocket: bool = False,
        token: str | None = None,
        users: Mapping[str, str] | None = None,
        cert_file: str | Path | None = None,
        key_file: str | Path | None = None,
        ca_file: str | Path | None = None,
        trace: bool = False,
        program: str | Path | None = None,
    ) -> None:
        self.config = config
        """More configuration text, read at each start."""

        self.program = find_program() if program is None else check_program(program)
        self.name = name
        self.host = host
        self._sections = {"jetstream": jetstream, "websocket": websocket, "trace": trace}
        self._token = token
        self._users = dict(users or {})
        self._tls = {"cert_file": cert_file, "key_file": key_file, "ca_file": ca_file}
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self._urls: dict[str, SplitResult] = {}
        self._ports: dict[str, int] = {"nats": port} if port > 0 else {}
        self._held: list[socket.socket] = []
        self._starts = 0
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<NatsServer {self.name} {self.url if self.running else 'stopped'}>"

    def start(self) -> None:
        """Starts the process, on the ports of the last time, and returns when all its listeners accept."""
        if self._process is not None:
            raise NatsServerError(self.name, "is running already")
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="nats-server-")
        try:
            self._start()
        except BaseException:
            self.stop(SIGKILL)
            raise

    def _start(self) -> None:
        self._starts += 1
        path = self.folder / "server.conf"
        path.write_text(f"{self._generated()}\n{self.config}")
        if sys.platform != "linux":  # elsewhere, nobody may bind what another socket has bound
            self._release()
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [self.program, "-c", path],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "FOLDER": str(self.folder)},
                start_new_session=True,  # Ctrl-C is for the tests, which then stop the server
            )
        self._watch(self._process.pid)
        _started.add(self)
        self._urls = self.wait_for(self._read_ports, START_TIMEOUT, "its ports file")
        self._ports = {kind: url.port or 0 for kind, url in self._urls.items()}
        self._release()

    def stop(self, sig: Signals = SIGTERM) -> None:
        """Stops the process, and waits for its end. Does nothing if it is stopped. `start` brings it back on
        the same ports, with what JetStream has stored."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.poll() is None:
            process.send_signal(sig)
            process.send_signal(SIGCONT)  # it may be paused
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._watch("")
        for port in self._ports.values():
            self._hold(port)

    def kill(self) -> None:
        """Kills the process with SIGKILL: a crash."""
        self.stop(SIGKILL)

    def restart(self, sig: Signals = SIGTERM) -> None:
        """Stops the process, and starts it on the same ports."""
        self.stop(sig)
        self.start()

    def pause(self) -> None:
        """Stops the process where it is (SIGSTOP), and returns when it stands: connections stay open, and
        nothing is answered."""
        self.signal(SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)

    def resume(self) -> None:
        """Ends what `pause` began."""
        self.signal(SIGCONT)

    def signal(self, sig: Signals) -> None:
        """Sends a signal to the process: SIGHUP reloads its configuration, SIGUSR2 begins lame duck mode."""
        self._running.send_signal(sig)

    def close(self) -> None:
        """Stops the process, and removes its folder."""
        self.stop()
        self._unwatch()
        self._release()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def connect(self, **options: object) -> Client:
        """Returns a client. `options` are those of `natsync.connect`; TLS and the name and password of the
        first user, or the token, are set already."""
        options = with_login(options, self._token, self._users)
        if (ca := self._tls["ca_file"] or self._tls["cert_file"]) and "tls" not in options:
            options["tls"] = TLS(ca_file=ca)
        return connect(options.pop("servers", self.url), **options)  # type: ignore[arg-type]  # checked there

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._running.pid

    @property
    def version(self) -> str:
        """The version of the program, such as 2.15.1."""
        return ".".join(map(str, program_version(self.program) or ()))

    @property
    def folder(self) -> Path:
        """Its temporary folder, gone after `close`."""
        if self._folder is None:
            raise NatsServerError(self.name, "was not started")
        return Path(self._folder.name)

    @property
    def url(self) -> str:
        """Where clients connect."""
        return self._url("nats")

    @property
    def websocket_url(self) -> str:
        """Where clients connect over WebSocket."""
        return self._url("websocket")

    @property
    def port(self) -> int:
        """The port for clients."""
        return self._port("nats")

    @property
    def monitor_port(self) -> int:
        """The port of the monitoring addresses."""
        return self._port("monitoring")

    @property
    def route_port(self) -> int:
        """The port for other servers of a cluster."""
        return self._port("cluster")

    @property
    def websocket_port(self) -> int:
        """The port for WebSocket clients."""
        return self._port("websocket")

    @property
    def gateway_port(self) -> int:
        """The port for other clusters."""
        return self._logged_port("gateways")

    @property
    def leaf_port(self) -> int:
        """The port for leafnodes."""
        return self._logged_port("leafnode")

    def log(self) -> str:
        """Returns everything that the process has printed since its last start."""
        return self._log_path.read_text(errors="replace")

    def wait_log(self, pattern: str, timeout: float = START_TIMEOUT) -> re.Match[str]:
        """Returns the first match of a regular expression in the log, as soon as there is one."""
        wanted = re.compile(pattern, re.MULTILINE)
        return self.wait_for(lambda: wanted.search(self.log()), timeout, f"{pattern!r} in its log")

    def monitor(self, path: str) -> dict[str, object]:
        """Returns the JSON object of a monitoring address, such as `varz` or `connz?subs=1`."""
        url = f"http://{self._bracketed}:{self.monitor_port}/{path}"
        with urllib.request.urlopen(url, timeout=START_TIMEOUT) as response:
            answer = json.load(response)
        if not isinstance(answer, dict):
            raise NatsServerError(self.name, f"the monitoring address {path} gave no object")
        return answer

    def wait_for(self, ready: Callable[[], T | None], timeout: float, what: str) -> T:
        """Returns what `ready` returns, once that is not None. Raises NatsServerError if the server dies, or
        after `timeout` seconds; `what` says in its text what was waited for."""
        deadline = time.monotonic() + timeout
        while time.monotonic() < deadline:
            answer = ready()
            if answer is not None:
                return answer
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = self._running.wait(_POLL)
                self._fail(f"ended with status {status} before {what}")
        self._fail(f"did not show {what} within {timeout} seconds")

    def reserve_port(self, kind: str) -> int:
        """Returns the port that a kind of listener (nats, monitoring, websocket, cluster) has or had; if
        there was none yet, a free port, which is held until the server starts."""
        if kind not in self._ports:
            self._ports[kind] = self._hold(0)
        return self._ports[kind]

    def log_tail(self, lines: int = _LOG_LINES) -> str:
        """Returns the last lines of the log."""
        return "\n".join(self.log().splitlines()[-lines:])

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise NatsServerError(self.name, "is not running")
        return self._process

    @property
    def _bracketed(self) -> str:
        return f"[{self.host}]" if ":" in self.host else self.host

    @property
    def _log_path(self) -> Path:
        return self.folder / f"server-{self._starts}.log"

    def _generated(self) -> str:
        """The configuration that the options make."""
        at = {kind: self._ports.get(kind, -1) for kind in ("nats", "monitoring", "websocket")}
        files = {name: str(path) for name, path in self._tls.items() if path}
        tls = f"tls {json.dumps(files | ({'verify': True} if 'ca_file' in files else {}))}"
        users = [{"user": user, "password": password} for user, password in self._users.items()]
        lines = {
            f"server_name: {json.dumps(self.name)}": True,
            f'host: "{self.host}"\nport: {at["nats"]}': True,
            f'http: "{self._bracketed}:{at["monitoring"]}"': True,
            f'ports_file_dir: "{self.folder}"': True,
            tls: bool(files),
            f"authorization {json.dumps({'token': self._token})}": self._token is not None,
            f"authorization {json.dumps({'users': users})}": bool(users),
            f'jetstream {{ store_dir: "{self.folder}" }}': self._sections["jetstream"],
            f'websocket {{ host: "{self.host}", port: {at["websocket"]}, '
            f'{tls if files else "no_tls: true"} }}': self._sections["websocket"],
            "debug: true\ntrace: true": self._sections["trace"],
        }
        return "\n".join(line for line, wanted in lines.items() if wanted)

    def _read_ports(self) -> dict[str, SplitResult] | None:
        path = self.folder / f"{self.program.name}_{self.pid}.ports"
        try:
            found = json.loads(path.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None  # not there, or half written
        return {kind: urlsplit(urls[0]) for kind, urls in found.items()}

    def _url(self, kind: str) -> str:
        self._port(kind)
        return self._urls[kind].geturl()

    def _port(self, kind: str) -> int:
        if kind not in self._urls:
            raise NatsServerError(self.name, f"has no {kind} port")
        return self._urls[kind].port or 0

    def _logged_port(self, kind: str) -> int:
        """Gateway and leafnode listeners are missing from the ports file, not from the log."""
        match = re.search(
            rf"Listening for {kind} connections on \S+:(\d+)$", self.log(), re.MULTILINE
        )
        if match is None:
            raise NatsServerError(self.name, f"has no {kind} port")
        return int(match[1])

    def _fail(self, what: str) -> NoReturn:
        raise NatsServerError(self.name, f"{self.program} {what}; its log ends:\n{self.log_tail()}")

    def _watch(self, pid: int | str) -> None:
        """Tells the watcher which process to kill; `""`: none."""
        if self._watcher is None:
            self._watcher = subprocess.Popen(
                ["/bin/sh", "-c", _WATCHER],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        assert self._watcher.stdin
        with contextlib.suppress(BrokenPipeError):  # somebody has killed it
            self._watcher.stdin.write(f"{pid}\n".encode())
            self._watcher.stdin.flush()

    def _unwatch(self) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            assert watcher.stdin
            with contextlib.suppress(BrokenPipeError):
                watcher.stdin.close()
            watcher.wait()

    def _hold(self, port: int) -> int:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        held = socket.socket(family, socket.SOCK_STREAM)
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.append(held)
        with contextlib.suppress(OSError):  # somebody was quicker: `start` will say so
            held.bind((self.host, port))
        return int(held.getsockname()[1])

    def _release(self) -> None:
        while self._held:
            self._held.pop().close()
