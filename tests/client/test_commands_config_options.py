"""Options for configurations: one for each field, and a file for the rest."""

from __future__ import annotations

import io
import json
from datetime import datetime, timezone
from pathlib import Path

import click
import pytest

from natsync import OptionError
from natsync.commands.config_options import config_options, read_bucket, read_config
from natsync.jetstream import ConsumerConfig, StreamConfig, StreamSource
from natsync.kv import KeyValueConfig
from natsync.object_store import ObjectStoreConfig


def parsed(config: StreamConfig | ConsumerConfig, *arguments: str) -> object:
    return read_config(given(type(config), *arguments), config)


def given(cls: type, *arguments: str) -> dict[str, object]:
    """What click makes of the words."""
    function = config_options(cls)(lambda **options: options)
    command = click.command()(function)
    found: dict[str, object] = command.main(arguments, standalone_mode=False)
    return found


def test_options_become_fields() -> None:
    line = "--subjects a,b.> --max-age 1h30m --storage memory --allow-direct --no-deny-purge"
    line += " --max-msgs 7 --metadata k=v,l=w=x --description"
    assert parsed(StreamConfig("s", deny_purge=True), *line.split(), "two words") == StreamConfig(
        "s",
        subjects=["a", "b.>"],
        max_age=5400,
        storage="memory",
        allow_direct=True,
        max_msgs=7,
        metadata={"k": "v", "l": "w=x"},
        description="two words",
    )
    line = "--backoff 1s,2m --opt-start-time 2026-01-01T00:00:00Z --ack-policy none"
    assert parsed(ConsumerConfig(durable_name="c"), *line.split()) == ConsumerConfig(
        durable_name="c",
        backoff=[1, 120],
        opt_start_time=datetime(2026, 1, 1, tzinfo=timezone.utc),
        ack_policy="none",
    )


def test_a_file_holds_what_options_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "stream.json"
    config = {"name": "other", "mirror": {"name": "origin"}, "max_msgs": 5}
    wanted = StreamConfig("s", mirror=StreamSource("origin"), max_msgs=9)
    for text in (config, {"config": config, "state": {}}):  # as `info --json` prints it, too
        path.write_text(json.dumps(text))
        assert parsed(StreamConfig("s"), "--config", str(path), "--max-msgs", "9") == wanted
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(config)))
    assert parsed(StreamConfig("s"), "--config", "-", "--max-msgs", "9") == wanted


def test_a_file_with_what_no_server_takes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stream.json"
    path.write_text('{"retention": "wrong"}')
    with pytest.raises(OptionError, match="stream.json': retention must be limits, interest or"):
        parsed(StreamConfig("s"), "--config", str(path))


@pytest.mark.parametrize("text", ["", "[]", "{", '{"config": 7}', '{"mirror": {}}'])
def test_a_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "stream.json"
    path.write_text(text)
    with pytest.raises(OptionError, match=r"option config: file '.*stream\.json'"):
        parsed(StreamConfig("s"), "--config", str(path))
    with pytest.raises(OptionError, match="No such file"):
        parsed(StreamConfig("s"), "--config", str(tmp_path / "missing"))


def test_every_field_of_a_bucket_that_fits_is_an_option() -> None:
    line = (
        "--description d --history 5 --ttl 1h --limit-marker-ttl 5s --max-bytes 100 --storage memory "
        "--max-value-size 10 --replicas 3 --compression --metadata a=b --metadata c=d=e --sources x,y"
    )
    options = given(KeyValueConfig, *line.split())
    assert read_bucket(options, KeyValueConfig("b")) == KeyValueConfig(
        "b",
        description="d",
        history=5,
        ttl=3600,
        limit_marker_ttl=5,
        max_bytes=100,
        max_value_size=10,
        storage="memory",
        replicas=3,
        compression=True,
        metadata={"a": "b", "c": "d=e"},
        sources=[StreamSource("x"), StreamSource("y")],
    )
    options = given(KeyValueConfig, "--mirror", "m", "--no-compression")
    changed = read_bucket(options, KeyValueConfig("b", compression=True))
    assert changed.mirror == StreamSource("m") and not changed.compression
    options = given(ObjectStoreConfig, "--ttl", "60")
    assert read_bucket(options, ObjectStoreConfig("s")).ttl == 60


def test_what_makes_no_sense_is_wrong_usage() -> None:
    with pytest.raises(OptionError, match="history"):
        read_bucket(given(KeyValueConfig, "--history", "100"), KeyValueConfig("b"))
    for line in ("--metadata x", "--ttl soon", "--storage paper"):
        with pytest.raises(click.BadParameter) as caught:
            given(KeyValueConfig, *line.split())
        assert "metadata" not in line or "must be NAME=VALUE: x" in str(caught.value)
    for line in ("--max-msgs many", "--metadata k", "--storage disk"):
        with pytest.raises(click.BadParameter):
            given(StreamConfig, *line.split())
    with pytest.raises(click.BadParameter):
        given(ConsumerConfig, "--backoff", "1s,")


def test_a_list_may_be_emptied() -> None:
    config = StreamConfig("s", subjects=["a"])
    assert parsed(config, "--subjects", "") == StreamConfig("s", subjects=[])
