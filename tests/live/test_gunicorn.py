"""A real gunicorn that forks its workers from a process with a connection."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from signal import SIGTERM
from urllib.request import urlopen

import pytest

import natsync

from tests.support.requirements import missing
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    "worker", [("-k", "gevent"), ("-k", "gthread", "--threads", "4")], ids=["gevent", "threads"]
)
def test_workers_that_are_forked_from_a_process_with_a_client(
    server: NatsServer, worker: tuple[str, ...]
) -> None:
    for name in ("gunicorn", "gevent"):
        if find_spec(name) is None:
            missing(name, "pip install 'natsync[test]'")
    with natsync.connect(server.url) as nc:
        nc.subscribe("echo", handler=lambda msg: msg.respond(msg.data))
        nc.flush()
        process = subprocess.Popen(
            [sys.executable, "-m", "gunicorn", "--preload", "-w", "2", "-b", "127.0.0.1:0"]
            + [*worker, "--graceful-timeout", "5", "tests.support.preloaded:app"],
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
            url = found[1]
            with ThreadPoolExecutor(8) as pool:
                workers = set(pool.map(lambda _: urlopen(url, timeout=20).read(), range(60)))
            assert str(process.pid).encode() not in workers
        finally:
            process.send_signal(SIGTERM)
            _, rest = process.communicate(timeout=20)
        assert "Traceback" not in rest, rest
