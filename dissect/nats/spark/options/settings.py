"""Converts the options of the data source, which are strings, to values. Errors name the option that is
unknown or invalid."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from natsync.protocol import Kind

from ...capture.files import is_uri
from ...capture.sources import STDIN
from ...errors import SparkError
from ...options import Options, Payload
from ...tables import TABLES

_V = TypeVar("_V")

KINDS = {item.value: item for item in Kind}
PAYLOADS = {item.value: item for item in Payload}
_KNOWN = "path paths table columns payload port redact shares state settle".split()
_REMEDY = f"options are {', '.join(_KNOWN[2:])}"
_SETTLE_SECONDS = 60.0
_LOCAL = re.compile(r"file:(//)?(?=/(?!/))")


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of the data source. `columns` is None for all columns. If `shares` is None, the size of the
    captures decides. `state` and `settle_ns` are for streams."""

    paths: tuple[str, ...]
    table: str
    columns: tuple[str, ...] | None
    options: Options
    shares: int | None
    state: str | None
    settle_ns: int


def settings_of(settings: Mapping[str, str]) -> Settings:
    """The options as values. Raises SparkError for an unknown option or value."""
    for name in settings:
        if name.lower() not in _KNOWN:
            raise SparkError(f"nats-capture has no option {name}", _REMEDY)
    table = _one_of("table", settings.get("table", "frames"), dict(zip(TABLES, TABLES)))
    return Settings(
        _paths(settings),
        table,
        _columns(table, settings["columns"]) if "columns" in settings else None,
        Options(
            _hints(settings.get("port", "")),
            _one_of("payload", settings.get("payload", "none"), PAYLOADS),
            _one_of(
                "redact", settings.get("redact", "true").lower(), {"true": True, "false": False}
            ),
        ),
        round(_number("shares", settings["shares"], 1, 10_000)) if "shares" in settings else None,
        absolute(settings["state"]) if "state" in settings else None,
        round(_number("settle", settings.get("settle", str(_SETTLE_SECONDS)), 0, 1e9) * 1e9),
    )


def _paths(settings: Mapping[str, str]) -> tuple[str, ...]:
    """`load(path)` sets `path`, and `load([path, ...])` sets `paths` as JSON."""
    paths = [settings["path"]] if "path" in settings else []
    paths += json.loads(settings.get("paths", "[]"))
    if not paths:
        raise SparkError("nats-capture has nothing to read", "name captures: .load(PATH)")
    return tuple(map(absolute, paths))


def absolute(path: str) -> str:
    """A path for workers, which have other working directories: absolute, unless it is a URI or standard
    input. Spark's URI for a local file, `file:///x` or `file:/x`, becomes a path. An empty text stays empty:
    it does not name the working directory."""
    if local := _LOCAL.match(path):
        return path[local.end() :]
    return path if not path or is_uri(path) or path == STDIN else os.path.abspath(path)


def _columns(table: str, value: str) -> tuple[str, ...]:
    known = {column.name: column.name for column in TABLES[table].columns}
    names = [_one_of("columns", name.strip(), known) for name in value.split(",")]
    for name in names:
        if names.count(name) > 1:
            raise SparkError(f"option columns: column {name} is named twice")
    return tuple(names)


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
        raise SparkError(f"option {option}: {value!r} is not a number from {least:g} to {most:g}")
    return number
