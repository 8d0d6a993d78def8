"""Options of buckets and stores, made from the fields of their configuration."""

from __future__ import annotations

import argparse

import pytest

from natsync import OptionError
from natsync.commands.bucket_options import add_bucket_options, checked, read_bucket_options
from natsync.jetstream import StreamSource
from natsync.kv import KeyValueConfig
from natsync.kv.naming import check_key
from natsync.object_store import ObjectStoreConfig


def parse(line: str, cls: type[KeyValueConfig] | type[ObjectStoreConfig]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_bucket_options(parser, cls)
    return parser.parse_args(line.split())


def test_every_field_that_fits_is_an_option() -> None:
    line = (
        "--description d --history 5 --ttl 1h --limit-marker-ttl 5s --max-bytes 100 --storage memory "
        "--max-value-size 10 --replicas 3 --compression --metadata a=b --metadata c=d=e --sources x,y"
    )
    args = parse(line, KeyValueConfig)
    assert read_bucket_options(args, KeyValueConfig("b")) == KeyValueConfig(
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
    args = parse("--mirror m --no-compression", KeyValueConfig)
    changed = read_bucket_options(args, KeyValueConfig("b", compression=True))
    assert changed.mirror == StreamSource("m") and not changed.compression
    args = parse("--ttl 60", ObjectStoreConfig)
    assert read_bucket_options(args, ObjectStoreConfig("s")).ttl == 60


def test_what_makes_no_sense_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(OptionError, match="history"):
        read_bucket_options(parse("--history 100", KeyValueConfig), KeyValueConfig("b"))
    for line in ("--metadata x", "--ttl soon", "--storage paper"):
        with pytest.raises(SystemExit):
            parse(line, KeyValueConfig)
    assert "must be NAME=VALUE: x" in capsys.readouterr().err


def test_checks_of_names_become_errors_of_arguments() -> None:
    assert checked(check_key)("a.b") == "a.b"
    with pytest.raises(argparse.ArgumentTypeError, match="has an empty token"):
        checked(check_key)("a..b")
