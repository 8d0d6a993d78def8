"""Options for the fields of a JetStream configuration, made from the dataclass: one option per field.

Nested fields (mirror, sources, placement, transforms) have no option. They come from a JSON file, in the
form that `info --json` prints and the server's API accepts.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from datetime import datetime
from typing import TypeVar, get_args

from .._json import JSONObject, parse_time
from ..errors import OptionError
from ..jetstream import InvalidNameError, InvalidResponseError, configs
from ..jetstream.names import check_consumer_name, check_stream_name

__all__ = ["add_config_options", "consumer_name", "duration", "read_config", "stream_name", "time"]

_C = TypeVar("_C", bound=JSONObject)
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def add_config_options(added: argparse.ArgumentParser, cls: type[JSONObject]) -> None:
    """Adds `--config FILE`, and an option for each field whose type an option can express."""
    group = added.add_argument_group(
        "configuration",
        "Times are seconds, or 90s, 5m, 1h30m, 7d. Commas separate the items of a list.",
    )
    group.add_argument(
        "--config",
        metavar="FILE",
        help="a JSON file with the configuration, which other options change; - reads standard input",
    )
    for item in fields(cls):
        flag = f"--{item.name.replace('_', '-')}"
        kind = _KINDS.get(str(item.type))
        choices = get_args(getattr(configs, str(item.type), None))
        if str(item.type) == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
        elif choices:
            group.add_argument(flag, choices=choices)
        elif kind and item.name not in ("name", "durable_name"):
            group.add_argument(flag, type=kind[0], metavar=kind[1])


def read_config(args: argparse.Namespace, config: _C) -> _C:
    """Returns `config`, changed by the file and then by the options on the command line."""
    if args.config:
        known = {**config.to_json(), **_read_json(args.config), **_identity(config)}
        try:
            config = type(config).from_json(known)
            replace(config, _exact={})  # refuses what only servers may set
        except InvalidResponseError as error:
            raise OptionError("config", f"file {args.config!r}: {error.reason}") from error
        except OptionError as error:
            reason = f"{error.option} {error.reason}"
            raise OptionError("config", f"file {args.config!r}: {reason}") from error
    changes = {
        item.name: getattr(args, item.name)
        for item in fields(config)
        if getattr(args, item.name, None) is not None and item.name not in _identity(config)
    }
    return replace(config, **changes)


def _identity(config: JSONObject) -> dict[str, object]:
    """Returns the names in `config`. They are arguments of the command; the file and options keep them."""
    return {
        name: getattr(config, name)
        for name in ("name", "durable_name")
        if getattr(config, name, None)
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


def stream_name(text: str) -> str:
    """The name of a stream."""
    return _name(check_stream_name, text)


def consumer_name(text: str) -> str:
    """The name of a consumer."""
    return _name(check_consumer_name, text)


def _name(check: Callable[[str], str], text: str) -> str:
    try:
        return check(text)
    except InvalidNameError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def duration(text: str) -> float:
    """Seconds, or numbers with units as in Go: 1h30m."""
    seconds = _seconds(text)
    if not seconds < 2**63 / 1e9:
        raise argparse.ArgumentTypeError(f"longer than 292 years: {text}")
    return seconds


def _seconds(text: str) -> float:
    try:
        return float(int(text))
    except ValueError:
        pass
    except OverflowError:
        return math.inf
    parts = re.findall(r"(\d+(?:\.\d+)?)(ns|us|ms|s|m|h|d)", text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise argparse.ArgumentTypeError(f"not a duration: {text}")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def time(text: str) -> datetime:
    """A time as in RFC 3339."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a whole number: {text}") from None


def _texts(text: str) -> tuple[str, ...]:
    return tuple(part for part in text.split(",") if part)


def _durations(text: str) -> tuple[float, ...]:
    return tuple(duration(part) for part in text.split(","))


def _pairs(text: str) -> dict[str, str]:
    parts = [part.partition("=") for part in text.split(",")]
    if not all(name and mark for name, mark, _ in parts):
        raise argparse.ArgumentTypeError(f"must be NAME=VALUE, with commas: {text}")
    return {name: value for name, _, value in parts}


_KINDS: dict[str, tuple[Callable[[str], object], str]] = {
    "int": (_whole, "N"),
    "str": (str, "TEXT"),
    "float": (duration, "TIME"),
    "datetime | None": (time, "TIME"),
    "Sequence[str]": (_texts, "A,B"),
    "Sequence[float]": (_durations, "TIME,TIME"),
    "Mapping[str, str]": (_pairs, "NAME=VALUE"),
}
