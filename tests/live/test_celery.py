"""The Celery sample in a real worker, whose processes are forked from the one that made the client."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import natsync

from tests.support.paths import ROOT
from tests.support.requirements import missing
from tests.support.servers import NatsServer

pytestmark = [pytest.mark.server, pytest.mark.timeout(180)]

TASKS = 20
# The queue is a folder, so that no broker is needed.
SETTINGS = """
import os
from celery_app import app
folders = dict.fromkeys(["data_folder_in", "data_folder_out", "control_folder"], os.environ["QUEUE"])
app.conf.broker_transport_options = folders
app.conf.broker_connection_retry_on_startup = True
"""
ASKS = f"""
from settings import app
from celery_app import nc, price
nc.close()
results = [price.delay(str(number)) for number in range({TASKS})]
print(*[result.get(timeout=60) for result in results])
"""


@pytest.fixture
def environment(server: NatsServer, tmp_path: Path) -> dict[str, str]:
    if importlib.util.find_spec("celery") is None:
        missing("celery", "pip install celery")
    for name in ("queue", "results"):
        (tmp_path / name).mkdir()
    (tmp_path / "settings.py").write_text(SETTINGS)
    return {
        **os.environ,
        "NATS_URL": server.url,
        "BROKER_URL": "filesystem://",
        "RESULT_URL": f"file://{tmp_path / 'results'}",
        "QUEUE": str(tmp_path / "queue"),
        "PYTHONPATH": os.pathsep.join(map(str, [ROOT, ROOT / "samples" / "web", tmp_path])),
    }


@contextmanager
def worker(environment: dict[str, str], folder: Path) -> Iterator[None]:
    """Two processes, ended in order."""
    command = [sys.executable, "-m", "celery", "--app", "settings", "worker", "--pool", "prefork"]
    command += ["--concurrency", "2", "--without-gossip", "--without-mingle", "--without-heartbeat"]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield
            process.terminate()
            assert process.wait(30) == 0, (folder / "log").read_text()
        finally:
            process.kill()
            process.wait()


def test_forked_tasks_ask_and_publish(
    server: NatsServer, environment: dict[str, str], tmp_path: Path
) -> None:
    with natsync.connect(server.url) as nc, nc.subscribe("priced", max_msgs=TASKS) as priced:
        nc.subscribe("price.*", handler=lambda msg: msg.respond(msg.subject[6:].encode() + b"!"))
        nc.flush()
        with worker(environment, tmp_path):
            asked = subprocess.run(
                [sys.executable, "-c", ASKS], env=environment, capture_output=True, text=True
            )
        assert asked.stdout.split() == [f"{number}!" for number in range(TASKS)], asked.stderr
        items = sorted(int(msg.data) for msg in priced.messages(timeout=5))
        assert items == [*range(TASKS)]
