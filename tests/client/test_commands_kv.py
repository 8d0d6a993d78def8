"""`natsync kv` against a real server."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from natsync.cli import main
from natsync.jetstream import JetStream

from tests.support.servers import NatsServer

pytestmark = pytest.mark.server

Run = Callable[..., str]


@pytest.fixture
def run(js_server: NatsServer, capsys: pytest.CaptureFixture[str]) -> Run:
    def call(line: str, status: int = 0) -> str:
        assert main(["-s", js_server.url, "kv", *line.split()]) == status
        out, err = capsys.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out

    return call


def test_a_bucket_lives_and_dies(run: Run, js: JetStream, stream_name: str) -> None:
    assert "history:          5" in run(f"add {stream_name} --history 5 --storage memory")
    assert json.loads(run(f"info {stream_name} --json"))["storage"] == "memory"
    edited = json.loads(run(f"edit {stream_name} --ttl 1h --json"))
    assert (edited["history"], edited["ttl"]) == (5, 3600)
    assert stream_name in run("ls --names").splitlines()
    assert stream_name in run("ls") and f'"bucket": "{stream_name}"' in run("ls --json")
    assert "--force" in run(f"rm {stream_name}", 2)
    assert json.loads(run(f"rm {stream_name} -f --json")) == {"deleted": stream_name}
    assert f"bucket {stream_name} not found" in run(f"info {stream_name}", 1)


def test_keys_are_written_read_and_removed(
    run: Run, js: JetStream, stream_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(f"add {stream_name} --history 5")
    assert run(f"put {stream_name} a 1") == ""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"\xff")))
    assert json.loads(run(f"put {stream_name} a - --json"))["revision"] == 2
    assert run(f"get {stream_name} a --revision 1") == "[a 1] 1\n"
    assert run(f"get {stream_name} a") == "[a 2] \\xff\n"
    printed = json.loads(run(f"get {stream_name} a --json"))
    assert (printed["value_base64"], printed["operation"], printed["size"]) == ("/w==", "PUT", 1)
    assert "key a exists" in run(f"create {stream_name} a 3", 1)
    assert "last revision of key a" in run(f"update {stream_name} a 3 1", 1)
    run(f"update {stream_name} a 3 2")
    run(f"create {stream_name} b 4")
    assert run(f"keys {stream_name}").split() == ["a", "b"]
    assert json.loads(run(f"keys {stream_name} b --json")) == {"key": "b"}
    assert run(f"ls {stream_name}").split() == ["a", "b"]  # as `nats kv ls`
    assert json.loads(run(f"ls {stream_name} --json").splitlines()[1]) == {"key": "b"}
    assert "not found" in run(f"ls {stream_name}-missing", 1)
    run(f"del {stream_name} a --revision 3")
    assert run(f"history {stream_name} a").splitlines() == [
        "[a 1] 1",
        "[a 2] \\xff",
        "[a 3] 3",
        "[a 5 DEL]",
    ]
    assert "DEL at revision 5" in run(f"get {stream_name} a", 1)
    assert json.loads(run(f"purge {stream_name} a --json"))["deleted"] == "a"
    assert run(f"compact {stream_name} --older-than 0") == "1 deleted keys compacted\n"
    assert json.loads(run(f"compact {stream_name} --json"))["keys"] == 0
    assert "has an empty token" in run(f"get {stream_name} a..b", 2)
    js.delete_key_value(stream_name)


def test_watch(run: Run, js: JetStream, stream_name: str) -> None:
    kv = js.create_key_value(stream_name)
    kv.put("a", b"1")
    kv.put("b", b"2")
    kv.delete("b")
    assert run(f"watch {stream_name} --timeout 0.2").splitlines() == ["[a 1] 1", "[b 3 DEL]"]
    assert run(f"watch {stream_name} --ignore-deletes --count 1") == "[a 1] 1\n"
    printed = json.loads(run(f"watch {stream_name} a --meta-only --count 1 --json"))
    assert (printed["value"], printed["size"]) == ("", 1)
    assert run(f"watch {stream_name} --from-revision 3 --count 1") == "[b 3 DEL]\n"
    assert run(f"watch {stream_name} --updates-only --timeout 0.1") == ""
    assert "--meta-only" in run(f"watch {stream_name} --meta-only --raw", 2)
    js.delete_key_value(stream_name)
