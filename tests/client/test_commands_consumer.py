"""`natsync consumer` against a real server."""

from __future__ import annotations

import json

import pytest

from natsync.cli import main
from natsync.jetstream import ConsumerNotFoundError, JetStream, StreamConfig

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


def test_a_consumer_lives_and_dies(
    js: JetStream, js_server: NatsServer, stream_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = js.create_stream(StreamConfig(stream_name, subjects=[f"{stream_name}.>"]))

    def consumer(line: str, status: int = 0) -> str:
        assert main(["-s", js_server.url, "consumer", *line.split()]) == status
        out, err = capsys.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out

    filters = f"{stream_name}.a,{stream_name}.b"
    consumer(f"add {stream_name} c --filter-subjects {filters} --ack-wait 5s")
    assert stream.consumer("c").cached_info.config.ack_wait == 5
    assert consumer(f"ls {stream_name} --names") == "c\n"
    assert filters.replace(",", ", ") in consumer(f"ls {stream_name}")
    said = json.loads(consumer(f"edit {stream_name} c --description mine --json"))
    assert (said["config"]["description"], said["config"]["ack_wait"]) == ("mine", 5 * 10**9)
    assert "description:" in consumer(f"info {stream_name} c")
    assert "paused:" in consumer(f"pause {stream_name} c 1h")
    assert stream.consumer("c").cached_info.paused
    assert json.loads(consumer(f"resume {stream_name} c --json"))["paused"] is False
    assert json.loads(consumer(f"pause {stream_name} c 2099-01-01T00:00:00Z --json"))["paused"]
    consumer(f"copy {stream_name} c d --ack-wait 6s")
    assert stream.consumer("d").cached_info.config.description == "mine"
    assert json.loads(consumer(f"ls {stream_name} --json").splitlines()[0])["stream_name"]
    assert "clustering support required" in consumer(f"step-down {stream_name} c", 1)
    assert "--force" in consumer(f"rm {stream_name} c", 2)
    deleted = json.loads(consumer(f"rm {stream_name} c -f --json"))
    assert deleted == {"stream": stream_name, "deleted": "c"}
    with pytest.raises(ConsumerNotFoundError):
        stream.consumer("c")
    assert "consumer not found" in consumer(f"info {stream_name} c", 1)
    assert "stream not found" in consumer("info missing c", 1)
