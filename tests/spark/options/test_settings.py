"""Options of the data source: texts in, values out, wrong ones refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dissect.nats import Options, Payload
from dissect.nats.errors import SparkError
from dissect.nats.spark.options.settings import absolute, settings_of
from natsync.protocol import Kind


def test_by_default_all_is_as_the_command_line_has_it() -> None:
    made = settings_of({"path": "/a.pcap"})
    assert (made.paths, made.table, made.columns) == (("/a.pcap",), "frames", None)
    assert (made.options, made.shares, made.state) == (Options(), None, None)
    assert made.settle_ns == 60 * 10**9


def test_options_are_read() -> None:
    made = settings_of(
        {
            "paths": '["file:///a b.pcap", "s3a://x/y"]',
            "table": "requests",
            "columns": "subject, reply",
            "payload": "sha256",
            "port": "4222=client, 7222=leafnode",
            "redact": "False",
            "shares": "4",
            "state": "/state",
            "settle": "500ms",
            "kind": "route,gateway",
            "from_time": "1.5",
            "separate": "true",
            "max_expanded": "8G",
            "Max_Flows": "5",
        }
    )
    assert made.paths == ("/a b.pcap", "s3a://x/y")
    assert (made.table, made.columns) == ("requests", ("subject", "reply"))
    hints = {4222: Kind.CLIENT, 7222: Kind.LEAFNODE}
    assert made.options == Options(
        hints,
        Payload.SHA256,
        False,
        kind=["route", "gateway"],
        from_time="1.5",
        separate=True,
        max_expanded=8 << 30,
        max_flows=5,
    )
    assert (made.shares, made.state, made.settle_ns) == (4, "/state", 500_000_000)


def test_several_values_may_be_a_list_in_json(tmp_path: Path) -> None:
    logs = [tmp_path / "a,b.log", tmp_path / "c.log"]
    for path in logs:
        path.touch()
    names = list(map(str, logs))
    for text, expected in ((json.dumps(names), names), (names[0], names[:1])):
        assert settings_of({"path": "a", "keylog": text}).options.keylog == tuple(expected)
    columns = settings_of({"path": "a", "columns": '["op", "subject"]'}).columns
    assert columns == ("op", "subject")


def test_paths_are_as_workers_need_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert absolute("a/*.pcap") == f"{tmp_path}/a/*.pcap"
    assert [absolute(path) for path in ("/a", "s3a://b/c", "-")] == ["/a", "s3a://b/c", "-"]
    assert absolute("file:///a b") == "/a b" == absolute("file:/a b")
    assert absolute("file://host/a") == "file://host/a"
    assert absolute("") == ""  # which names nothing, and not the working directory


@pytest.mark.parametrize(
    "options, expected",
    [
        ({}, "nats-capture has nothing to read"),
        (
            {"path": "a", "tabel": "x"},
            "^nats-capture has no option 'tabel'; there are columns, from_time, gap_seconds, idle",
        ),
        (
            {"path": "a", "sort": "x"},
            "^nats-capture has no option 'sort'; a DataFrame has no order",
        ),
        ({"path": "a", "chunk_size": "1"}, "'chunk_size'; tasks read all packets: choose their n"),
        ({"path": "a", "table": "x"}, "^option table must be frames, sessions, .*, not 'x'$"),
        (
            {"path": "a", "columns": "op,x"},
            "^option columns: frames has no column 'x'; there are s",
        ),
        ({"path": "a", "columns": "op, op"}, "^option columns: column op is named twice$"),
        ({"path": "a", "payload": "all"}, "^option payload must be none, sha256, text or base64"),
        ({"path": "a", "redact": "maybe"}, "^option redact must be True or False, not 'maybe'$"),
        ({"path": "a", "port": "4222"}, "^option port must be port=kind, such as 4222=client"),
        ({"path": "a", "shares": "many"}, "^option shares must be a whole number, 1 to 10000, not"),
        ({"path": "a", "settle": "nan"}, "^option settle must be a number of seconds or a durati"),
        ({"path": "a", "from_time": "2", "until_time": "1"}, "^option from_time is not before unt"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], expected: str) -> None:
    with pytest.raises(SparkError, match=expected):
        settings_of(options)
