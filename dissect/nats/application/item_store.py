"""The items of a grouped layer on this machine: in memory while they are few, then in a temporary file.

The file is a private database of SQLite. SQLite makes it where `SQLITE_TMPDIR` or `TMPDIR` says, else in
/var/tmp or /tmp, and removes its name at once, so that nothing is left whatever ends the program.
"""

from __future__ import annotations

import marshal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING

from ..declaration import Group, Item, LastStage
from ..errors import DissectError
from ..records import Record

if TYPE_CHECKING:
    import sqlite3

# Pages of the database in memory, in KiB; the sort takes as much again.
_CACHE = 64 << 10
# Items of all stages in memory: about 700 bytes each. Through SQLite one takes 3 times as long.
_HELD = 1 << 15
_READ = 2048  # items that are read at once
_ORDER = "key, ts_ns, session, number"
_position = attrgetter("key", "ts_ns", "session", "number")


class StoreError(DissectError):
    """Temporary data cannot be written or read. `reason` is what SQLite says."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)

    def __str__(self) -> str:
        return f"temporary data: {self.reason}; set TMPDIR to a folder with more room"


def packed(item: Item) -> bytes:
    """The body of an item as bytes; `marshal.loads` unpacks it. Only this version of Python can."""
    return marshal.dumps(item.body)  # type: ignore[arg-type]  # it has values of Python's own types


class ItemStore:
    """The items of all stages. `add` takes them, `run` and `rows` work them off."""

    def __init__(self) -> None:
        library = import_module("sqlite3")  # here, because few commands need it
        self._error: type[Exception] = library.Error
        self._held: dict[int, list[Item]] = {}
        self._count = 0  # of those that are held
        self._stages: set[int] = set()
        with self._one_line_errors():
            self._data: sqlite3.Connection = library.connect("", isolation_level=None)
            for pragma in (
                "journal_mode = OFF",
                "synchronous = OFF",
                f"cache_size = -{_CACHE}",
            ):
                self._data.execute(f"PRAGMA {pragma}")

    def add(self, item: Item) -> None:
        """Adds an item. Raises StoreError."""
        self._held.setdefault(item.stage, []).append(item)
        self._count += 1
        if self._count >= _HELD:
            for stage in [*self._held]:
                self._write(stage)

    def run(self, stage: int, function: Callable[[Iterator[Group]], Iterable[Item]]) -> None:
        """See `declaration.Work`. Raises StoreError."""
        for item in function(self._groups(stage)):
            self.add(item)
        self._forget(stage)

    def first(self, stage: int, limit: int) -> list[Item]:
        """See `declaration.Work`. Raises StoreError."""
        return [*islice(self._items(stage), limit)]

    def rows(self, grouped: Callable[[ItemStore], LastStage]) -> Iterator[Record]:
        """The rows of a layer, when all items of its sessions are here. Raises StoreError."""
        last = grouped(self)
        yield from last.function(self._groups(last.stage))
        self._forget(last.stage)

    def close(self) -> None:
        """Frees memory and disk."""
        self._data.close()

    def _groups(self, stage: int) -> Iterator[Group]:
        for _, group in groupby(self._items(stage), key=attrgetter("key")):
            yield group

    def _items(self, stage: int) -> Iterator[Item]:
        if stage not in self._stages:
            held = self._held.get(stage, [])
            held.sort(key=_position)
            yield from held
            return
        self._write(stage)
        with self._one_line_errors():
            found = self._data.execute(
                f"SELECT {_ORDER}, body FROM stage_{stage} ORDER BY {_ORDER}"
            )
        while True:
            with self._one_line_errors():
                some = found.fetchmany(_READ)
            if not some:
                return
            for key, ts_ns, session, number, body in some:
                yield Item(stage, key, ts_ns, session, number, marshal.loads(body))

    def _write(self, stage: int) -> None:
        held = self._taken(stage)
        if not held:
            return
        with self._one_line_errors():
            if stage not in self._stages:
                self._stages.add(stage)
                self._data.execute(f"CREATE TABLE stage_{stage} ({_ORDER}, body)")
            self._data.execute("BEGIN")
            self._data.executemany(
                f"INSERT INTO stage_{stage} VALUES (?, ?, ?, ?, ?)",
                ((*_position(item), packed(item)) for item in held),
            )
            self._data.execute("COMMIT")

    def _taken(self, stage: int) -> list[Item]:
        """The items of a stage that are held; they no longer are."""
        held = self._held.pop(stage, [])
        self._count -= len(held)
        return held

    def _forget(self, stage: int) -> None:
        self._taken(stage)
        if stage in self._stages:
            self._stages.discard(stage)
            with self._one_line_errors():
                self._data.execute(f"DROP TABLE stage_{stage}")

    @contextmanager
    def _one_line_errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise StoreError(str(error)) from None
