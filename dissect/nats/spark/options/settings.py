"""The options of the data source "nats-capture": its own, and those of a dissection, as texts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Annotated

from ...capture.sources import STDIN
from ...errors import SparkError
from ...option_types import (
    Opt,
    OptionGroup,
    declared,
    one_of,
    seconds,
    several,
    text,
    unknown,
    whole,
)
from ...options import Options
from ...storage import is_uri
from ...tables import TABLES
from .job_options import INSTEAD

_LOCAL = re.compile(r"file:(//)?(?=/(?!/))")
_INSTEAD = {
    **INSTEAD,
    "chunk_size": "tasks read all packets: choose their number with shares, or use dissect.nats.spark.read",
    "jobs": "choose the number of tasks: shares",
    "progress": "Spark shows it: spark.ui.showConsoleProgress",
}


def absolute(path: str) -> str:
    """A path for workers, which have other working directories: absolute, unless it is a URI or standard
    input. Spark's URI for a local file, `file:///x` or `file:/x`, becomes a path. An empty text stays empty:
    it does not name the working directory."""
    if local := _LOCAL.match(path):
        return path[local.end() :]
    return path if not path or is_uri(path) or path == STDIN else os.path.abspath(path)


PERMISSIVE, FAILFAST = "PERMISSIVE", "FAILFAST"
_EITHER = one_of((PERMISSIVE, FAILFAST))
_MODE = replace(_EITHER, convert=lambda value: _EITHER.convert(str(value).upper()))
_FOLDER = replace(text("DIR"), convert=absolute)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The options of the data source. `columns` is None for all columns. If `shares` is None, the size of the
    captures decides. `state` and `settle` are for streams."""

    paths: tuple[str, ...] = ()
    table: Annotated[str, "The table to read.", Opt(OptionGroup.OUTPUT, one_of(TABLES))] = "frames"
    columns: Annotated[
        tuple[str, ...] | None,
        "The columns to read, such as op,subject.",
        Opt(OptionGroup.OUTPUT, several(text("COLUMN"), "A,B"), default="all"),
    ] = None
    mode: Annotated[
        str,
        "What damaged captures do: PERMISSIVE reads what can be read, and stderr names them; FAILFAST ends"
        " the query.",
        Opt(OptionGroup.OUTPUT, _MODE),
    ] = PERMISSIVE
    shares: Annotated[
        int | None,
        "The number of tasks.",
        Opt(OptionGroup.SPARK, whole(1, 10_000), default="by size, up to 8"),
    ] = None
    state: Annotated[
        str | None,
        "For streams: a folder for states, which all machines see.",
        Opt(OptionGroup.SPARK, _FOLDER),
    ] = None
    settle: Annotated[
        float,
        "For streams: seconds after which a file that did not grow is complete.",
        Opt(OptionGroup.SPARK, seconds()),
    ] = 60.0
    options: Options = field(default_factory=Options)

    @property
    def settle_ns(self) -> int:
        """`settle` in nanoseconds."""
        return round(self.settle * 1e9)


def settings_of(settings: Mapping[str, str]) -> Settings:
    """The options as values. Raises SparkError for an unknown option or value."""
    taken = {**declared(Settings), **declared(Options)}
    given = {name.lower(): value for name, value in settings.items()}
    paths = _paths(given)
    for name in given.keys() - taken.keys():
        raise SparkError(*unknown("nats-capture", name, taken, _INSTEAD))
    try:
        values = {
            name: taken[name].read(name, _list(value) if taken[name].form.repeated else value)
            for name, value in given.items()
        }
        own = {name: values.pop(name) for name in declared(Settings) if name in values}
        options = Options(**values)  # type: ignore[arg-type]  # read by their forms
        found = Settings(paths=paths, options=options, **own)  # type: ignore[arg-type]  # so are these
    except (TypeError, ValueError) as error:
        raise SparkError(f"option {error}") from None
    _check_columns(found)
    return found


def _paths(settings: dict[str, str]) -> tuple[str, ...]:
    """`load(path)` sets `path`, and `load([path, ...])` sets `paths` as JSON."""
    paths = [settings.pop("path")] if "path" in settings else []
    paths += json.loads(settings.pop("paths", "[]"))
    if not paths:
        raise SparkError("nats-capture has nothing to read", "name captures: .load(PATH)")
    return tuple(map(absolute, paths))


def _list(text: str) -> object:
    """The values in JSON, as `paths` has them, or the text."""
    with suppress(ValueError):
        values = json.loads(text)
        if isinstance(values, list):
            return values
    return text


def _check_columns(wanted: Settings) -> None:
    known = [column.name for column in TABLES[wanted.table].columns]
    names = wanted.columns or ()
    for name in names:
        if names.count(name) > 1:
            raise SparkError(f"option columns: column {name} is named twice")
        if name not in known:
            raise SparkError(
                f"option columns: {wanted.table} has no column {name!r}",
                f"there are {', '.join(known)}",
            )
