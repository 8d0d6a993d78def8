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
    assert read_options({}) == JobOptions(options=Options(), chunk_bytes=CHUNK_BYTES)


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
            "max_expanded": 1 << 33,
            "chunk_size": 1 << 20,
            "progress": None,
        }
    )
    options = found.options
    assert found.chunk_bytes == 1 << 20
    assert (options.payload, options.redact, options.separate) == (Payload.TEXT, False, True)
    assert options.hints == {4222: Kind.CLIENT} and options.max_expanded == 1 << 33
    assert options.kinds == {Kind.ROUTE, Kind.GATEWAY}
    assert options.from_time == TimeBound(1_500_000_000, elapsed=True)
    assert options.until_time == TimeBound(1795226503_000_000_000)


def test_a_key_log_may_be_any_path_and_a_port_a_text(tmp_path: Path) -> None:
    path = tmp_path / "keys.log"
    path.touch()
    for given in (path, str(path), [path]):
        assert read_options({"keylog": given}).options.key_logs == (str(path),)
    assert read_options({"port": {"4222": "client"}}).options.hints == {4222: Kind.CLIENT}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"payload": "hex"}, "there is no payload 'hex'"),
        ({"payload": []}, r"there is no payload \[\]"),
        ({"redact": None}, "redact=None is not True or False"),
        ({"separate": "false"}, "separate='false' is not True or False"),
        ({"keylog": 3}, "keylog=3 is not a path"),
        ({"keylog": [3]}, r"keylog=\[3\] is not a path"),
        ({"port": {"nats": "client"}}, "'nats' is not a port"),
        ({"port": {70000: "client"}}, "from 1 to 65535, not 70000"),
        ({"port": {4222: []}}, "not a mapping of ports to kinds"),
        ({"kind": [[]]}, "not a kind of connection"),
        ({"port": {4222: "server"}}, "not a mapping of ports to kinds"),
        ({"chunk_size": 10}, "chunk_size=10 is not a number of bytes from 4096 on"),
        ({"max_expanded": "8G"}, "max_expanded='8G' is not a number of bytes"),
        ({"kind": "router"}, "not a kind of connection"),
        ({"from_time": 5}, "from_time=5 is not text"),
        ({"until_time": "tomorrow"}, "tomorrow"),
        ({"chunksize": 10}, "read has no option 'chunksize'; there are chunk_size, from_time"),
        ({"sort": "ts_ns"}, r"read has no option 'sort'; a DataFrame has no order .*orderBy"),
    ],
)
def test_a_wrong_option_is_one_line(options: dict[str, object], says: str) -> None:
    with pytest.raises(SparkError, match=says) as caught:
        read_options(options)
    assert "\n" not in str(caught.value)
