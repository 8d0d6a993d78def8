"""The folder of an archive. A batch gets into it whole or not at all, whenever the process is killed.

    DIR/frames/date=2026-03-01/13-000000042.parquet     rows from 13:00 to 14:00 UTC, of batch 42
    DIR/_nats-dissect.archive/record.json                what is in the archive, see `record`
    DIR/_nats-dissect.archive/state-000000042-0.pickle   the flows that are open after batch 42
    DIR/_nats-dissect.archive/staged/000000042/...       files of a batch that have no place yet

A batch writes its files below `staged`, then the states, then replaces the record: that commits it. Only then
the files get their places, by renaming. What a killed process left is finished if the record names it, and
removed otherwise; the batch is then read again from the captures. Everything is written through to the disk
before the step that relies on it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterable, Mapping
from typing import BinaryIO

from ..output.day_files import HOUR_NS, DayFiles, WrittenFile, day_folder, hour_file
from ..output.sink import Fault
from ..storage import is_uri
from .record import ArchiveRecord, record_of

OWN = "_nats-dissect.archive"
_OF_SPARK = {"_nats-dissect.json", "_nats-dissect.runs"}
_RECORD = "record.json"
_STAGED = "staged"


class ArchiveFolder:
    """The folder `out`, which no other process writes meanwhile; `own` is what no reader needs. Raises Fault
    for a folder that cannot be an archive, and OSError."""

    def __init__(self, out: str) -> None:
        if not out or is_uri(out):
            raise Fault(f"--out: {out!r} is no local folder")
        self.out = os.path.abspath(out)
        self.own = os.path.join(self.out, OWN)
        self._check()
        os.makedirs(self.own, exist_ok=True)
        self._lock = os.open(os.path.join(self.own, "lock"), os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._lock)
            raise Fault(f"{out}: another process writes this archive") from None

    def close(self) -> None:
        """Lets other processes write."""
        os.close(self._lock)

    def recover(self) -> ArchiveRecord | None:
        """The record of the last batch, all of whose files have their places then; None without a batch."""
        text = self.read(_RECORD)
        record = record_of(text) if text else None
        if record:
            self._publish(record)
        shutil.rmtree(os.path.join(self.own, _STAGED), ignore_errors=True)
        self._clean(record)
        return record

    def make_tables(self, tables: Iterable[str]) -> None:
        """Makes the folders of tables: one without files is a table without rows."""
        for table in tables:
            os.makedirs(os.path.join(self.out, table), exist_ok=True)

    def files(self, number: int) -> DayFiles:
        """The files of a batch."""
        staged = self._staged(number)
        serials: dict[tuple[str, int | None], int] = {}

        def new(table: str, first_ns: int | None) -> tuple[WrittenFile, BinaryIO]:
            serial = serials[table, first_ns] = serials.get((table, first_ns), -1) + 1
            name = f"{day_folder(first_ns)}/{hour_file(first_ns, number, serial)}"
            path = os.path.join(staged, table, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return WrittenFile(table, name, path, 0), open(path, "wb")

        return DayFiles(HOUR_NS, new)

    def commit(
        self, record: ArchiveRecord, written: Iterable[WrittenFile], states: Mapping[str, bytes]
    ) -> None:
        """Makes the record, the files of its batch and these states part of the archive."""
        for one in written:
            _sync(one.path)
            _sync(os.path.dirname(one.path))
        for name, state in states.items():
            self._write(name, state)
        record.files = [(one.table, one.name) for one in written]
        self._write(_RECORD, record.text())
        self._publish(record)
        shutil.rmtree(self._staged(record.number), ignore_errors=True)
        self._clean(record)

    def read(self, name: str) -> bytes | None:
        """The content of a file of the archive's own folder; None if there is none."""
        try:
            with open(os.path.join(self.own, name), "rb") as file:
                return file.read()
        except FileNotFoundError:
            return None

    def _check(self) -> None:
        try:
            found = set(os.listdir(self.out))
        except FileNotFoundError:
            return
        except NotADirectoryError:
            raise Fault(f"{self.out}: is not a folder") from None
        if found and OWN not in found and not found & _OF_SPARK:
            raise Fault(
                f"{self.out}: has files that this program has not written; name a new folder"
            )

    def _staged(self, number: int) -> str:
        return os.path.join(self.own, _STAGED, f"{number:09}")

    def _write(self, name: str, content: bytes) -> None:
        """Writes or replaces a file of the archive's own folder."""
        path = os.path.join(self.own, name)
        with open(f"{path}.part", "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.part", path)
        _sync(self.own)

    def _publish(self, record: ArchiveRecord) -> None:
        """Gives the files of a committed batch their places, those that a killed process left as well."""
        folders = set()
        for table, name in record.files:
            staged = os.path.join(self._staged(record.number), table, name)
            if not os.path.exists(staged):  # it has its place
                continue
            place = os.path.join(self.out, table, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            os.replace(staged, place)
            folders |= {os.path.dirname(place), os.path.join(self.out, table), self.out}
        for folder in folders:
            _sync(folder)

    def _clean(self, record: ArchiveRecord | None) -> None:
        """Removes states that the record does not name, and unfinished files."""
        kept = {one.state for one in record.sources.values()} if record else set()
        for name in os.listdir(self.own):
            if name.endswith(".part") or (name.startswith("state-") and name not in kept):
                os.unlink(os.path.join(self.own, name))


def _sync(path: str) -> None:
    """Waits until a file or folder is on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
