"""`--sort COLUMN[:desc]`: rendered rows in the order of one column.

Rows that do not fit into memory are sorted in runs, which wait in temporary files until they are merged, so
memory does not grow with the table. Rows with equal values keep their order; absent values come last.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from heapq import merge
from itertools import islice
from operator import attrgetter, itemgetter
from tempfile import TemporaryFile
from typing import IO, NamedTuple

from ..errors import instead
from ..output.writer import Rendered
from ..schema.declaration import Type
from ..schema.records import Record
from ..tables import TABLES
from ..temporary import storing

_RUN_ROWS = 100_000
_RUN_BYTES = 64 << 20
_RUNS = 64  # temporary files at a time
_BLOCK_ROWS = 256

SortKey = tuple[int, str | int] | tuple[int] | tuple[()]
"""The value that a row is sorted by; an absent one has no second part."""

RenderedRow = tuple[Rendered, int, SortKey]
"""A row for its writer, the number of its NATS messages, and its key."""

_SORTABLE = (Type.TEXT, Type.INTEGER, Type.BOOLEAN, Type.TIME)


class SortOrder(NamedTuple):
    """The column to sort by."""

    field: str
    descending: bool = False

    def key(self) -> Callable[[Record], SortKey]:
        """The function that returns the key of a record."""
        value_of = attrgetter(self.field)
        known, absent = (1, 0) if self.descending else (0, 1)

        def key(record: Record) -> SortKey:
            value = value_of(record)
            return (absent,) if value is None else (known, value)

        return key


def sort_order(table: str, text: str) -> SortOrder:
    """The order of a table's rows that `COLUMN`, `COLUMN:asc` or `COLUMN:desc` names. Raises ValueError."""
    columns = TABLES[table].columns
    return order_among(
        {one.name: one.field for one in columns if one.type in _SORTABLE}, text, table
    )


def order_among(columns: Mapping[str, str], text: str, owner: str) -> SortOrder:
    """Like `sort_order`, for other rows, which errors call `owner`. `columns` maps the columns that can be
    sorted by to fields."""
    name, _, direction = text.strip().partition(":")
    if name not in columns:
        raise ValueError(f"{owner} has no column {name!r} to sort by{instead(name, it=columns)}")
    if direction not in ("", "asc", "desc"):
        raise ValueError(f"{direction!r} is not a direction; directions are asc and desc")
    return SortOrder(columns[name], direction == "desc")


def sorted_rows(rows: Iterable[RenderedRow], descending: bool) -> Iterator[RenderedRow]:
    """The rows in order of their keys. Reads all of them before it returns the first one."""
    key = itemgetter(2)
    held: list[RenderedRow] = []
    size = 0
    # Reading raises no OSError; closing a file writes what is left in its buffer.
    with storing(), ExitStack() as files:
        runs: list[IO[bytes]] = []
        for row in rows:
            held.append(row)
            size += _size(row[0])
            if len(held) >= _RUN_ROWS or size >= _RUN_BYTES:
                held.sort(key=key, reverse=descending)
                runs.append(_spill(held, files))
                held, size = [], 0
                if len(runs) == _RUNS:
                    whole = _spill(merge(*map(_read, runs), key=key, reverse=descending), files)
                    for run in runs:
                        run.close()
                    runs = [whole]
        held.sort(key=key, reverse=descending)
        yield from merge(*map(_read, runs), held, key=key, reverse=descending)


def _size(row: Rendered) -> int:
    if isinstance(row, str):
        return len(row)
    return sum(len(value) for value in row if isinstance(value, str))


def _spill(rows: Iterable[RenderedRow], files: ExitStack) -> IO[bytes]:
    """A temporary file with the rows."""
    file = files.enter_context(TemporaryFile())
    source = iter(rows)
    while block := list(islice(source, _BLOCK_ROWS)):
        pickle.dump(block, file, pickle.HIGHEST_PROTOCOL)
    return file


def _read(file: IO[bytes]) -> Iterator[RenderedRow]:
    end = file.tell()
    file.seek(0)
    while file.tell() < end:
        yield from pickle.load(file)  # from `_spill`
