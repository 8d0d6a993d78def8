"""JetStream objects as text and JSON."""

from __future__ import annotations

import json
from datetime import datetime, timezone

import pytest

from natsync.commands.jetstream_output import (
    print_fields,
    print_info,
    print_object,
    show_stored,
)
from natsync.jetstream import StoredMsg, StreamConfig, StreamInfo, StreamSource, StreamState
from natsync.message import Headers

NOON = datetime(2026, 1, 2, 12, tzinfo=timezone.utc)
INFO = StreamInfo(
    StreamConfig(
        "a", subjects=["x", "y"], max_age=90, sources=[StreamSource("o")], metadata={"k": "v"}
    ),
    created=NOON,
    state=StreamState(messages=3),
)


def test_text_has_a_line_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    print_object(INFO, zeros=True)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[:2] == ["config:", "name: a"]
    for line in ("subjects: x, y", "max_age: 90 s", "metadata: k=v", "messages: 3", "bytes: 0"):
        assert line in lines
    assert "created: 2026-01-02T12:00:00Z" in lines
    assert "max_bytes: -1" not in lines and "first_seq: 0" in lines
    assert lines[lines.index("sources:") + 1] == "name: o"


def test_json_is_complete(capsys: pytest.CaptureFixture[str]) -> None:
    print_info(INFO)
    print_fields(purged=3)
    info, fields = map(json.loads, capsys.readouterr().out.splitlines())
    assert (info["config"]["max_age"], info["config"]["max_bytes"]) == (90_000_000_000, -1)
    assert (info["state"]["bytes"], info["created"]) == (0, "2026-01-02T12:00:00Z")
    assert fields == {"purged": 3}


def test_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    msg = StoredMsg("a.b", 7, b"x", Headers({"k": "v"}), NOON, "s")
    show_stored(msg, "json")
    assert json.loads(capsys.readouterr().out) == {
        "stream": "s",
        "seq": 7,
        "time": "2026-01-02T12:00:00Z",
        "subject": "a.b",
        "headers": {"k": ["v"]},
        "data": "x",
    }
    show_stored(msg, "text")
    assert capsys.readouterr().out == "[a.b] x\n"
