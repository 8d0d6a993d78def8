"""The sample that copies a channel into a stream: whole, resumed after a stop anywhere, and verified."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from signal import SIGKILL

import pytest

from natsync import streaming
from natsync.jetstream import JetStream, StreamConfig

from tests.support.paths import ROOT
from tests.support.servers import NatsServer
from tests.support.streaming_servers import CLUSTER, StreamingServer

pytestmark = pytest.mark.server


class Copy:
    """Runs the sample from a channel of the streaming server to a stream of `js_server`."""

    def __init__(self, stan: StreamingServer, nats: NatsServer, stream: str) -> None:
        self.channel = f"{stream}.orders"
        self._stream = stream
        self._command = [sys.executable, str(ROOT / "samples" / "stan_to_jetstream.py")]
        self._command += [CLUSTER, self.channel, stream]
        self._environ = {**os.environ, "NATS_URL": nats.url, "STAN_URL": stan.url}
        self._environ["PYTHONPATH"] = str(ROOT)

    def start(self) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            self._command, env=self._environ, stdout=pipe, stderr=pipe, text=True
        )

    def run(self, status: int = 0) -> str:
        """The number of messages on both sides, as it prints it."""
        process = self.start()
        out, err = process.communicate(timeout=50)
        assert (err, process.returncode) == ("", status)
        pattern = rf"(\d+) messages in {self._stream}, (\d+) in {self.channel}: (\w+) (\w+)\n"
        found = re.fullmatch(pattern, out)
        assert found and (found[1] == found[2] and found[3] == found[4]) == (not status)
        return found[1]


@pytest.mark.parametrize(("argument", "status"), [("--help", 0), ("shop", 2)])
def test_it_says_how_to_use_it(argument: str, status: int) -> None:
    command = [sys.executable, str(ROOT / "samples" / "stan_to_jetstream.py"), argument]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environ, capture_output=True, text=True)
    said, silent = (done.stderr, done.stdout) if status else (done.stdout, done.stderr)
    assert (done.returncode, silent) == (status, "")
    assert "stan_to_jetstream.py CLUSTER CHANNEL STREAM" in said


def test_a_channel_is_copied_and_the_copy_goes_on(
    streaming_server: StreamingServer, js_server: NatsServer, js: JetStream, stream_name: str
) -> None:
    copy = Copy(streaming_server, js_server, stream_name)
    with streaming.connect(CLUSTER, "fills", servers=streaming_server.url) as sc:
        assert copy.run() == "0"
        for number in range(300):
            sc.publish_async(copy.channel, b"%d" % number)
        sc.publish(copy.channel, b"\0" * 1000)
        assert copy.run() == "301"
        sc.publish(copy.channel, b"more")
        assert copy.run() == "302"
    stream = js.stream(stream_name)
    stored = stream.get_msg(302)
    assert (stored.data, stored.headers["Stan-Sequence"]) == (b"more", "302")
    stream.delete_msg(5)
    assert copy.run(1) == "301"


def test_a_copy_that_was_killed_goes_on(
    streaming_server: StreamingServer, js_server: NatsServer, js: JetStream, stream_name: str
) -> None:
    """Wherever it was: nothing is copied twice or left out."""
    copy = Copy(streaming_server, js_server, stream_name)
    with streaming.connect(CLUSTER, "fills", servers=streaming_server.url) as sc:
        for number in range(2000):
            sc.publish_async(copy.channel, b"%d" % number)
        sc.publish(copy.channel, b"last")
    stream = js.create_stream(StreamConfig(stream_name, subjects=[copy.channel]))
    for stored in (1, 400):
        process = copy.start()
        while stream.info().state.messages < stored and process.poll() is None:
            pass
        process.kill()
        process.communicate()
        assert process.returncode in (-SIGKILL, 0)
    assert copy.run() == "2001"
