"""The sample that copies a channel into a stream: whole, resumed after a stop anywhere, and verified."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from natsync import streaming
from natsync.jetstream import JetStream

from tests.support.paths import ROOT
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server


def test_a_channel_is_copied_and_the_copy_goes_on(
    streaming_server: StreamingServer, js_server: NatsServer, js: JetStream, stream_name: str
) -> None:
    channel = f"{stream_name}.orders"

    def run(status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, ROOT / "samples" / "stan_to_jetstream.py"]
            + [CLUSTER, channel, stream_name],
            env={
                **os.environ,
                "NATS_URL": js_server.url,
                "STAN_URL": streaming_server.url,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
            timeout=50,
        )
        assert (done.stderr, done.returncode) == ("", status)
        found = re.fullmatch(
            rf"(\d+) messages in {stream_name}, (\d+) in {channel}: (\w+) (\w+)\n", done.stdout
        )
        assert found and (found[1] == found[2] and found[3] == found[4]) == (not status)
        return found[1]

    with streaming.connect(CLUSTER, "fills", servers=streaming_server.url) as sc:
        assert run() == "0"
        for number in range(300):
            sc.publish_async(channel, b"%d" % number)
        sc.publish(channel, b"\0" * 1000)
        assert run() == "301"
        sc.publish(channel, b"more")
        assert run() == "302"
    stream = js.stream(stream_name)
    stored = stream.get_msg(302)
    assert (stored.data, stored.headers["Stan-Sequence"]) == (b"more", "302")
    stream.delete_msg(5)
    assert run(1) == "301"
