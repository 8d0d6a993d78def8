"""Every sample program runs as it stands, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = {
    "publish_subscribe": "orders.0 one coffee\norders.1 one coffee\norders.2 one coffee\n",
    "request_reply": "hello, world\nno responders on nobody.listens.here\n",
    "queue_workers": "".join(f"done: job {number}\n" for number in range(8)),
    "headers": "Ada ['Grace', 'Edsger']\n",
}


def test_every_sample_is_known() -> None:
    assert {path.stem for path in (ROOT / "samples").glob("*.py")} == set(SAMPLES)


@pytest.mark.parametrize("name", SAMPLES)
def test_it_prints_what_it_should(name: str, server: NatsServer) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "samples" / f"{name}.py"],
        env={**os.environ, "NATS_URL": server.url, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert (done.stdout, done.stderr, done.returncode) == (SAMPLES[name], "", 0)
