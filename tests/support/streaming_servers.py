"""Real nats-streaming-server processes, and stan.go beside them.

A `StreamingServer` is one process on loopback, with an embedded NATS server on a port that the system
chooses, or on a NATS server that runs already. Its store is in a temporary folder of its own, so that it
may be stopped and started again. Readiness is a line of its log.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, SIGTERM, Signals

import pytest

from tests.support.streaming_programs import peer_program, server_program

CLUSTER = "test-cluster"
POLL = 0.01
START_TIMEOUT = 30.0
STOP_TIMEOUT = 10.0
PEER_TIMEOUT = 50.0


class StreamingServer:
    """One nats-streaming-server; a context manager that starts it and takes it all away again."""

    def __init__(
        self, *options: str, store: str = "FILE", nats_url: str = "", log: str = "server"
    ) -> None:
        self._program = server_program()
        self._options = options
        self._store = store
        self._nats_url = nats_url
        self._port = -1
        self._log_name = log
        self._starts = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="nats-streaming-server-")

    def start(self, ready: str = "Streaming Server is ready") -> None:
        """Starts the process, and returns when its log says `ready`."""
        self._starts += 1
        where = ["-ns", self._nats_url] if self._nats_url else ["-a", "127.0.0.1"]
        if not self._nats_url:
            where += ["-p", str(self._port)]
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(
                        self._program,
                        "-cid",
                        CLUSTER,
                        "-st",
                        self._store,
                        "-dir",
                        self.store_folder,
                    ),
                    *(*where, *self._options),
                ],
                cwd=self._folder.name,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self.wait_log(ready)
        if not self._nats_url:
            self._port = int(self.wait_log(r"client connections on 127.0.0.1:(\d+)")[1])

    def terminate(self, sig: Signals = SIGTERM) -> None:
        """Stops the process and waits for its end; SIGKILL gives a crash. Harmless when stopped."""
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(sig)
        process.send_signal(SIGCONT)  # a test may have stopped it with SIGSTOP
        try:
            process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, sig: Signals = SIGTERM) -> None:
        self.terminate(sig)
        self.start()

    def stall(self) -> None:
        """Stops the process where it is, and returns when it stands."""
        assert self._process
        self._process.send_signal(SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Ends what `stall` began."""
        assert self._process
        self._process.send_signal(SIGCONT)

    @property
    def store_folder(self) -> Path:
        """Where a file store is."""
        return Path(self._folder.name) / "store"

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """Of the NATS server that it is reached through."""
        return self._nats_url or f"nats://127.0.0.1:{self._port}"

    def log(self) -> str:
        """Everything printed since the last start."""
        return self._log_path.read_text(errors="replace")

    def wait_log(self, pattern: str, timeout: float = START_TIMEOUT) -> re.Match[str]:
        """The first match of the regular expression in the log, as soon as there is one."""
        until = time.monotonic() + timeout
        while time.monotonic() < until:
            found = re.search(pattern, self.log())
            if found:
                return found
            if not self.running:
                break
            time.sleep(POLL)
        raise AssertionError(f"no {pattern!r} in the log of nats-streaming-server:\n{self.log()}")

    @property
    def _log_path(self) -> Path:
        return Path(self._folder.name) / f"{self._log_name}-{self._starts}.log"

    def __enter__(self) -> StreamingServer:
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.terminate(SIGKILL)
        self._folder.cleanup()


class StanPeer:
    """One stan.go process; `lines` gives what it prints."""

    def __init__(self, server: StreamingServer, client_id: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [str(each) for each in (peer_program(), server.url, CLUSTER, client_id, *arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "GOTRACEBACK": "all"},
            text=True,
        )

    def wait_ready(self) -> None:
        """Returns when it is subscribed."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line == "ready\n", line + self._process.communicate(timeout=PEER_TIMEOUT)[1]

    def lines(self) -> list[str]:
        """All lines, when it has ended; AssertionError where it failed."""
        out, err = self._process.communicate(timeout=PEER_TIMEOUT)
        assert self._process.returncode == 0, err
        return out.splitlines()

    def __enter__(self) -> StanPeer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def stan_go(server: StreamingServer, client_id: str, *arguments: object) -> list[str]:
    """The lines that stan.go prints."""
    with StanPeer(server, client_id, *arguments) as peer:
        return peer.lines()


@pytest.fixture(scope="module")
def streaming_server() -> Iterator[StreamingServer]:
    """A server with embedded NATS and its store in memory, one for the test module."""
    with StreamingServer(store="MEMORY") as running:
        yield running


@pytest.fixture
def start_streaming_server() -> Iterator[StartStreamingServer]:
    """Starts servers that end with the test."""
    with contextlib.ExitStack() as stack:
        yield StartStreamingServer(stack)


class StartStreamingServer:
    """The fixture `start_streaming_server`: takes the arguments of StreamingServer, returns it running."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack

    def __call__(self, *options: str, store: str = "FILE", nats_url: str = "") -> StreamingServer:
        return self._stack.enter_context(StreamingServer(*options, store=store, nats_url=nats_url))
