"""The options of the data source, which are texts, as values. Wrong ones are refused by name."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from natsync.protocol import Kind

from ..capture.files import is_uri
from ..capture.sources import STDIN
from ..errors import SparkError
from ..options import Options, Payload
from ..tables import TABLES

_V = TypeVar("_V")

KINDS = {item.value: item for item in Kind}
PAYLOADS = {item.value: item for item in Payload}
_KNOWN = "path paths table columns payload port redact shares state settle".split()
_REMEDY = f"options are {', '.join(_KNOWN[2:])}"
_SETTLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user of the data source wants. `columns` None: all; `shares` None: as the captures' size
    suggests. `state` and `settle_ns` are for streams."""

    paths: tuple[str, ...]
    table: str
    columns: tuple[str, ...] | None
    options: Options
    shares: int | None
    state: str | None
    settle_ns: int


def settings_of(given: Mapping[str, str]) -> Settings:
    """The settings; SparkError where an option is none, or has no such value."""
    for name in given:
        if name.lower() not in _KNOWN:
            raise SparkError(f"nats-capture has no option {name}", _REMEDY)
    table = _one_of("table", given.get("table", "frames"), dict(zip(TABLES, TABLES)))
    return Settings(
        _paths(given),
        table,
        _columns(table, given["columns"]) if "columns" in given else None,
        Options(
            _hints(given.get("port", "")),
            _one_of("payload", given.get("payload", "none"), PAYLOADS),
            _one_of("redact", given.get("redact", "true").lower(), {"true": True, "false": False}),
        ),
        round(_number("shares", given["shares"], 1, 10_000)) if "shares" in given else None,
        absolute(given["state"]) if "state" in given else None,
        round(_number("settle", given.get("settle", str(_SETTLE_SECONDS)), 0, 1e9) * 1e9),
    )


def _paths(given: Mapping[str, str]) -> tuple[str, ...]:
    """`load(path)` gives `path`, and `load([path, ...])` gives `paths` in JSON."""
    paths = [given["path"]] if "path" in given else []
    paths += json.loads(given.get("paths", "[]"))
    if not paths:
        raise SparkError("nats-capture was given nothing to read", "name captures: .load(PATH)")
    return tuple(map(absolute, paths))


def absolute(path: str) -> str:
    """A path as workers need it, which run elsewhere: absolute, unless it is a URI or standard input. Spark's
    name for a file of this machine, `file:///x`, is a path."""
    if path.startswith("file:///"):
        return path.removeprefix("file://")
    return path if is_uri(path) or path == STDIN else os.path.abspath(path)


def _columns(table: str, value: str) -> tuple[str, ...]:
    known = {column.name: column.name for column in TABLES[table].columns}
    return tuple(_one_of("columns", name.strip(), known) for name in value.split(","))


def _hints(value: str) -> dict[int, Kind]:
    hints = {}
    for pair in filter(None, (part.strip() for part in value.split(","))):
        port, _, kind = pair.partition("=")
        hints[round(_number("port", port, 1, 65535))] = _one_of("port", kind, KINDS)
    return hints


def _one_of(option: str, value: str, known: Mapping[str, _V]) -> _V:
    if value not in known:
        raise SparkError(f"option {option}: there is no {value!r}", f"there are {', '.join(known)}")
    return known[value]


def _number(option: str, value: str, least: float, most: float) -> float:
    try:
        number = float(value)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise SparkError(f"option {option}: {value!r} is no number from {least:g} to {most:g}")
    return number
