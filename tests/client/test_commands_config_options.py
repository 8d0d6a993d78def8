"""Options for configurations: one for each field, and a file for the rest."""

from __future__ import annotations

import argparse
import io
import json
from datetime import datetime, timezone
from pathlib import Path

import pytest

from natsync import OptionError
from natsync.commands.config_options import (
    add_config_options,
    consumer_name,
    duration,
    read_config,
    stream_name,
    time,
)
from natsync.jetstream import ConsumerConfig, StreamConfig, StreamSource


def parsed(config: StreamConfig | ConsumerConfig, *arguments: str) -> object:
    parser = argparse.ArgumentParser()
    add_config_options(parser, type(config))
    return read_config(parser.parse_args(arguments), config)


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


@pytest.mark.parametrize(
    ("text", "value"), [("5", 5), ("90s", 90), ("1h30m", 5400), ("1.5ms", 0.0015), ("7d", 604800)]
)
def test_durations(text: str, value: float) -> None:
    assert duration(text) == pytest.approx(value)


def test_bad_values_are_refused() -> None:
    for read, text in (
        (duration, "soon"),
        (duration, "5 m"),
        (duration, "400000d"),
        (duration, "9" * 400),
        (time, "noon"),
        (time, "0001-01-01T00:00:00+10:00"),
        (stream_name, "a.b"),
        (consumer_name, "a b"),
    ):
        with pytest.raises(argparse.ArgumentTypeError):
            read(text)
    for line in ("--max-msgs many", "--metadata k", "--storage disk", "--backoff 1s,"):
        with pytest.raises(SystemExit):
            parsed(ConsumerConfig() if "backoff" in line else StreamConfig("s"), *line.split())
