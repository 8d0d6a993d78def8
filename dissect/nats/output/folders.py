"""Files in the folders of a user: rules, and Parquet tables.

A range of time leaves out files of tables by their names: those in the folders of other days, and, in an
archive, those of other hours (see `day_files`).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping, Sequence, Set
from pathlib import Path

from ..capture.time_range import TimeRange
from ..schema.declaration import declared
from ..schema.records import LATER
from ..storage import is_uri
from ..tables import TABLES
from ..types import NEVER_NS
from .day_files import DAY_NS, HOUR_FILE, HOUR_NS, NO_DAY, begin_of
from .table_folder import RemoteTables, local_rule

ALWAYS = TimeRange()


def files_in(folder: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files in a folder, at any depth, whose names end with one of the suffixes, in order. Raises OSError
    for a folder that cannot be read, so that no files are left out in silence."""
    return sorted(
        Path(place, name)
        for place, _, names in os.walk(folder, onerror=_refuse)
        for name in names
        if name.endswith(suffixes)
    )


def is_folder(root: str) -> bool:
    """Whether there is a folder at a path or URI. Raises CaptureError if a URI cannot be reached."""
    return RemoteTables(root).exists if is_uri(root) else os.path.isdir(root)


def has_table(root: str, table: str) -> bool:
    """Whether a folder, local or of a URI, has a table. Raises OSError, or CaptureError for a URI."""
    if is_uri(root):
        return RemoteTables(root).files(table) is not None
    return bool(table_paths(root, [table]))


def table_paths(root: str, tables: Iterable[str]) -> dict[str, str]:
    """The paths of the tables that are below `root`: the folder of a table, as `nats-dissect spark` writes
    it, or else its file `TABLE.parquet`. Raises OSError if one cannot be read."""
    found = ((table, _table_path(root, table)) for table in tables)
    return {table: path for table, path in found if path is not None}


def _table_path(root: str, table: str) -> str | None:
    for path in (os.path.join(root, table), os.path.join(root, f"{table}.parquet")):
        try:
            mode = os.stat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            continue
        if stat.S_ISDIR(mode) or path.endswith(".parquet"):
            return path
    return None


def table_files(path: str, between: TimeRange = ALWAYS) -> list[str]:
    """The Parquet files of a table at a path of `table_paths` that may have rows in a range of time. Other
    files in its folder are not its data, such as a page that is being written there, or files of a job that
    is not complete. Raises OSError.
    """
    if not os.path.isdir(path):
        return [path]
    is_data, table = local_rule(os.path.dirname(path)), os.path.basename(path)
    return [
        str(file)
        for file in files_in(path, (".parquet",))
        if is_data(file.name) and may_be_in(table, f"{file.parent.name}/{file.name}", between)
    ]


def may_be_in(table: str, name: str, between: TimeRange) -> bool:
    """Whether a file of a table, by the end of its path, may have rows in a range of time."""
    folder, _, file = name.rpartition("/")
    day = folder.rpartition("/")[2]
    begin_ns = begin_of(day)
    if between.is_all or begin_ns is None:
        return between.is_all or day != f"date={NO_DAY}"  # rows without a time are in no range
    first_ns, size_ns = begin_ns, DAY_NS
    if found := HOUR_FILE.fullmatch(file):
        first_ns, size_ns = begin_ns + int(found["hour"]) * HOUR_NS, HOUR_NS
    last_ns = NEVER_NS if _has_last(table) else first_ns + size_ns - 1
    return between.meets(first_ns, last_ns)


def condition(table: str, between: TimeRange) -> str:
    """The condition, in SQL, on the rows of a table in a range of time: those with a time in it or, where
    rows have a `last_ns`, those that overlap it."""
    time = TABLES[table].time
    parts = []
    if between.from_ns is not None:
        parts.append(f"{'last_ns' if _has_last(table) else time} >= {between.from_ns}")
    if between.until_ns is not None:
        parts.append(f"{time} < {between.until_ns}")
    return " AND ".join(parts) or "TRUE"


def _has_last(table: str) -> bool:
    return table in TABLES and any(column.name == "last_ns" for column in TABLES[table].columns)


def columns_lacking(table: str, there: Set[str]) -> list[str]:
    """The columns of a table that its files do not have, because an earlier version wrote them. Raises
    ValueError if the files are of another table: they lack a column that each row has, or they also have
    columns that the table does not have.
    """
    known = {column.name: column for column in TABLES[table].columns}
    lacking = [name for name in known if name not in there]
    declarations = declared(TABLES[table].row)  # type: ignore[arg-type]  # a class can be hashed
    for name in lacking:
        if not known[name].optional and LATER not in declarations[known[name].field][1]:
            raise ValueError(f"it has no column {name}")
    if lacking and (unknown := sorted(there - known.keys())):
        raise ValueError(f"it has the column {unknown[0]}")
    return lacking


def lacking_text(root: str, lacking: Mapping[str, Sequence[str]]) -> str:
    """A line about the columns that tables do not have."""
    tables = "; ".join(f"{table} lacks {', '.join(names)}" for table, names in lacking.items())
    return f"{root}: an earlier version wrote tables, in which new columns have no values: {tables}"


def _refuse(error: OSError) -> None:
    raise error
