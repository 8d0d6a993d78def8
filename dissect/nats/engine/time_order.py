"""Puts the records of all sessions in time order, within a window.

A row comes when it is complete: rows of a session that waits for missing bytes come late, and so do rows
about a whole session. `TimeOrder` holds back a limited number of rows and releases them in order of time. A
row that comes even later is released out of order. The order depends only on the rows and on which of them
were released together, not on how the work was divided among processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from operator import itemgetter
from typing import Generic, TypeVar

from ..schema.declaration import SortPosition
from ..schema.records import Record
from ..tables import TABLE_OF

_Row = TypeVar("_Row")
Placed = tuple[SortPosition, _Row]

PAYLOAD_BYTES = 32 << 20
"""A window releases rows early once the payloads added since its last release have this size."""


_PLACES: dict[type[Record], Callable[..., SortPosition]] = {
    row: table.position for row, table in TABLE_OF.items()
}


def placed(records: Iterable[Record]) -> list[Placed[Record]]:
    """Records with their positions in their tables, as `TimeOrder.put` takes them. A position begins with the
    time of the record; only equal records share one."""
    places = _PLACES
    return [(places[record.__class__](record), record) for record in records]


_SHOWING = frozenset(row for row, table in TABLE_OF.items() if table.shows_payloads)


def payload_bytes(records: Iterable[Record]) -> int:
    """The size of the payloads in these records."""
    size = 0
    for record in records:
        if record.__class__ in _SHOWING:
            size += len(getattr(record, "payload") or "")
    return size


_place = itemgetter(0)


class TimeOrder(Generic[_Row]):
    """Sorts rows within a window of `reach` rows; 0 keeps the order in which they come.

    Call `put` for each group of rows that was released together; it returns the rows that leave the window.
    Call `flush` at the end. A row may be anything that stands for a record.
    """

    def __init__(self, reach: int) -> None:
        self._reach = reach
        self._rows: list[Placed[_Row]] = []
        self._payload_bytes = 0

    def put(self, rows: list[Placed[_Row]], payload_bytes: int = 0) -> list[_Row]:
        """Adds rows that were released together; returns rows that leave the window."""
        if not self._reach:
            return [row for _, row in rows]
        self._rows += rows
        self._payload_bytes += payload_bytes
        if len(self._rows) < self._reach and self._payload_bytes < PAYLOAD_BYTES:
            return []
        self._payload_bytes = 0
        return self._released(len(self._rows) // 2)

    @property
    def waiting(self) -> list[_Row]:
        """The rows that wait, in the order in which they came."""
        return [row for _, row in self._rows]

    def flush(self) -> list[_Row]:
        """Returns the remaining rows."""
        return self._released(len(self._rows))

    def _released(self, count: int) -> list[_Row]:
        rows = self._rows
        rows.sort(key=_place)
        self._rows = rows[count:]
        return [row for _, row in rows[:count]]
