"""Files in the folders of a user: rules, and Parquet tables."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from pathlib import Path


def files_in(folder: str | Path, suffixes: tuple[str, ...]) -> list[Path]:
    """The files in a folder, at any depth, whose names end with one of the suffixes, in order. Raises OSError
    for a folder that cannot be read, so that no files are left out in silence."""
    return sorted(
        Path(place, name)
        for place, _, names in os.walk(folder, onerror=_refuse)
        for name in names
        if name.endswith(suffixes)
    )


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


def table_files(path: str) -> list[str]:
    """The Parquet files of a table at a path of `table_paths`. Other files in its folder are not its data,
    such as a page that is being written there. Raises OSError."""
    return [*map(str, files_in(path, (".parquet",)))] if os.path.isdir(path) else [path]


def _refuse(error: OSError) -> None:
    raise error
