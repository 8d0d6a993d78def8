"""A folder of tables in Parquet files, as a job of Spark writes it: which files are data.

    DIR/frames/date=2026-03-01/part-00012-000-RUN.parquet
    DIR/_nats-dissect.json                 the summary of the latest complete run, with its name as `run`
    DIR/_nats-dissect.runs/                while a run is going on, or if it was killed

Files with the name of another run are not data: that run is not complete, or its files are about to be
deleted. All others are: `nats-dissect archive` writes into such folders, too, and other programs may.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from errno import ENOTSUP
from functools import partial
from itertools import chain

from ..errors import CaptureError, reason_of
from ..storage import elsewhere, listed

MARK = "_nats-dissect.json"
RUNS = "_nats-dissect.runs"
DELTA_RUNS = "_nats-dissect.captures"
"""The folder of a folder of Delta tables that says which captures a run has read."""
OURS = {MARK, RUNS, "_nats-dissect.archive"}
"""What shows that a folder is of this program: of a job, or of `nats-dissect archive`."""

_IS_DELTA = (
    "tables of Delta Lake, whose logs say which files are data, are for Spark, DuckDB and deltalake"
)
_AT_ONCE = 16  # requests to an object storage
_RUN = re.compile(r"-([0-9a-f]{32})\.parquet\Z")
_OF_JOB = re.compile(r"part-\d{5,}(-\d{3,})?(-[0-9a-f]{32})?\.parquet")


def file_name(number: int, serial: int, run: str) -> str:
    """The name of a file that a run writes."""
    return f"part-{number:05}-{serial:03}-{run}.parquet"


def is_of_job(name: str) -> bool:
    """Whether a job of Spark has written a file, of this version or an earlier one."""
    return _OF_JOB.fullmatch(name) is not None


def run_in(name: str) -> str | None:
    """The run in the name of a file; None if no run has written it."""
    found = _RUN.search(name)
    return found[1] if found else None


def run_of(mark: bytes | None) -> str | None:
    """The name of the run that a mark commits; None without a mark, or for one of an earlier version."""
    try:
        values = json.loads(mark or b"{}")
    except ValueError:
        return None
    run = values.get("run") if isinstance(values, dict) else None
    return run if isinstance(run, str) else None


def is_data(name: str, run: str | None) -> bool:
    """Whether a file is data of its table, in a folder in which `run` is the complete run."""
    return name.endswith(".parquet") and run_in(name) in (None, run)


def data_rule(mark: bytes | None, going_on: bool) -> Callable[[str], bool]:
    """Whether a file is data, by its name. Without a mark and without a run that is `going_on`, somebody has
    copied a table elsewhere: then every Parquet file is."""
    if mark is None and not going_on:
        return lambda name: name.endswith(".parquet")
    return partial(is_data, run=run_of(mark))


def local_rule(root: str) -> Callable[[str], bool]:
    """The rule of a local folder. Raises OSError."""
    if os.path.isdir(f"{root}/{DELTA_RUNS}"):
        raise OSError(ENOTSUP, _IS_DELTA, root)
    mark = None
    with suppress(FileNotFoundError, NotADirectoryError), open(f"{root}/{MARK}", "rb") as file:
        mark = file.read()
    return data_rule(mark, os.path.isdir(f"{root}/{RUNS}"))


class RemoteTables:
    """A folder of tables in remote storage. All calls raise CaptureError."""

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/")
        self._fs, self._root = elsewhere(self.uri)
        with self._explained():
            found = {one.base_name for one in listed(self._fs, self._root)}
            if DELTA_RUNS in found:
                raise OSError(ENOTSUP, _IS_DELTA)
            mark = self._content(MARK) if MARK in found else None
        self._is_data = data_rule(mark, RUNS in found)
        self._found = found

    @property
    def exists(self) -> bool:
        """Whether there is such a folder."""
        return bool(self._found)

    def files(self, table: str) -> list[str] | None:
        """The names of the files of a table; None if there is neither a folder nor a file of it."""
        if table in self._found:
            with self._explained():
                inside = listed(self._fs, f"{self._root}/{table}", recursive=True)
            names = sorted(one.path[len(self._root) + 1 :] for one in inside if one.is_file)
            return [name for name in names if self._is_data(name)]
        return [f"{table}.parquet"] if f"{table}.parquet" in self._found else None

    def fetch(
        self, tables: Iterable[str], folder: str, is_wanted: Callable[[str, str], bool]
    ) -> None:
        """Copies files of tables to a folder of this machine: those that are wanted, by table and name."""
        from pyarrow import fs

        here = fs.LocalFileSystem()
        names = {
            table: [name for name in files if is_wanted(table, name)]
            for table in tables
            if (files := self.files(table)) is not None
        }
        for table, files in names.items():
            for name in files or [f"{table}/"]:
                os.makedirs(os.path.dirname(f"{folder}/{name}"), exist_ok=True)

        def copy(name: str) -> None:
            fs.copy_files(f"{self._root}/{name}", f"{folder}/{name}", self._fs, here)

        with self._explained(), ThreadPoolExecutor(_AT_ONCE) as pool:
            for _ in pool.map(copy, chain.from_iterable(names.values())):
                pass

    def _content(self, name: str) -> bytes:
        with self._fs.open_input_stream(f"{self._root}/{name}") as source:
            content: bytes = source.read()
        return content

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CaptureError(self.uri, f"cannot be read ({reason_of(error)})") from None
