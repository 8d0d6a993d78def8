"""`natsync sub --stream` against a real server."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone

import pytest
from click import BadParameter

from natsync.cli import main
from natsync.commands.pubsub import start
from natsync.jetstream import JetStream

from tests.jetstream.streams import filled
from tests.support.servers import NatsServer

pytestmark = pytest.mark.server


class Sub:
    """The command, with the server, the stream and the output of a test."""

    def __init__(self, server: NatsServer, stream: str, output: pytest.CaptureFixture[str]) -> None:
        self._server = server
        self._stream = stream
        self._output = output

    def __call__(self, options: str, filtered: str = ".*", status: int = 0) -> str:
        line = ["sub", self._stream + filtered, "--stream", self._stream, *options.split()]
        assert main(["-s", self._server.url, *line]) == status
        out, err = self._output.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out


@pytest.fixture
def sub(
    js: JetStream,
    js_server: NatsServer,
    stream_name: str,
    capsys: pytest.CaptureFixture[str],
) -> Sub:
    filled(js, stream_name, 9)
    return Sub(js_server, stream_name, capsys)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ("--count 9", "012345678"),
        ("--timeout 0.3", "012345678"),
        ("--count 2 --start 8", "78"),
        ("--count 1 --start last", "8"),
        ("--count 3 --start last-per-subject", "678"),
        ("--count 9 --start 2020-01-01", "012345678"),
        ("--timeout 0.1 --start new", ""),
    ],
)
def test_where_it_begins(sub: Sub, options: str, found: str) -> None:
    assert sub(f"{options} --raw").split() == [*found]


def test_one_subject(sub: Sub, stream_name: str) -> None:
    assert sub("--count 3", ".1") == "".join(f"[{stream_name}.1] {each}\n" for each in "147")


def test_json(sub: Sub, stream_name: str) -> None:
    row = json.loads(sub("--count 1 --start 4 --json"))
    assert (row["stream"], row["seq"], row["data"]) == (stream_name, 4, "3")
    age = datetime.now(timezone.utc) - datetime.fromisoformat(row["time"])
    assert abs(age) < timedelta(minutes=5)


def test_fewer_than_wanted(sub: Sub) -> None:
    assert "no message" in sub("--count 10 --timeout 0.2", status=1)


def test_what_cannot_be(sub: Sub, stream_name: str) -> None:
    assert "--queue" in sub("--queue q", status=2)
    assert "stream not found" in sub("--stream nowhere", status=1)
    assert "--stream: invalid stream name 'a.b'" in sub("--stream a.b", status=2)
    assert "--stream: invalid stream name ''" in sub("--stream=", status=2)
    assert f"invalid subject '{stream_name}. b'" in sub("", ". b", status=2)


def test_where_to_begin_is_checked() -> None:
    assert start("last-per-subject") == "last-per-subject"
    assert start("17") == 17
    noon = start("2026-11-22T12:00:00Z")
    assert noon == datetime(2026, 11, 22, 12, tzinfo=timezone.utc)
    for wrong in ("0", "-1", "yesterday", "9" * 20, "9" * 30, ""):
        with pytest.raises(BadParameter, match="last-per-subject"):
            start(wrong)
