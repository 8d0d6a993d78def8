"""`natsync consumer` against a real server."""

from __future__ import annotations

import json

import pytest

from natsync.cli import main
from natsync.jetstream import ConsumerConfig, ConsumerNotFoundError, JetStream, StreamConfig

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
    printed = json.loads(consumer(f"edit {stream_name} c --description mine --json"))
    assert (printed["config"]["description"], printed["config"]["ack_wait"]) == ("mine", 5 * 10**9)
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


def test_messages_are_printed_and_then_acknowledged(
    js: JetStream, js_server: NatsServer, stream_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    made = stream.create_consumer(ConsumerConfig(durable_name="c"))
    for data in (b"1", b"2", b"3", b"4"):
        js.publish(stream_name, data)

    def taken(options: str, status: int = 0) -> tuple[str, str]:
        line = f"consumer next {stream_name} c {options}"
        assert main(["-s", js_server.url, *line.split()]) == status
        out, err = capsys.readouterr()
        assert err.count("\n") == bool(status)
        return out, err

    assert taken("")[0] == f"[{stream_name}] 1\n"
    printed = json.loads(taken("--json")[0])
    assert (printed["stream"], printed["seq"], printed["data"]) == (stream_name, 2, "2")
    assert (printed["consumer"], printed["deliveries"], printed["pending"]) == ("c", 1, 2)
    assert made.info().ack_floor.stream_seq == 2
    assert taken("--raw --no-ack")[0] == "3\n"
    assert made.info().num_ack_pending == 1
    out, err = taken("--count 2 --timeout 1", 1)
    assert out == f"[{stream_name}] 4\n" and "within 1 s" in err
    assert "consumer not found" in _failed(js_server, f"consumer next {stream_name} d", capsys)


def test_a_consumer_without_acknowledgements_is_read_too(
    js: JetStream, js_server: NatsServer, stream_name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = js.create_stream(StreamConfig(stream_name))
    stream.create_consumer(ConsumerConfig(durable_name="c", ack_policy="none"))
    js.publish(stream_name, b"1")
    assert main(["-s", js_server.url, "consumer", "next", stream_name, "c", "--raw"]) == 0
    assert capsys.readouterr().out == "1\n"


def _failed(server: NatsServer, line: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["-s", server.url, *line.split()]) == 1
    out, err = capsys.readouterr()
    assert not out and err.count("\n") == 1
    return err
