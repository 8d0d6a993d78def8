"""`natsync stream` against a real server."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from unittest.mock import Mock

import pytest

from natsync.cli import main
from natsync.commands.command import Run
from natsync.commands.stream import show_object
from natsync.jetstream import (
    JetStream,
    StreamConfig,
    StreamInfo,
    StreamNotFoundError,
    StreamSource,
    StreamState,
)

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

Output = pytest.CaptureFixture[str]


NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
INFO = StreamInfo(
    StreamConfig(
        "a", subjects=["x", "y"], max_age=90, sources=[StreamSource("o")], metadata={"k": "v"}
    ),
    created=NOON,
    state=StreamState(messages=3),
)


class Command:
    """`natsync stream`, with the server and the output of a test."""

    def __init__(self, server: NatsServer, capsys: Output) -> None:
        self._server = server
        self._capsys = capsys

    def __call__(self, line: str, status: int = 0) -> str:
        assert main(["-s", self._server.url, "stream", *line.split()]) == status
        out, err = self._capsys.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out

    def json(self, line: str) -> dict[str, object]:
        printed = json.loads(self(f"{line} --json"))
        assert isinstance(printed, dict)
        return printed


@pytest.fixture
def stream(js_server: NatsServer, capsys: Output) -> Command:
    return Command(js_server, capsys)


def test_a_stream_lives_and_dies(stream: Command, stream_name: str, js: JetStream) -> None:
    subjects = f"{stream_name}.a,{stream_name}.b"
    assert "max_msgs:" in stream(f"add {stream_name} --subjects {subjects} --max-msgs 9")
    edited = stream.json(f"edit {stream_name} --max-age 1h --allow-direct")["config"]
    assert isinstance(edited, dict)
    assert (edited["max_msgs"], edited["max_age"]) == (9, 3600 * 10**9)
    assert stream(f"ls --subject {stream_name}.a --names") == f"{stream_name}\n"
    state = stream(f"info {stream_name}").partition("\nstate:\n")[2].split()
    assert state[:4] == ["messages:", "0", "bytes:", "0"]
    assert stream_name in stream("ls") and stream.json(f"ls --subject {stream_name}.a")["config"]
    stream(f"copy {stream_name} {stream_name}-2 --subjects {stream_name}.c")
    assert js.stream(f"{stream_name}-2").cached_info.config.max_age == 3600
    assert stream.json(f"rm {stream_name}-2 -f") == {"deleted": f"{stream_name}-2"}
    assert "--force" in stream(f"rm {stream_name}", 2)
    assert stream(f"rm {stream_name} --force") == ""
    with pytest.raises(StreamNotFoundError):
        js.stream(stream_name)
    assert "stream not found" in stream(f"info {stream_name}", 1)


def test_messages_are_read_counted_and_purged(
    stream: Command, stream_name: str, js: JetStream
) -> None:
    stream(f"add {stream_name} --subjects {stream_name}.> --allow-direct")
    for number in range(4):
        js.publish(f"{stream_name}.{number % 2}", b"%d" % number)
    assert stream(f"get {stream_name} 2") == f"[{stream_name}.1] 1\n"
    assert stream(f"get {stream_name} --last {stream_name}.0 --raw --direct") == "2\n"
    assert stream.json(f"get {stream_name} 2")["seq"] == 2
    assert "name a sequence or --last" in stream(f"get {stream_name}", 2)
    assert "no message found" in stream(f"get {stream_name} 99", 1)
    state = stream.json(f"info {stream_name} --count {stream_name}.*")["state"]
    assert isinstance(state, dict)
    assert state["subjects"] == {f"{stream_name}.0": 2, f"{stream_name}.1": 2}
    assert "--force" in stream(f"purge {stream_name}", 2)
    assert stream(f"purge {stream_name} -f --subject {stream_name}.0") == "2 messages purged\n"
    assert stream.json(f"purge {stream_name} -f --keep 1")["purged"] == 1


def test_a_message_is_deleted(stream: Command, stream_name: str, js: JetStream) -> None:
    stream(f"add {stream_name} --subjects {stream_name}")
    for data in (b"1", b"2", b"3"):
        js.publish(stream_name, data)
    assert "--force" in stream(f"rm-msg {stream_name} 2", 2)
    assert stream(f"rm-msg {stream_name} 2 -f") == ""
    assert stream.json(f"rm-msg {stream_name} 3 -f --erase") == {
        "stream": stream_name,
        "deleted": 3,
    }
    assert "no message found" in stream(f"get {stream_name} 2", 1)
    assert "err_code 10057" in stream(f"rm-msg {stream_name} 9 -f", 1)
    assert stream(f"get {stream_name} 1 --raw") == "1\n"


def test_a_sequence_may_be_large(stream: Command, stream_name: str, js: JetStream) -> None:
    stream(f"add {stream_name} --first-seq 9000000000")
    for data in (b"1", b"2", b"3"):
        js.publish(stream_name, data)
    assert stream(f"rm-msg {stream_name} 9000000001 -f") == ""
    assert stream(f"get {stream_name} 9000000002 --raw") == "3\n"
    assert stream.json(f"purge {stream_name} -f --seq 9000000002")["purged"] == 1


@pytest.mark.parametrize(
    "line", ["get a 0", "rm-msg a 0", "purge a --seq 0 -f", "purge a --keep=-1"]
)
def test_a_wrong_sequence_is_wrong_usage(line: str, capsys: Output) -> None:
    """The server would take `--seq 0` for no limit, and delete everything."""
    assert main(["stream", *line.split()]) == 2
    assert "must be at least" in capsys.readouterr().err


def test_leaders_and_copies(stream: Command, stream_name: str) -> None:
    """Without a cluster, the server says that there are none."""
    stream(f"add {stream_name}")
    for line in ("step-down {0}", "step-down {0} --preferred a", "remove-peer {0} a -f"):
        assert "clustering support required" in stream(line.format(stream_name), 1)
    assert "--force" in stream(f"remove-peer {stream_name} a", 2)


def test_a_bad_name_is_wrong_usage(capsys: Output) -> None:
    assert main(["stream", "info", "a.b"]) == 2
    assert "invalid stream name 'a.b'" in capsys.readouterr().err


def test_another_domain_is_asked(stream: Command) -> None:
    assert "not enabled" in stream("ls --domain moon", 1)


def shown(json: bool, capsys: Output, info: StreamInfo = INFO) -> list[str]:
    run = Run(Mock(), Mock(), listens=False, timeout=1.0, json=json)
    show_object(run, info)
    return capsys.readouterr().out.splitlines()


def test_text_has_a_line_a_field(capsys: Output) -> None:
    lines = [" ".join(line.split()) for line in shown(False, capsys)]
    assert lines[:2] == ["config:", "name: a"]
    for line in ("subjects: x, y", "max_age: 90 s", "metadata: k=v", "messages: 3", "bytes: 0"):
        assert line in lines
    assert "created: 2026-01-02T12:00:00Z" in lines
    assert "max_bytes: -1" not in lines and "first_seq: 0" in lines
    assert lines[lines.index("sources:") + 1] == "name: o"


def test_a_mirror_that_was_never_active(capsys: Output) -> None:
    mirror = {"name": "a", "lag": 0, "active": -1}
    info = StreamInfo.from_json({"config": {"name": "m"}, "created": "", "mirror": mirror})
    lines = [" ".join(line.split()) for line in shown(False, capsys, info)]
    assert lines[lines.index("mirror:") + 1 :] == ["name: a", "lag: 0"]


def test_json_is_complete(capsys: Output) -> None:
    (line,) = shown(True, capsys)
    info = json.loads(line)
    assert (info["config"]["max_age"], info["config"]["max_bytes"]) == (90_000_000_000, -1)
    assert (info["state"]["bytes"], info["created"]) == (0, "2026-01-02T12:00:00Z")


def test_a_stored_message_has_its_place(stream: Command, stream_name: str, js: JetStream) -> None:
    stream(f"add {stream_name}")
    js.publish(stream_name, b"x", headers={"k": "v"})
    printed = stream.json(f"get {stream_name} 1")
    assert str(printed.pop("time")).endswith("Z")
    assert printed == {
        "stream": stream_name,
        "seq": 1,
        "subject": stream_name,
        "headers": {"k": ["v"]},
        "data": "x",
    }
