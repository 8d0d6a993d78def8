"""Options for the fields of a configuration, made from its dataclass: one option for each field.

Nested fields of streams and consumers (mirror, sources, placement, transforms) have no option. They come from
a JSON file, in the form that `info --json` prints and the server's API accepts.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import TypeVar, get_args

import click

from .._json import JSONObject
from ..errors import OptionError
from ..jetstream import InvalidResponseError, StreamSource, configs
from ..kv import KeyValueConfig
from ..object_store import ObjectStoreConfig
from .options import Decorator, Function, option
from .values import duration, durations, pair, pairs, texts, time

__all__ = ["config_options", "read_bucket", "read_config"]

_C = TypeVar("_C", bound=JSONObject)
_B = TypeVar("_B", KeyValueConfig, ObjectStoreConfig)

_COMMON = frozenset(
    "description history max_age max_bytes max_msgs num_replicas replicas storage subjects ttl".split()
    + "ack_policy ack_wait deliver_policy filter_subjects max_ack_pending max_deliver".split()
)
"""The fields of streams, buckets and consumers whose options `--help` shows."""

_NAMES = ("name", "durable_name", "bucket", "store")  # which are arguments of the commands


def _sources(text: str) -> list[StreamSource]:
    return [StreamSource(name) for name in text.split(",")]


# How the value of an option becomes that of a field of such a type, and how the help shows it.
_KINDS: dict[str, tuple[Callable[[str], object], str]] = {
    "int": (int, "N"),
    "str": (str, "TEXT"),
    "float": (duration, "TIME"),
    "datetime | None": (time, "TIME"),
    "Sequence[str]": (texts, "A,B"),
    "Sequence[float]": (durations, "TIME,TIME"),
    "Mapping[str, str]": (pairs, "NAME=VALUE"),
}
_BUCKET_KINDS = _KINDS | {
    "Mapping[str, str]": (pair, "NAME=VALUE"),
    "StreamSource | None": (StreamSource, "BUCKET"),
    "Sequence[StreamSource]": (_sources, "BUCKET,BUCKET"),
}


def config_options(cls: type[JSONObject] | type[_B]) -> Decorator:
    """Adds an option for each field whose type an option can express; `--config FILE`, too, if the server's
    API has the configuration as an object."""
    is_object = issubclass(cls, JSONObject)
    kinds = _KINDS if is_object else _BUCKET_KINDS
    made: list[Decorator] = []
    if is_object:
        text = "A JSON file with the configuration, which options change; - reads standard input."
        made.append(option("--config FILE", text))
    for item in fields(cls):
        flag, kind = f"--{item.name.replace('_', '-')}", str(item.type)
        choices = get_args(getattr(configs, kind, None))
        common = item.name in _COMMON
        if kind == "bool":
            made.append(option(f"{flag}/--no-{flag[2:]}", default=None, common=common))
        elif choices:
            made.append(option(flag, type=click.Choice(choices), common=common))
        elif kind in kinds and item.name not in _NAMES:
            read, metavar = kinds[kind]
            made.append(
                option(f"{flag} {metavar}", type=read, multiple=read is pair, common=common)
            )

    def decorate(function: Function) -> Function:
        for each in reversed(made):
            function = each(function)
        return function

    return decorate


def read_bucket(options: Mapping[str, object], config: _B) -> _B:
    """Returns `config`, changed by the options. Raises OptionError for invalid values."""
    return replace(config, **_given(options))  # type: ignore[arg-type]  # as the fields are declared


def read_config(options: Mapping[str, object], config: _C) -> _C:
    """Returns `config`, changed by the file that `options` name and then by the other options."""
    changes = _given(options)
    path = changes.pop("config", None)
    if isinstance(path, str):
        names = {name: kept for name in _NAMES if (kept := getattr(config, name, None))}
        known = {**config.to_json(), **_read_json(path), **names}
        try:
            config = type(config).from_json(known)
            replace(config, _exact={})  # refuses what only servers may set
        except InvalidResponseError as error:
            raise OptionError("config", f"file {path!r}: {error.reason}") from error
        except OptionError as error:
            reason = f"{error.option} {error.reason}"
            raise OptionError("config", f"file {path!r}: {reason}") from error
    return replace(config, **changes)  # type: ignore[arg-type]  # as the fields are declared


def _given(options: Mapping[str, object]) -> dict[str, object]:
    """Returns the options that were given."""
    return {
        name: dict(value) if name == "metadata" and isinstance(value, tuple) else value
        for name, value in options.items()
        if value not in (None, ())  # () is that of a repeatable option
    }


def _read_json(path: str) -> dict[str, object]:
    try:
        if path == "-":
            loaded = json.load(sys.stdin)
        else:
            with open(path, encoding="utf-8") as file:
                loaded = json.load(file)
    except OSError as error:
        raise OptionError("config", f"file {path!r}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise OptionError("config", f"file {path!r}: no JSON: {error}") from error
    config = loaded.get("config", loaded) if isinstance(loaded, dict) else None
    if not isinstance(config, dict):
        raise OptionError("config", f"file {path!r}: no JSON object")
    return config
