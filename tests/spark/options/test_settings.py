"""Options of the data source: texts in, values out, wrong ones refused by name."""

from __future__ import annotations

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
            "settle": "0.5",
        }
    )
    assert made.paths == ("/a b.pcap", "s3a://x/y")
    assert (made.table, made.columns) == ("requests", ("subject", "reply"))
    hints = {4222: Kind.CLIENT, 7222: Kind.LEAFNODE}
    assert made.options == Options(hints, Payload.SHA256, False)
    assert (made.shares, made.state, made.settle_ns) == (4, "/state", 500_000_000)


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
            "nats-capture has no option tabel; options are table, columns",
        ),
        ({"path": "a", "table": "x"}, "option table: there is no 'x'; there are frames, sessions"),
        (
            {"path": "a", "columns": "op,x"},
            "option columns: there is no 'x'; there are session, num",
        ),
        ({"path": "a", "columns": "op, op"}, "option columns: column op is named twice"),
        ({"path": "a", "payload": "all"}, "option payload: there is no 'all'; there are none, sha"),
        ({"path": "a", "redact": "maybe"}, "option redact: there is no 'maybe'; there are true, f"),
        ({"path": "a", "port": "0=client"}, "option port: '0' is not a number from 1 to 65535"),
        ({"path": "a", "port": "4222"}, "option port: there is no ''; there are client, route"),
        ({"path": "a", "shares": "many"}, "option shares: 'many' is not a number from 1 to 10000"),
        ({"path": "a", "settle": "nan"}, "option settle: 'nan' is not a number from 0 to 1e.09"),
    ],
)
def test_what_is_wrong_is_named(options: dict[str, str], expected: str) -> None:
    with pytest.raises(SparkError, match=expected):
        settings_of(options)
