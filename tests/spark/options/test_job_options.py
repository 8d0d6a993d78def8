"""The options of `read` and `plan`: what they mean, and one line for what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissect.nats.capture.time_range import TimeBound
from dissect.nats.errors import SparkError
from dissect.nats.options import Options, Payload
from dissect.nats.spark.options.job_options import CHUNK_BYTES, JobOptions, read_options
from natsync.protocol import Kind


def test_without_options_there_are_the_defaults() -> None:
    assert (
        read_options({"chunk_size": None})
        == read_options({})
        == JobOptions(options=Options(), chunk_size=CHUNK_BYTES)
    )


def test_options_have_the_meaning_of_the_command_line() -> None:
    found = read_options(
        {
            "payload": "text",
            "redact": False,
            "port": {4222: "client"},
            "kind": ["route", "gateway"],
            "from_time": "1.5",
            "until_time": "2026-11-21T02:01:43Z",
            "separate": True,
            "max_expanded": "8G",
            "max_flows": 5,
            "idle_seconds": "5m",
            "chunk_size": "1M",
            "progress": None,
        }
    )
    options = found.options
    assert found.chunk_size == 1 << 20
    assert (options.payload, options.redact, options.separate) == (Payload.TEXT, False, True)
    assert options.port == {4222: Kind.CLIENT} and options.max_expanded == 1 << 33
    assert (options.max_flows, options.idle_seconds) == (5, 300)
    assert options.kind == {Kind.ROUTE, Kind.GATEWAY}
    assert options.from_time == TimeBound(1_500_000_000, elapsed=True)
    assert options.until_time == TimeBound(1795226503_000_000_000)


def test_a_key_log_may_be_any_path_and_a_port_a_text(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.touch()
    for given in (path, str(path), [path]):
        assert read_options({"keylog": given}).options.keylog == (str(path),)
    assert read_options({"port": {"4222": "client"}}).options.port == {4222: Kind.CLIENT}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"payload": "hex"}, "^payload must be none, sha256, text or base64, not 'hex'$"),
        ({"redact": None}, "^redact must be True or False, not None$"),
        ({"port": {"nats": "client"}}, "^port must be port=kind, such as 4222=client; kinds are"),
        ({"chunk_size": 10}, "^chunk_size must be a size such as 64M, 4096 bytes or more, not 10$"),
        ({"progress": "maybe"}, "^progress must be True or False, not 'maybe'$"),
        ({"until_time": "1", "from_time": "2"}, "^from_time is not before until_time: no packet"),
        ({"chunksize": 10}, "read has no option 'chunksize'; there are chunk_size, from_time"),
        ({"sort": "ts_ns"}, r"read has no option 'sort'; a DataFrame has no order .*orderBy"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, object], says: str) -> None:
    with pytest.raises(SparkError, match=says) as caught:
        read_options(options)
    assert "\n" not in str(caught.value)
