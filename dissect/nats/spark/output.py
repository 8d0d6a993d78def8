"""The output folder of a job: one folder per table, partitioned by UTC day, with Parquet files.

    DIR/frames/date=2026-03-01/part-00012-000.parquet
    DIR/_nats-dissect.json                               the summary, which marks the folder as ours

Tasks write into a temporary folder of their run and return the names of their files; `publish` moves
exactly these into place. So a task that runs twice leaves no duplicates, and earlier tables stay until the
new ones are complete. The folder is local or a URI that pyarrow.fs knows (s3://, hdfs://, gs://).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, BinaryIO
from uuid import uuid4

from ..capture.files import elsewhere, is_uri
from ..errors import SparkError, reason_of
from ..output.arrow.records import schema
from ..output.day_files import DAY_NS, DayFiles, WrittenFile, day_folder
from ..output.parquet import ParquetFile
from ..tables import TABLES
from .sink import NewWriter

if TYPE_CHECKING:
    from pyarrow import fs

_MARK = "_nats-dissect.json"
_RUNS = "_nats-dissect.runs"


class Folder:
    """The output folder, opened on this machine."""

    def __init__(self, out: str) -> None:
        self.out = out
        self._fs, self._root = _filesystem(out)

    def check(self) -> None:
        """Raises SparkError if the folder has files that no job has written, or no name."""
        if not self.out:
            raise SparkError("'' is not a folder", "name a new folder with --out")
        pa_fs = import_module("pyarrow.fs")
        try:
            info = self._fs.get_file_info(self._root)
            if info.type == pa_fs.FileType.NotFound:
                return
            if info.type != pa_fs.FileType.Directory:
                raise SparkError(f"{self.out}: is not a folder", "name a new folder with --out")
            found = [entry.base_name for entry in self._list(self._root)]
        except OSError as error:
            raise self._fault("cannot be looked into", error) from None
        if found and _MARK not in found and set(found) != {_RUNS}:
            raise SparkError(
                f"{self.out}: has files that this program has not written",
                "name a new folder with --out, or empty it",
            )

    def begin(self, run: str) -> str:
        """Makes the folder of a run and removes those of earlier runs."""
        try:
            if self._exists(f"{self._root}/{_RUNS}"):
                self._fs.delete_dir(f"{self._root}/{_RUNS}")
            self._fs.create_dir(f"{self._root}/{_RUNS}/{run}", recursive=True)
        except OSError as error:
            raise self._fault("cannot be written", error) from None
        return f"{_RUNS}/{run}"

    def writer(self, run: str) -> NewWriter:
        """The factory of a run's writers."""
        return partial(PartitionWriter, self.out, run)

    def publish(
        self, run: str, tables: Iterable[str], written: Iterable[WrittenFile], mark: object
    ) -> None:
        """Moves the files of a run into place. Removes all earlier tables, also those not in `tables`."""
        try:
            for table in tables:
                self._collect(run, table, [one for one in written if one.table == table])
            for entry in self._list(self._root):
                if entry.base_name in TABLES:
                    self._fs.delete_dir(entry.path)
            for table in tables:
                self._fs.move(f"{self._root}/{run}/ready/{table}", f"{self._root}/{table}")
            with self._fs.open_output_stream(f"{self._root}/{_MARK}") as output:
                output.write(json.dumps(mark, indent=2).encode() + b"\n")
            self._fs.delete_dir(f"{self._root}/{_RUNS}")
        except OSError as error:
            raise self._fault("cannot be written", error) from None

    def _collect(self, run: str, table: str, written: Sequence[WrittenFile]) -> None:
        """Moves the files of a table into one folder, which can then be moved at once. A table without rows
        becomes one empty file with its columns."""
        ready = f"{self._root}/{run}/ready/{table}"
        for name in {one.name.rpartition("/")[0] for one in written} or {day_folder(0)}:
            self._fs.create_dir(f"{ready}/{name}", recursive=True)
        for one in written:
            self._fs.move(one.path, f"{ready}/{one.name}")
        if not written:
            with self._fs.open_output_stream(f"{ready}/{day_folder(0)}/part-00000.parquet") as out:
                ParquetFile(out, schema(table)).close()

    def _exists(self, path: str) -> bool:
        found: bool = self._fs.get_file_info(path).type != import_module("pyarrow.fs").FileType(0)
        return found

    def _list(self, path: str) -> list[fs.FileInfo]:
        found: list[fs.FileInfo] = self._fs.get_file_info(
            import_module("pyarrow.fs").FileSelector(path)
        )
        return found

    def _fault(self, what: str, error: OSError) -> SparkError:
        return SparkError(f"{self.out}: {what}: {reason_of(error)}", "name another folder")


class PartitionWriter(DayFiles):
    """Writes the rows of one partition, in a task."""

    def __init__(self, out: str, run: str, number: int, tables: Iterable[str]) -> None:
        super().__init__(DAY_NS, self._new_file)
        self._fs, root = _filesystem(out)
        self._folder = f"{root}/{run}"
        self._number = number
        self._serial = 0

    def _new_file(self, table: str, first_ns: int | None) -> tuple[WrittenFile, BinaryIO]:
        name = f"{day_folder(first_ns)}/part-{self._number:05}-{self._serial:03}.parquet"
        self._serial += 1
        path = f"{self._folder}/{uuid4().hex}.parquet"
        return WrittenFile(table, name, path, 0), self._fs.open_output_stream(path)


def _filesystem(out: str) -> tuple[fs.FileSystem, str]:
    """The file system of the folder, and its path there."""
    if is_uri(out):
        filesystem, path = elsewhere(out)
        return filesystem, path.rstrip("/")
    return import_module("pyarrow.fs").LocalFileSystem(), os.path.abspath(out)
