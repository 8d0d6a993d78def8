"""Tables of Delta Lake as a sink: `--out delta:FOLDER`, through delta-rs (`deltalake`, extra `delta`).

    FOLDER/frames/_delta_log/                                   a Delta table for each table
    FOLDER/frames/date=2026-03-01/part-00012-000-RUN.parquet    partitioned by UTC day
    FOLDER/_nats-dissect.captures/RUN.json                      which captures a run has read

Tasks write the Parquet files where they stay, and `publish` commits them: one version of each table. Rows of
other captures stay. A run replaces the files of earlier runs over the same captures, so that nothing is there
twice. Schemas only gain columns. The folder is local or a URI; both pyarrow, which writes the files, and
delta-rs, which writes the log, find S3 by the same environment.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING

from ..errors import DissectError, MissingLibrary, SparkError, imported
from ..output.arrow.records import schema
from ..output.arrow.types import pyarrow
from ..output.day_files import NO_DAY, WrittenFile
from ..output.table_folder import DELTA_RUNS, run_in
from ..storage import has_folders, is_uri, listed, masked, s3_access, write_whole
from ..tables import TABLES
from .output import InPlaceWriter, each_of, filesystem
from .sink import NewWriter, one_name, replaced_runs

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from deltalake import Schema as DeltaSchema
    from deltalake.transaction import AddAction
    from pyarrow import fs

_BEGIN = "delta:"
_DATE = "date"


def is_delta(out: str) -> bool:
    """Whether an output is a folder of Delta tables."""
    return out.startswith(_BEGIN)


def with_folder(out: str, change: Callable[[str], str]) -> str:
    """An output whose folder is changed."""
    return f"{_BEGIN}{change(out.removeprefix(_BEGIN))}"


class DeltaSink:
    """The tables of a folder. `captures` are the files that a run reads, `tables` what it writes."""

    def __init__(self, out: str, captures: Sequence[str], tables: Iterable[str]) -> None:
        if not hasattr(imported("deltalake.transaction", "delta", "deltalake"), "RemoveAction"):
            raise MissingLibrary("deltalake", "delta", "it is older than 1.6.6")
        self.out = out
        folder = out.removeprefix(_BEGIN).rstrip("/")
        if not folder:
            raise SparkError(f"{out}: is not delta:FOLDER")
        self._captures = sorted({one_name(path) for path in captures})
        self._base = folder if is_uri(folder) else os.path.abspath(folder)
        self._places = {table: f"{self._base}/{table}" for table in tables}

    def check(self) -> None:
        """Raises SparkError if other files are where a table would be, or if a run over these captures would
        leave only a part of an earlier run."""
        with self._explained():
            for name in self._places:
                if table := self._latest(name):
                    self._replaced(table)
                elif listed(self._fs, f"{self._root}/{name}"):
                    raise SparkError(
                        f"{self.out}: {name} has files, and is no Delta table",
                        "name a new folder with --out",
                    )

    def begin(self, run: str) -> str:
        """Creates tables and columns that are missing, and notes the captures of the run."""
        from deltalake import DeltaTable

        with self._explained():
            for name, place in self._places.items():
                columns = _columns(name)
                if table := self._latest(name):
                    known = {field.name for field in table.schema().fields}
                    new = [field for field in columns.fields if field.name not in known]
                    if new:
                        table.alter.add_columns(new)
                    continue
                if has_folders(self._fs):
                    self._fs.create_dir(f"{self._root}/{name}", recursive=True)
                access = self._access()
                DeltaTable.create(place, columns, partition_by=[_DATE], storage_options=access)
            write_whole(self._fs, self._note(run), json.dumps(self._captures).encode())
        return run

    def writer(self, run: str) -> NewWriter:
        """The factory of a run's writers."""
        return partial(InPlaceWriter, self.out, self._places, run)

    def publish(
        self,
        run: str,
        tables: Iterable[str],
        written: Iterable[WrittenFile],
        mark: Mapping[str, object],
    ) -> None:
        """Commits the files of a run, one version of each table that they change."""
        files = [*written]
        with self._explained():
            for name in tables:
                self._commit(name, run, [one for one in files if one.table == name])

    def discard(self, run: str) -> None:
        """Removes the files of a run from the tables that have no version with them."""
        with suppress(SparkError), self._explained():
            is_committed = False
            for name in self._places:
                if (table := self._latest(name)) and run in _files_by_run(table):
                    is_committed = True
                    continue
                files = listed(self._fs, f"{self._root}/{name}", recursive=True)
                own = [one.path for one in files if run_in(one.base_name) == run]
                each_of(self._fs.delete_file, own)
            if not is_committed:
                self._fs.delete_file(self._note(run))

    def _commit(self, name: str, run: str, written: Sequence[WrittenFile]) -> None:
        from deltalake import CommitProperties
        from deltalake.transaction import RemoveAction

        table = self._latest(name)
        assert table
        now_ms = time.time_ns() // 10**6
        files = _files_by_run(table)
        gone = [
            RemoveAction(path, data_change=True, deletion_timestamp=now_ms)
            for old in self._replaced(table)
            for path in files[old]
        ]
        added = each_of(partial(_added, now_ms), written)
        if added or gone:
            properties = CommitProperties(custom_metadata={"nats-dissect.run": run})
            table.create_write_transaction(
                [*added, *gone], "append", table.schema(), [_DATE], commit_properties=properties
            )

    def _replaced(self, table: DeltaTable) -> list[str]:
        """The earlier runs that a run over these captures replaces. Raises SparkError if it has only some of
        the captures of one."""
        earlier = {run: self._captures_of(run) for run in _files_by_run(table)}
        return replaced_runs(self.out, earlier, self._captures)

    def _captures_of(self, run: str) -> list[str]:
        try:
            with self._fs.open_input_stream(self._note(run)) as source:
                captures: list[str] = json.loads(source.read())
        except FileNotFoundError:
            raise SparkError(
                f"{self.out}: {DELTA_RUNS}/{run}.json is not there, so nobody knows what that run has read",
                "name a new folder with --out",
            ) from None
        return captures

    @cached_property
    def _fs(self) -> fs.FileSystem:
        return filesystem(self._base)[0]

    @cached_property
    def _root(self) -> str:
        """The path of the folder in its file system."""
        return filesystem(self._base)[1]

    def _note(self, run: str) -> str:
        """The file that names the captures of a run."""
        return f"{self._root}/{DELTA_RUNS}/{run}.json"

    def _latest(self, name: str) -> DeltaTable | None:
        """The latest version of a table; None if there is none."""
        from deltalake import DeltaTable

        place, access = self._places[name], self._access()
        if not DeltaTable.is_deltatable(place, access):
            return None
        return DeltaTable(place, storage_options=access)

    def _access(self) -> dict[str, str] | None:
        """Where S3 is, for delta-rs."""
        if self._fs.type_name != "s3":
            return None
        access = s3_access()
        endpoint = access.endpoint
        if endpoint and "://" not in endpoint:
            endpoint = f"https://{endpoint}"
        values = {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ALLOW_HTTP": "true" if endpoint and endpoint.startswith("http:") else None,
            "AWS_REGION": access.region,
            "AWS_ACCESS_KEY_ID": access.access_key,
            "AWS_SECRET_ACCESS_KEY": access.secret_key,
            "AWS_SESSION_TOKEN": access.session_token,
        }
        return {name: value for name, value in values.items() if value}

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except DissectError:
            raise
        except Exception as error:  # those of deltalake, its Rust and pyarrow have no common base
            reason = " ".join(masked(str(error)).split()) or type(error).__name__
            raise SparkError(f"{self.out}: {reason}", "name another folder") from error


