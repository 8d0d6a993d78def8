"""A real uWSGI, which forks its workers in C from a process with a connection, and by default calls none of
Python's hooks for forks (unbit/uwsgi#1978)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from signal import SIGKILL, SIGTERM
from urllib.request import urlopen

import pytest

import natsync

from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import NatsServer, StartServer
from tests.support.waiting import eventually

pytestmark = pytest.mark.server

REQUESTS = 90
WORKERS = ("--master", "--processes", "3")
THREADS = (*WORKERS, "--threads", "4")
MODES = {
    "default": WORKERS,
    "enable-threads": (*WORKERS, "--enable-threads"),
    "threads": THREADS,
    "hooks": (*THREADS, "--py-call-uwsgi-fork-hooks"),
    "lazy-apps": (*THREADS, "--lazy-apps"),
}


@contextmanager
def uwsgi(module: str, server: NatsServer, log: Path, *options: str) -> Iterator[str]:
    """Runs the WSGI application of `module` in three workers; yields where it listens."""
    program = which("uwsgi", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if program is None:
        missing("uwsgi", "pip install 'natsync[test]'")
    if find_spec("flask") is None:
        missing("flask", "pip install 'natsync[test]'")
    command = [program, "--http-socket", "127.0.0.1:0", "--die-on-term", "--vacuum"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NATS_URL": server.url}
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, *options, "--module", f"{module}:app"],
            cwd=ROOT / "samples" / "web",
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield listening(process, log, 3 if "--lazy-apps" in options else 1)
        process.send_signal(SIGTERM)
        assert process.wait(40) == 0, log.read_text()
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, SIGKILL)  # also workers of a master that failed
        process.wait(10)


def listening(process: subprocess.Popen[bytes], log: Path, apps: int) -> str:
    """Waits until the application was loaded so many times; returns where it listens."""
    pattern = re.compile(r"bound to TCP address (127\.0\.0\.1:\d+)" + r"(?s:.*WSGI app 0)" * apps)
    while not (found := pattern.search(log.read_text())):
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(log.read_text())
    return f"http://{found[1]}"


def fetched(url: str) -> bytes:
    with urlopen(url, timeout=30) as response:
        answer: bytes = response.read()
    return answer


def answers(url: str) -> bool:
    try:
        return bool(fetched(url))
    except OSError:  # the worker has not reconnected yet
        return False


@pytest.mark.parametrize("options", MODES.values(), ids=MODES)
def test_each_request_gets_its_own_reply(
    server: NatsServer, tmp_path: Path, options: tuple[str, ...]
) -> None:
    """Also where no hook tells Python of the fork."""
    with natsync.connect(server.url) as nc, ThreadPoolExecutor(8) as pool:
        nc.subscribe("price.*", handler=lambda msg: msg.respond(msg.subject[6:].encode() + b"!"))
        nc.flush()
        with uwsgi("flask_app", server, tmp_path / "log", *options) as url:
            found = list(pool.map(lambda n: fetched(f"{url}/price/{n}"), range(REQUESTS)))
    assert found == [b"%d!" % number for number in range(REQUESTS)]


@pytest.mark.parametrize("options", [WORKERS, THREADS], ids=["default", "threads"])
def test_workers_go_on_after_an_outage(
    start_server: StartServer, tmp_path: Path, options: tuple[str, ...]
) -> None:
    server = start_server()
    with natsync.connect(server.url, reconnect_wait=0.05) as nc, ThreadPoolExecutor(8) as pool:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        nc.flush()
        with uwsgi("tests.support.preloaded", server, tmp_path / "log", *options) as url:
            assert all(pool.map(answers, [url] * REQUESTS))
            server.stop()
            server.start()
            assert nc.wait_connected(10)
            eventually(lambda: all(pool.map(answers, [url] * 8)))
            assert all(pool.map(answers, [url] * REQUESTS))
