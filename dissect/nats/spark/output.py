"""The output folder of a job: one folder per table, partitioned by UTC day, with Parquet files.

    DIR/frames/date=2026-03-01/part-00012-000-RUN.parquet
    DIR/_nats-dissect.json             the summary, which names the run: the mark of a folder that is ours

Tasks write into a temporary folder of their run and return the names of their files. `publish` moves exactly
these into the tables, one by one and under the name of the run, so a task that runs twice leaves no
duplicates. Then it writes the mark. This one write, which a local disk and an object storage make as a whole,
replaces the tables of the run before: files of a run that the mark does not name are not data (see
`output.table_folder`). At last these are deleted. The folder is local or a URI that pyarrow.fs knows
(s3://, hdfs://, gs://, abfs://).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO, TypeVar
from uuid import uuid4

from ..errors import OutputError, SparkError, reason_of
from ..output.arrow.records import schema
from ..output.day_files import DAY_NS, DayFiles, WrittenFile, day_folder
from ..output.parquet import ParquetFile
from ..output.table_folder import MARK, OURS, RUNS, file_name, is_data, is_of_job, run_of
from ..storage import elsewhere, has_folders, is_uri, listed, move_file, remove_folder, write_whole
from ..tables import TABLES
from .sink import NewWriter

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import fs

_T = TypeVar("_T")
_U = TypeVar("_U")

_AT_ONCE = 16  # requests to an object storage


class Folder:
    """The output folder, opened on this machine."""

    def __init__(self, out: str) -> None:
        self.out = out
        self._fs, self._root = filesystem(out)

    def check(self) -> None:
        """Raises SparkError if the folder has files that no job has written, or no name."""
        if not self.out:
            raise SparkError("'' is not a folder", "name a new folder with --out")
        with self._explained("looked into"):
            kinds = import_module("pyarrow.fs").FileType
            info = self._fs.get_file_info(self._root)
            if info.type == kinds.NotFound:
                return
            if info.type != kinds.Directory:
                raise SparkError(f"{self.out}: is not a folder", "name a new folder with --out")
            found = {entry.base_name for entry in listed(self._fs, self._root)}
        if found and found.isdisjoint(OURS):
            raise SparkError(
                f"{self.out}: has files that this program has not written",
                "name a new folder with --out, or empty it",
            )

    def begin(self, run: str) -> str:
        """Makes the folder of a run and removes what earlier runs have left that were killed."""
        with self._explained("written"):
            if self._exists(f"{self._root}/{RUNS}"):
                self._remove(partial(_is_complete, self._committed()))
                remove_folder(self._fs, f"{self._root}/{RUNS}")
            self._fs.create_dir(f"{self._root}/{RUNS}/{run}", recursive=True)
        return run

    def writer(self, run: str) -> NewWriter:
        """The factory of a run's writers."""
        return partial(PartitionWriter, self.out, run)

    def publish(
        self,
        run: str,
        tables: Iterable[str],
        written: Iterable[WrittenFile],
        mark: Mapping[str, object],
    ) -> None:
        """Moves the files of a run into place. Replaces all earlier tables, also those not in `tables`, but
        not what an archive has in the same folder."""
        files = [*written]
        with self._explained("written"):
            empty = set(tables).difference(one.table for one in files)
            self._move([*files, *(self._empty(run, table) for table in empty)])
            content = json.dumps({**mark, "run": run}, indent=2).encode() + b"\n"
            write_whole(self._fs, f"{self._root}/{MARK}", content)
        with self._explained("cleared of earlier tables, but has the new ones"):
            self._remove(lambda name: not is_of_job(name) or name.endswith(f"-{run}.parquet"))
            remove_folder(self._fs, f"{self._root}/{RUNS}")

    def discard(self, run: str) -> None:
        """Removes the files of a run that failed, as far as possible: the next run removes the rest."""
        with suppress(OSError):
            committed = self._committed()
            if committed != run:
                self._remove(partial(_is_complete, committed))
                remove_folder(self._fs, f"{self._root}/{RUNS}/{run}")
                if not listed(self._fs, f"{self._root}/{RUNS}"):
                    remove_folder(self._fs, f"{self._root}/{RUNS}")

    def _empty(self, run: str, table: str) -> WrittenFile:
        """An empty file with the columns of a table, which has no rows."""
        path = f"{self._root}/{RUNS}/{run}/{table}.parquet"
        with self._fs.open_output_stream(path) as output:
            ParquetFile(output, schema(table)).close()
        return WrittenFile(table, f"{day_folder(0)}/{file_name(0, 0, run)}", path, 0)

    def _move(self, files: Sequence[WrittenFile]) -> None:
        """Moves files into their tables. In an object storage each move is a copy, and takes a while."""
        places = [(one.path, f"{self._root}/{one.table}/{one.name}") for one in files]
        if has_folders(self._fs):
            for folder in {place.rpartition("/")[0] for _, place in places}:
                self._fs.create_dir(folder, recursive=True)
        each_of(lambda paths: move_file(self._fs, *paths), places)

    def _remove(self, is_kept: Callable[[str], bool]) -> None:
        """Removes the files of all tables, except those whose names are to be kept."""
        files: list[str] = []
        for table in (one for one in listed(self._fs, self._root) if one.base_name in TABLES):
            found = [table, *listed(self._fs, table.path, recursive=True)]
            kept = {one.path for one in found if one.is_file and is_kept(one.base_name)}
            needed = {path[: end.start()] for path in kept for end in re.finditer("/", path)}
            for one in found:
                inside = one is table or one.path.rpartition("/")[0] in needed
                if inside and one.is_file and one.path not in kept:
                    files.append(one.path)
                elif inside and not one.is_file and one.path not in needed:
                    remove_folder(self._fs, one.path)
        each_of(self._fs.delete_file, files)

    def _committed(self) -> str | None:
        """The run whose files are the tables."""
        path = f"{self._root}/{MARK}"
        if not self._exists(path):
            return None
        with self._fs.open_input_stream(path) as source:
            return run_of(source.read())

    def _exists(self, path: str) -> bool:
        kinds = import_module("pyarrow.fs").FileType
        found: bool = self._fs.get_file_info(path).type != kinds.NotFound
        return found

    @contextmanager
    def _explained(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise SparkError(
                f"{self.out}: cannot be {verb}: {reason_of(error)}", "name another folder"
            ) from None


class RunWriter(DayFiles):
    """Writes the rows of one partition, in a task, to files by day whose names end with the run; a sink says
    where they are. Raises OutputError."""

    def __init__(self, out: str, run: str, number: int) -> None:
        super().__init__(DAY_NS, self._new_file)
        self._out = out
        self._run = run
        self._number = number
        self._serial = 0

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        """Writes rows to the files of their days."""
        with writing_to(self._out):
            super().add(table, rows)

    def close(self) -> None:
        """Completes the files."""
        with writing_to(self._out):
            super().close()

    def _new_file(self, table: str, first_ns: int | None) -> tuple[WrittenFile, BinaryIO]:
        name = f"{day_folder(first_ns)}/{file_name(self._number, self._serial, self._run)}"
        self._serial += 1
        path, stream = self._opened(table, name)
        return WrittenFile(table, name, path, 0), stream

    def _opened(self, table: str, name: str) -> tuple[str, BinaryIO]:
        """A new file for what will be `name` in a table: its path until then, and its stream."""
        raise NotImplementedError


class PartitionWriter(RunWriter):
    """Writes to the temporary folder of a run, from which `Folder.publish` moves the files."""

    def __init__(self, out: str, run: str, number: int, tables: Iterable[str]) -> None:
        super().__init__(out, run, number)
        self._fs, root = filesystem(out)
        self._folder = f"{root}/{RUNS}/{run}"

    def _opened(self, table: str, name: str) -> tuple[str, BinaryIO]:
        path = f"{self._folder}/{uuid4().hex}.parquet"
        return path, self._fs.open_output_stream(path)


class InPlaceWriter(RunWriter):
    """Writes below the places of tables, where the files stay: for formats whose log says which are data."""

    def __init__(
        self, out: str, places: Mapping[str, str], run: str, number: int, tables: Iterable[str]
    ) -> None:
        super().__init__(out, run, number)
        self._places = places

    def _opened(self, table: str, name: str) -> tuple[str, BinaryIO]:
        place = f"{self._places[table]}/{name}"
        system, path = filesystem(place)
        if has_folders(system):
            system.create_dir(path.rpartition("/")[0], recursive=True)
        return place, system.open_output_stream(path)


@contextmanager
def writing_to(out: str) -> Iterator[None]:
    """A block of a task that writes files of an output. Raises OutputError."""
    try:
        yield
    except OSError as error:
        raise OutputError(f"{out}: cannot be written: {reason_of(error)}") from error


def each_of(act: Callable[[_T], _U], values: Collection[_T]) -> list[_U]:
    """Acts on many files at a time, because an object storage takes long for each."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return [*pool.map(act, values)]


def _is_complete(run: str | None, name: str) -> bool:
    """Whether a file is not of a run that was killed."""
    return not is_of_job(name) or is_data(name, run)


def filesystem(out: str) -> tuple[fs.FileSystem, str]:
    """The file system of the folder, and its path there."""
    if is_uri(out):
        filesystem, path = elsewhere(out)
        return filesystem, path.rstrip("/")
    return import_module("pyarrow.fs").LocalFileSystem(), os.path.abspath(out)