def _added(now_ms: int, file: WrittenFile) -> AddAction:
    """The entry of the log for a file: with the smallest and the largest time, by which readers leave out
    files."""
    from deltalake.transaction import AddAction

    system, path = filesystem(file.path)
    with system.open_input_file(path) as stream:
        size = stream.size()
        footer = import_module("pyarrow.parquet").read_metadata(stream)
    column = TABLES[file.table].time
    index = footer.schema.names.index(column)
    found = [
        footer.row_group(group).column(index).statistics for group in range(footer.num_row_groups)
    ]
    times = [one for one in found if one and one.has_min_max]
    stats: dict[str, object] = {"numRecords": file.rows}
    if times and len(times) == len(found):
        stats["minValues"] = {column: min(one.min for one in times)}
        stats["maxValues"] = {column: max(one.max for one in times)}
        stats["nullCount"] = {column: sum(one.null_count for one in times)}
    day = file.name.partition("/")[0].partition("=")[2]
    days = {_DATE: None if day == NO_DAY else day}
    return AddAction(file.name, size, days, now_ms, True, json.dumps(stats))


def _columns(table: str) -> DeltaSchema:
    """The columns of a table. All may be absent, because an older file may lack them."""
    from deltalake import Schema

    fields = [field.with_nullable(True) for field in schema(table)]
    fields.append(pyarrow().field(_DATE, pyarrow().date32()))
    return Schema.from_arrow(pyarrow().schema(fields))


def _files_by_run(table: DeltaTable) -> dict[str, list[str]]:
    """The files of the latest version, by the run that has written them; others are not ours."""
    paths = pyarrow().table(table.get_add_actions()).column("path").to_pylist()
    files: dict[str, list[str]] = {}
    for path in paths:
        if run := run_in(path):
            files.setdefault(run, []).append(path)
    return files
