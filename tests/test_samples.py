"""Every sample program runs as it stands, against a real server."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.support.paths import ROOT
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

SAMPLES = {
    "publish_subscribe": "orders.0 one coffee\norders.1 one coffee\norders.2 one coffee\n",
    "request_reply": "hello, world\nno responders on nobody.listens.here\n",
    "queue_workers": "".join(f"done: job {number}\n" for number in range(8)),
    "processes": "0 1 4 9 16 25 36 49\n28\n",
    "headers": "Ada ['Grace', 'Edsger']\n",
    "prometheus_metrics": """nats_handler_seconds_count{subject="greet.*"} 2.0
nats_sent_total{error="",operation="publish",subject="(inbox)"} 2.0
nats_sent_total{error="",operation="request",subject="greet.ada"} 1.0
nats_sent_total{error="",operation="request",subject="greet.grace"} 1.0
nats_sent_total{error="NoRespondersError",operation="request",subject="nobody.listens"} 1.0
""",
    "reconnect": "disconnected\nreconnected\n4.20\nreconnects: 1\n",
    "drain": "1000 jobs done, closed\n",
    "futures": "0 1 4 9 16 25 36 49\nnorth south\nno responders on nobody.listens.here\n",
    "handler_context": "4\n",
    "consume": "10 11 89\nagain: 10\n0 left\n25 [3, 7, 11, 15, 19]\n",
    "key_value": "['blue', 'green']\ncount 3\ncolour green\ncount 3\ncolour DEL 7\n{'count': b'3'}\n",
    "object_store": "1024000 bytes in 8 chunks\nb'\\x00\\x01\\x02\\x03'\nTrue\n"
    "['2026/report.bin', 'latest'] 1024000\n"
    "object '2026/report.bin' in store sample-reports not found\n",
    "service": "42\n422 division by zero\nmath 1.0.0 ['math.divide']\n"
    "2 requests, 1 error: 422:division by zero\n",
    "slow_consumer": "slow consumer on ticks\n90 dropped, first kept: 90\n",
}


def test_every_sample_is_known() -> None:
    named = {path.stem for path in (ROOT / "samples").glob("*.py")}
    elsewhere = {"audit", "jetstream", "spark_questions", "stan_to_jetstream"}
    assert named == {*SAMPLES, *elsewhere}


@pytest.mark.parametrize("name", SAMPLES)
def test_it_prints_what_it_should(name: str, js_server: NatsServer) -> None:
    done = run(name, js_server)
    assert (done.stdout, done.stderr, done.returncode) == (SAMPLES[name], "", 0)


def test_the_bucket_of_an_interrupted_sample_does_not_stay(js_server: NatsServer) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        broken = run("key_value", js_server, stdout=writer)
    finally:
        os.close(writer)
    assert "BrokenPipeError" in broken.stderr
    assert run("key_value", js_server).stdout == SAMPLES["key_value"]


def run(
    name: str, server: NatsServer, stdout: int = subprocess.PIPE
) -> subprocess.CompletedProcess[str]:
    """Runs a sample to its end, without a buffer of its output."""
    return subprocess.run(
        [sys.executable, "-u", ROOT / "samples" / f"{name}.py"],
        env={**os.environ, "NATS_URL": server.url, "PYTHONPATH": str(ROOT)},
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
    )
