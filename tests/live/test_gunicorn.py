"""A real gunicorn that forks its workers from a process with a connection."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib.util import find_spec
from signal import SIGTERM
from urllib.request import urlopen

import pytest

import natsync

from tests.support.requirements import missing
from tests.support.servers import NatsServer, StartServer

pytestmark = pytest.mark.server

GEVENT = ("-k", "gevent")
THREADS = ("-k", "gthread", "--threads", "4")


@contextmanager
def preloaded(server: NatsServer, *options: str) -> Iterator[tuple[int, str]]:
    """Runs `tests.support.preloaded`: the process that forks, and the URL of its workers."""
    for name in ("gunicorn", "gevent"):
        if find_spec(name) is None:
            missing(name, "pip install 'natsync[test]'")
    process = subprocess.Popen(
        [sys.executable, "-m", "gunicorn", "--preload", "-b", "127.0.0.1:0", *options]
        + ["--graceful-timeout", "5", "tests.support.preloaded:app"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "NATS_URL": server.url},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr
    log = ""
    try:
        while not (found := re.search(r"Listening at: (http\S+)", log)):
            line = process.stderr.readline()
            assert line, log
            log += line
        yield process.pid, found[1]
    finally:
        process.send_signal(SIGTERM)
        _, rest = process.communicate(timeout=40)
    assert "Traceback" not in rest, rest


@pytest.mark.parametrize("worker", [GEVENT, THREADS], ids=["gevent", "threads"])
def test_workers_that_are_forked_from_a_process_with_a_client(
    server: NatsServer, worker: tuple[str, ...]
) -> None:
    with natsync.connect(server.url) as nc:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        nc.flush()
        with preloaded(server, "-w", "2", *worker) as (pid, url):
            with ThreadPoolExecutor(8) as pool:
                workers = set(pool.map(lambda _: urlopen(url, timeout=20).read(), range(60)))
            assert str(pid).encode() not in workers


@pytest.mark.parametrize("worker", [GEVENT, THREADS], ids=["gevent", "threads"])
def test_a_forked_worker_goes_on_after_an_outage(
    start_server: StartServer, worker: tuple[str, ...]
) -> None:
    """Gevent patches a worker after the fork, when natsync is imported already."""
    server = start_server()
    with natsync.connect(server.url, reconnect_wait=0.05) as nc:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        nc.flush()
        with preloaded(server, "-w", "1", *worker) as (_, url):
            first = urlopen(url, timeout=20).read()
            server.stop()
            server.start()
            assert nc.wait_connected(10)
            assert urlopen(url, timeout=20).read() == first
