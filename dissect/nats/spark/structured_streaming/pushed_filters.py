"""The part of Spark's filters that makes the data source read less. Spark evaluates all filters again.

A filter on `kind` is the option `kind`: rows of other connections are not made. A filter on the time of a
table leaves out whole captures, if each is a timeline of its own. More would change rows: what is seen of
a connection depends on all its packets.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from natsync.protocol import Kind

from ...capture import FileReport
from ...capture.sources import read_file
from ...capture.time_range import TimeRange
from ...options import Options
from ...tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql.datasource import Filter

_KINDS = {kind.value: kind for kind in Kind}
_LOWER = {"GreaterThan", "GreaterThanOrEqual", "EqualTo"}
_UPPER = {"LessThan", "LessThanOrEqual", "EqualTo"}
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def with_kinds(options: Options, table: str, filters: Iterable[Filter]) -> Options:
    """The options with which only rows of the kinds that the filters ask for are made."""
    if not any(column.name == "kind" for column in TABLES[table].columns):
        return options
    kinds = frozenset(Kind) if options.kind is None else options.kind
    for name, attribute, value in map(_parts, filters):
        if attribute == ("kind",) and name in ("EqualTo", "In"):
            values = value if isinstance(value, (tuple, list)) else (value,)
            kinds &= {_KINDS[each] for each in values if each in _KINDS}
    # No kind at all is no option: Spark leaves nothing of the rows then.
    return replace(options, kind=kinds) if kinds and kinds != set(Kind) else options


def time_range_of(table: str, filters: Iterable[Filter]) -> TimeRange:
    """The range of times outside of which no row of the table is asked for."""
    lower: list[int] = []
    upper: list[int] = []
    for name, attribute, value in map(_parts, filters):
        if name in _LOWER | _UPPER and (bounds := _nanoseconds(table, attribute, value)):
            if name in _LOWER:
                lower.append(bounds[0])
            if name in _UPPER:
                upper.append(bounds[1])
    return TimeRange(max(lower, default=None), min(upper, default=None))


def meets(path: str, window: TimeRange, max_expanded: int | None) -> bool:
    """Whether the times of a capture meet a range of times. Reads up to where that is sure, or all of it."""
    times: tuple[int, ...] = ()
    with closing(read_file(path, FileReport(path, ""), max_expanded=max_expanded)) as runs:
        for run in runs:
            times += tuple(place[0] for place in run.places)
            times = min(times), max(times)
            if window.meets(*times):
                return True
    return False


def _parts(one: Filter) -> tuple[str, tuple[str, ...], object]:
    """The name of a filter, its column and its value."""
    return one.__class__.__name__, getattr(one, "attribute", ()), getattr(one, "value", None)


def _nanoseconds(table: str, attribute: tuple[str, ...], value: object) -> tuple[int, int] | None:
    """The first nanosecond of a time, and the one after it; None for another column."""
    if attribute == (TABLES[table].time,) and isinstance(value, int):
        return value, value + 1
    if attribute == ("time",) and isinstance(value, datetime) and value.tzinfo:
        micros = (value - _EPOCH) // _EPOCH.resolution
        return micros * 1000, (micros + 1) * 1000
    return None
