"""The Flask and Django samples under a real gunicorn: preloaded, with threads, shared by many requests."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

import natsync

from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

LISTENING = re.compile(r"Listening at: (http://127\.0\.0\.1:\d+)")
REQUESTS = 60


@contextmanager
def gunicorn(app: str, server: NatsServer, log: Path) -> Iterator[str]:
    """The sample in two preloaded workers with four threads each; yields where it listens."""
    for module in ("gunicorn", app.partition("_")[0]):
        if importlib.util.find_spec(module) is None:
            missing(module, f"pip install {module}")
    command = [sys.executable, "-m", "gunicorn", "--workers", "2", "--threads", "4", "--preload"]
    command += ["--bind", "127.0.0.1:0", "--log-file", str(log), "--graceful-timeout", "5"]
    command += ["--no-control-socket"] * has_control_socket()
    environment = {**os.environ, "NATS_URL": server.url, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [*command, f"{app}:app"], cwd=ROOT / "samples" / "web", env=environment
    )
    try:
        yield listening(process, log)
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0, log.read_text()


def has_control_socket() -> bool:
    """Since gunicorn 25; it would lie in the working folder."""
    shown = subprocess.run(
        [sys.executable, "-m", "gunicorn", "--help"], capture_output=True, text=True, check=True
    )
    return "--no-control-socket" in shown.stdout


def listening(process: subprocess.Popen[bytes], log: Path) -> str:
    while not (found := LISTENING.search(log.read_text() if log.exists() else "")):
        try:
            process.wait(0.05)
        except subprocess.TimeoutExpired:
            continue
        pytest.fail(log.read_text())
    return found[1]


def fetched(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=20) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


@pytest.mark.parametrize("app", ["flask_app", "django_app"])
def test_an_application_asks_from_many_threads(
    app: str, server: NatsServer, tmp_path: Path
) -> None:
    with natsync.connect(server.url) as nc:
        nc.subscribe("price.*", handler=lambda msg: msg.respond(msg.subject[6:].encode() + b"!"))
        nc.flush()
        with gunicorn(app, server, tmp_path / "log") as url, ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda n: fetched(f"{url}/price/{n}"), range(REQUESTS)))
            assert answers == [(200, f"{number}!") for number in range(REQUESTS)]
            assert fetched(f"{url}/price/a%20b") == (404, "no such item")
    with gunicorn(app, server, tmp_path / "again") as url:
        assert fetched(f"{url}/price/1") == (503, "the price service is down")
