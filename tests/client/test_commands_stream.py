"""`natsync stream` against a real server."""

from __future__ import annotations

import json

import pytest

from natsync.cli import main
from natsync.jetstream import JetStream, StreamNotFoundError

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

Output = pytest.CaptureFixture[str]


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
    with pytest.raises(SystemExit, match="2"):
        main(["stream", *line.split()])
    assert "must be at least" in capsys.readouterr().err


def test_leaders_and_copies(stream: Command, stream_name: str) -> None:
    """Without a cluster, the server says that there are none."""
    stream(f"add {stream_name}")
    for line in ("step-down {0}", "step-down {0} --preferred a", "remove-peer {0} a -f"):
        assert "clustering support required" in stream(line.format(stream_name), 1)
    assert "--force" in stream(f"remove-peer {stream_name} a", 2)


def test_a_bad_name_is_wrong_usage(capsys: Output) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["stream", "info", "a.b"])
    assert caught.value.code == 2
    assert "invalid stream name 'a.b'" in capsys.readouterr().err


def test_another_domain_is_asked(stream: Command) -> None:
    assert "not enabled" in stream("ls --domain moon", 1)
