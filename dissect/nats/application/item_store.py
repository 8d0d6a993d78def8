"""The items of a grouped layer on this machine: in memory while they are few, then sorted in temporary files.

This is a merge sort on disk: items that exceed the limit of memory are written as a sorted *run*, and reading
merges the runs. The files have no names, so none is left behind, however the program ends.
"""

from __future__ import annotations

import marshal
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from heapq import merge
from itertools import groupby, islice
from operator import attrgetter, itemgetter
from tempfile import TemporaryFile
from typing import cast

from ..errors import StoreError
from ..schema.declaration import Group, LastStage, LayerItem
from ..schema.records import Record
from ..temporary import storing

# Items in memory over all stages, 300 to 500 bytes each. An item on disk costs 3 us more (CPython 3.11).
_HELD = 1 << 16
# Items that are written and read at once. A merge holds this many items of each run in memory.
_BLOCK = 512
_MERGED = 16  # runs of about the same size that are merged into one, so that few files are open
_LENGTH_BYTES = 4

# The fields of an item except its stage. The garbage collector does not visit such plain tuples.
_Packed = tuple[bytes, int, str, int, tuple[object, ...]]
_fields = cast(
    "Callable[[LayerItem], _Packed]", attrgetter("key", "ts_ns", "session", "number", "body")
)
_position = itemgetter(slice(4))  # bodies cannot always be compared


def packed(item: LayerItem) -> bytes:
    """Packs the body of an item into bytes, which `marshal.loads` of the same Python version unpacks."""
    return marshal.dumps(item.body)  # type: ignore[arg-type]  # bodies have only built-in types


class ItemStore:
    """The items of all stages. `add` stores an item; `run` and `rows` process and remove those of a stage.
    `most` items are in memory."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most or _HELD
        self._held: defaultdict[int, list[_Packed]] = defaultdict(list)
        self._count = 0  # of items in memory
        self._runs: defaultdict[int, list[_SortedFile]] = defaultdict(list)

    def add(self, item: LayerItem) -> None:
        """Adds an item. Raises StoreError."""
        self._held[item.stage].append(_fields(item))
        self._count += 1
        if self._count >= self._most:
            self._write(max(self._held, key=lambda stage: len(self._held[stage])))

    def run(self, stage: int, function: Callable[[Iterator[Group]], Iterable[LayerItem]]) -> None:
        """See `declaration.Work`. Raises StoreError."""
        for item in function(self._groups(stage)):
            self.add(item)
        self._forget(stage)

    def first(self, stage: int, limit: int) -> list[LayerItem]:
        """See `declaration.Work`. Raises StoreError."""
        held = sorted(self._held.get(stage, ()), key=_position)
        entries = merge(held, *self._runs.get(stage, ()), key=_position)
        return [LayerItem(stage, *entry) for entry in islice(entries, limit)]

    def rows(self, grouped: Callable[[ItemStore], LastStage]) -> Iterator[Record]:
        """The rows of a layer, once all items of its sessions were added. Raises StoreError."""
        last = grouped(self)
        yield from last.function(self._groups(last.stage))
        self._forget(last.stage)

    def close(self) -> None:
        """Frees memory and disk."""
        for stage in {*self._held, *self._runs}:
            self._forget(stage)

    def _groups(self, stage: int) -> Iterator[Group]:
        entries: Iterable[_Packed] = self._pop_stage(stage)
        if stage in self._runs:
            entries = merge(entries, *self._runs[stage], key=_position)
        items = (LayerItem(stage, *entry) for entry in entries)
        for _, group in groupby(items, key=attrgetter("key")):
            yield group

    def _pop_stage(self, stage: int) -> Iterator[_Packed]:
        """Removes the items of a stage from memory and returns them in order; each is freed once read."""
        held = self._held.pop(stage, [])
        self._count -= len(held)
        held.sort(key=_position, reverse=True)
        while held:
            yield held.pop()

    def _write(self, stage: int) -> None:
        runs = self._runs[stage]
        runs.append(_SortedFile(self._pop_stage(stage), 0))
        while len(alike := [run for run in runs if run.level == runs[-1].level]) == _MERGED:
            merged = _SortedFile(merge(*alike, key=_position), runs[-1].level + 1)
            del runs[-_MERGED:]
            runs.append(merged)
            for run in alike:
                run.close()

    def _forget(self, stage: int) -> None:
        self._count -= len(self._held.pop(stage, ()))
        for run in self._runs.pop(stage, ()):
            run.close()


class _SortedFile:
    """Items of one stage in order, in a file. `level` counts how often they were merged."""

    def __init__(self, entries: Iterator[_Packed], level: int) -> None:
        self.level = level
        with storing():
            self._file = TemporaryFile(dir=_folder())  # no `with`: it is read later
        try:
            while block := [*islice(entries, _BLOCK)]:
                data = marshal.dumps(block)
                with storing():
                    self._file.write(len(data).to_bytes(_LENGTH_BYTES, "big"))
                    self._file.write(data)
            with storing():
                self._file.flush()
        except StoreError:
            self.close()
            raise

    def __iter__(self) -> Iterator[_Packed]:
        """The items. Only one iterator may be in use at a time."""
        self._file.seek(0)
        while True:
            with storing():
                length = self._file.read(_LENGTH_BYTES)
                data = self._file.read(int.from_bytes(length, "big"))
            if not data:
                return
            yield from marshal.loads(data)

    def close(self) -> None:
        """Frees the disk."""
        with storing():
            self._file.close()


def _folder() -> str | None:
    """The folder for temporary files; None selects Python's default. /tmp is often in memory, so /var/tmp is
    preferred, unless TMPDIR is set."""
    if "TMPDIR" in os.environ or not os.access("/var/tmp", os.W_OK):
        return None
    return "/var/tmp"
