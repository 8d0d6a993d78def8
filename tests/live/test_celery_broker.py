"""The sample with NATS as Celery's broker and backend: chords, and a worker that is killed in a task."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.servers import NatsServer
from tests.support.waiting import eventually

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

COMMAND = [sys.executable, "-m", "celery", "--app", "celery_broker", "worker", "--concurrency", "2"]
COMMAND += ["--loglevel", "INFO"]
BEGUN = "Task celery_broker.wait["
DONE = ": 'done'"  # the end of what a worker logs of its success
ASKS = """
from celery import chord, group
from celery_broker import add, app, total, wait
sums = [add.delay(number, number) for number in range(50)]
print(sum(result.get(timeout=60) for result in sums))
print(chord(add.s(number, number) for number in range(50))(total.s()).get(timeout=60))
print(group(add.s(number, 1) for number in range(5))().get(timeout=60))
print(app.control.ping(timeout=10, limit=1))
print(add.apply_async((1, 2), countdown=0.5).get(timeout=30))
result = wait.delay(3)  # longer than the visibility timeout
print("asked", flush=True)
print(result.get(timeout=60))
"""


@contextmanager
def worker(environment: dict[str, str], folder: Path, name: str) -> Iterator[int]:
    """A worker with two processes in a group of their own, ended in order unless it was killed."""
    with (folder / name).open("wb") as log:
        command = [*COMMAND, "--hostname", f"{name}@host"]
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=log, stderr=log, start_new_session=True
        )
        try:
            yield process.pid
            process.terminate()
            assert process.wait(30) in (0, -signal.SIGKILL), (folder / name).read_text()
        finally:
            process.kill()
            process.wait()


def test_tasks_outlive_their_worker(js_server: NatsServer, tmp_path: Path) -> None:
    path = os.pathsep.join(map(str, [ROOT, ROOT / "samples" / "web"]))
    environment = {**os.environ, "NATS_URL": f"{js_server.url}/celery", "PYTHONPATH": path}
    with ExitStack() as stack, worker(environment, tmp_path, "first") as first:
        asks = subprocess.Popen(
            [sys.executable, "-c", ASKS], env=environment, stdin=-1, stdout=-1, stderr=-1, text=True
        )
        stack.callback(asks.kill)
        assert asks.stdout
        lines = [asks.stdout.readline().strip() for _ in range(6)]
        assert lines[:3] == ["2450", "2450", "[1, 2, 3, 4, 5]"]
        assert lines[3:] == ["[{'first@host': {'ok': 'pong'}}]", "3", "asked"]
        eventually(lambda: BEGUN in (tmp_path / "first").read_text())
        os.killpg(first, signal.SIGKILL)
        with worker(environment, tmp_path, "second"):
            out, err = asks.communicate(timeout=90)
            assert out == "done\n", err
    assert DONE not in (tmp_path / "first").read_text()
    assert DONE in (tmp_path / "second").read_text()
