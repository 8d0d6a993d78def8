"""Rows of the engine -> Arrow batches of their tables, one table or several in one pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ...engine.session_tables import ReleasedRows
from ...engine.time_order import TimeOrder, payload_bytes, placed
from ...kernel.frame_block import FrameBlock
from ...schema.records import FrameRecord, Record
from ...tables import TABLES
from .records import BATCH_BYTES, BATCH_ROWS, batch
from .records import batches as batches_of_lists
from .records import frame_batches

if TYPE_CHECKING:
    import pyarrow as pa

_FRAMES = "frames"
_OF_FRAMES = (FrameRecord, FrameBlock)

AddBatch = Callable[[str, "pa.RecordBatch"], None]
"""Takes the name of a table and some of its rows."""


def batches(
    table: str, source: Iterable[ReleasedRows], columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """The rows of one table as Arrow batches of limited size, with all columns or the listed ones. Leaves out
    rows of other tables."""
    if table == _FRAMES:
        return frame_batches(_frames(source, {}), columns)
    lists = (rows.records for rows in _only(TABLES[table].row, source))
    return batches_of_lists(table, lists, columns)


def add_batches(source: Iterable[ReleasedRows], tables: Iterable[str], add: AddBatch) -> None:
    """Calls `add` with the rows of these tables, those of each table in order of time as far as its window
    allows."""
    waiting = {TABLES[table].row: _Waiting(table, add) for table in tables if table != _FRAMES}
    for rows in frame_batches(_frames(source, waiting)):
        add(_FRAMES, rows)
    for each in waiting.values():
        each.flush()


def _only(kind: type[Record], source: Iterable[ReleasedRows]) -> Iterator[ReleasedRows]:
    for rows in source:
        records = [record for record in rows.records if record.__class__ is kind]
        if records:
            yield ReleasedRows(rows.release, records)


def _frames(
    source: Iterable[ReleasedRows], waiting: dict[type[Record], _Waiting]
) -> Iterator[ReleasedRows]:
    """The rows of frames. Adds all other records to `waiting`."""
    for rows in source:
        by_kind: dict[type[Record], list[Record]] = {}
        for record in rows.records:
            by_kind.setdefault(record.__class__, []).append(record)
        for kind, records in by_kind.items():
            if kind in _OF_FRAMES:
                yield ReleasedRows(rows.release, records)
            elif kind in waiting:
                waiting[kind].put(records)


class _Waiting:
    """Rows of one table that wait for earlier ones, or for their batch to be full."""

    def __init__(self, table: str, add: AddBatch) -> None:
        self._table = table
        self._add = add
        self._line = TimeOrder[Record](TABLES[table].window)
        self._due: list[Record] = []
        self._bytes = 0

    def put(self, records: Sequence[Record]) -> None:
        """Adds rows that were released together."""
        due = self._line.put(placed(records), payload_bytes(records))
        self._due += due
        self._bytes += payload_bytes(due)
        if len(self._due) >= BATCH_ROWS or self._bytes >= BATCH_BYTES:
            self._pass()

    def flush(self) -> None:
        """Passes on all rows."""
        self._due += self._line.flush()
        if self._due:
            self._pass()

    def _pass(self) -> None:
        self._add(self._table, batch(self._table, self._due))
        self._due, self._bytes = [], 0
