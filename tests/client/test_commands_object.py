"""`natsync object` against a real server."""

from __future__ import annotations

import io
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
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
        assert main(["-s", js_server.url, "object", *line.split()]) == status
        out, err = capsys.readouterr()
        assert err.count("\n") == bool(status)
        return err if status else out

    return call


def test_files_that_cannot_be_opened(
    run: Run, js: JetStream, stream_name: str, tmp_path: Path
) -> None:
    store = js.create_object_store(stream_name)
    store.put("o", b"1")
    missing = tmp_path / "no" / "f"
    words = f"natsync: file '{missing}': No such file or directory\n"
    assert run(f"put {stream_name} {missing}", 1) == words
    assert run(f"get {stream_name} o -o {missing}", 1) == words


def test_a_store_lives_and_dies(run: Run, js: JetStream, stream_name: str) -> None:
    assert "storage:     memory" in run(f"add {stream_name} --storage memory --max-bytes 10000000")
    edited = json.loads(run(f"edit {stream_name} --ttl 1h --json"))
    assert (edited["ttl"], edited["max_bytes"], edited["sealed"]) == (3600, 10_000_000, False)
    assert stream_name in run("ls --names").splitlines()
    assert stream_name in run("ls") and f'"store": "{stream_name}"' in run("ls --json")
    assert "--force" in run(f"seal {stream_name}", 2)
    assert json.loads(run(f"seal {stream_name} -f --json"))["sealed"]
    assert "--force" in run(f"rm {stream_name}", 2)
    assert json.loads(run(f"rm {stream_name} -f --json")) == {"deleted": stream_name}
    assert f"object store {stream_name} not found" in run(f"info {stream_name}", 1)


def test_objects_are_put_got_linked_to_and_deleted(
    run: Run,
    js: JetStream,
    stream_name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    data = os.urandom(300_000)
    (tmp_path / "in.bin").write_bytes(data)
    run(f"add {stream_name}")
    printed = json.loads(run(f"put {stream_name} in.bin -H A:1 --chunk-size 100000 --json"))
    assert (printed["name"], printed["size"], printed["chunks"]) == ("in.bin", 300_000, 3)
    assert printed["headers"] == {"A": ["1"]} and printed["mtime"]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"from a pipe")))
    assert "name: is needed" in run(f"put {stream_name} -", 2)
    run(f"put {stream_name} - --name pipe --description text")
    assert run(f"get {stream_name} pipe --output -") == "from a pipe"
    assert run(f"get {stream_name} in.bin -o out.bin") == "300000 bytes to out.bin\n"
    assert (tmp_path / "out.bin").read_bytes() == data
    assert json.loads(run(f"get {stream_name} pipe --json"))["size"] == 11
    assert (tmp_path / "pipe").read_bytes() == b"from a pipe"
    assert "excludes --output" in run(f"get {stream_name} pipe --json -o -", 2)
    assert "description: text" in run(f"info {stream_name} pipe")
    text = run(f"info {stream_name} in.bin")
    assert "options:\n  max_chunk_size: 100000\n" in text
    assert "headers:\n  A:" in text and not set("{}[]'") & set(text)
    run(f"link {stream_name} same pipe")
    assert run(f"get {stream_name} same -o -") == "from a pipe"
    run(f"link {stream_name} all --to {stream_name}")
    assert "is a link to the store" in run(f"get {stream_name} all", 1)
    assert "name a target" in run(f"link {stream_name} other", 2)
    assert run(f"ls {stream_name} --names").split() == ["in.bin", "pipe", "same", "all"]
    assert "300000" in run(f"ls {stream_name}")
    assert json.loads(run(f"del {stream_name} in.bin --json"))["deleted"] == "in.bin"
    run(f"del {stream_name} same")
    assert "object 'in.bin'" in run(f"get {stream_name} in.bin", 1)
    assert run(f"watch {stream_name} --timeout 0.2").splitlines() == [
        "[pipe] 11 bytes",
        "[all] 0 bytes",
        "[in.bin] deleted",
        "[same] deleted",
    ]
    printed = json.loads(run(f"watch {stream_name} --ignore-deletes --count 1 --json"))
    assert printed["name"] == "pipe"
    js.delete_object_store(stream_name)
