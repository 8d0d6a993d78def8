"""`natsync stream backup` and `restore`; beside `nats stream backup` where there is the nats command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from natsync.cli import main
from natsync.jetstream import ConsumerConfig, JetStream, Stream, StreamConfig

from tests.support.nats_command import nats
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

Output = pytest.CaptureFixture[str]


class Command:
    """`natsync stream`, with the server and the output of a test."""

    def __init__(self, server: NatsServer, capsys: Output) -> None:
        self._server = server
        self._capsys = capsys

    def __call__(self, *words: object, status: int = 0) -> str:
        assert main(["-s", self._server.url, "stream", *map(str, words)]) == status
        out, err = self._capsys.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out


@pytest.fixture
def command(js_server: NatsServer, capsys: Output) -> Command:
    return Command(js_server, capsys)


@pytest.fixture
def stream(js: JetStream, stream_name: str) -> Stream:
    stream = js.create_stream(StreamConfig(stream_name))
    for number in range(10):
        js.publish(stream_name, b"%d" % number)
    stream.create_consumer(ConsumerConfig(durable_name="c"))
    return stream


def test_a_stream_goes_to_a_folder_and_comes_back(
    command: Command, stream: Stream, js: JetStream, tmp_path: Path
) -> None:
    name, folder = stream.name, tmp_path / "new" / "backup"
    assert command("backup", name, folder, "--check").startswith(f"{name}: 10 messages, ")
    assert "File exists" in command("backup", name, folder, status=2)
    assert "cannot restore" in command("restore", folder, status=1)
    js.delete_stream(name)
    printed = json.loads(command("restore", folder, "--json"))
    assert (printed["stream"], printed["messages"]) == (name, 10)
    assert js.stream(name).get_msg(7).data == b"6"
    assert list(js.stream(name).consumer_names()) == ["c"]
    js.delete_stream(name)
    assert "replicas > 1 not supported" in command("restore", folder, "--replicas", 3, status=1)


def test_a_backup_may_leave_out_consumers(
    command: Command, stream: Stream, js: JetStream, tmp_path: Path
) -> None:
    command("backup", stream.name, tmp_path / "a", "--no-consumers")
    js.delete_stream(stream.name)
    command("restore", tmp_path / "a")
    assert list(js.stream(stream.name).consumer_names()) == []


def test_what_is_no_backup(command: Command, stream: Stream, tmp_path: Path) -> None:
    assert "No such file" in command("restore", tmp_path, status=2)
    command("backup", stream.name, tmp_path / "a")
    info = tmp_path / "a" / "backup.json"
    whole = info.read_text()
    for text, reason in (("{", "not JSON"), ("[]", "object"), ("{}", "without config")):
        info.write_text(text)
        assert reason in command("restore", tmp_path / "a", status=2)
    info.write_text(whole)
    archive, older = tmp_path / "a" / "stream.arc.s2", tmp_path / "a" / "stream.tar.s2"
    older.write_bytes(archive.read_bytes())
    assert "both stream.arc.s2 and stream.tar.s2" in command("restore", older.parent, status=2)
    older.unlink()
    archive.unlink()
    assert "stream.arc.s2': No such file" in command("restore", tmp_path / "a", status=2)
    assert "stream not found" in command("backup", "missing", tmp_path / "b", status=1)
    assert not (tmp_path / "b").exists()


def test_the_nats_command_restores_ours(
    command: Command, js_server: NatsServer, stream: Stream, js: JetStream, tmp_path: Path
) -> None:
    command("backup", stream.name, tmp_path / "a")
    js.delete_stream(stream.name)
    nats(js_server, "stream", "restore", tmp_path / "a", "--no-progress")
    assert js.stream(stream.name).get_msg(10).data == b"9"
    assert list(js.stream(stream.name).consumer_names()) == ["c"]


def test_we_restore_what_the_nats_command_has_backed_up(
    command: Command, js_server: NatsServer, stream: Stream, js: JetStream, tmp_path: Path
) -> None:
    nats(js_server, "stream", "backup", stream.name, tmp_path / "a", "--no-progress", "--consumers")
    js.delete_stream(stream.name)
    command("restore", tmp_path / "a")
    assert js.stream(stream.name).get_msg(10).data == b"9"
    assert list(js.stream(stream.name).consumer_names()) == ["c"]


def test_a_backup_of_an_old_server_is_a_tar_file(
    old_js_server: NatsServer, old_js: JetStream, capsys: Output, stream_name: str, tmp_path: Path
) -> None:
    command = Command(old_js_server, capsys)
    old_js.create_stream(StreamConfig(stream_name))
    old_js.publish(stream_name, b"x")
    command("backup", stream_name, tmp_path / "a")
    assert {file.name for file in (tmp_path / "a").iterdir()} == {"backup.json", "stream.tar.s2"}
    old_js.delete_stream(stream_name)
    command("restore", tmp_path / "a")
    assert old_js.stream(stream_name).get_msg(1).data == b"x"
