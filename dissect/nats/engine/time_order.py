"""Records of all sessions -> one timeline.

Rows come when they are complete: those of a session that waits for bytes come late, and so does what is
told of a session as a whole. A `TimeOrder` keeps some back and gives them in order of time; what comes
later than that stays late. The order depends on the rows and on what was released together, never on
how the work was spread.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Generic, TypeVar

from ..declaration import SortPosition
from ..records import FrameRecord, Record
from ..tables import TABLE_OF

_Row = TypeVar("_Row")
Placed = tuple[SortPosition, _Row]

_PAYLOAD_BYTES = 32 << 20


def place_of(record: Record) -> SortPosition:
    """Where a record belongs in its table: by time first, no two alike but for equal records."""
    return _PLACES[record.__class__](record)


_PLACES = {row: table.position for row, table in TABLE_OF.items()}


def placed(records: Iterable[Record]) -> list[Placed[Record]]:
    """Records with their places, as a `TimeOrder` takes them."""
    places = _PLACES
    return [(places[record.__class__](record), record) for record in records]


def payload_bytes(records: Iterable[Record]) -> int:
    """How much of the records' size comes from payloads."""
    size = 0
    for record in records:
        if record.__class__ is FrameRecord and record.payload is not None:
            size += len(record.payload)
    return size


_place = itemgetter(0)


class TimeOrder(Generic[_Row]):
    """Takes rows with their places, those released together in one `put`, which gives the rows that may
    go; then `rest`. A row is whatever stands for a record.

    `reach` is how many are kept back; with 0 they go as they come.
    """

    def __init__(self, reach: int) -> None:
        self._reach = reach
        self._rows: list[Placed[_Row]] = []
        self._payload_bytes = 0

    def put(self, rows: list[Placed[_Row]], payload_bytes: int = 0) -> list[_Row]:
        """Takes rows that came free at once."""
        if not self._reach:
            return [row for _, row in rows]
        self._rows += rows
        self._payload_bytes += payload_bytes
        if len(self._rows) < self._reach and self._payload_bytes < _PAYLOAD_BYTES:
            return []
        self._payload_bytes = 0
        return self._given(len(self._rows) // 2)

    def flush(self) -> list[_Row]:
        """Nothing more comes."""
        return self._given(len(self._rows))

    def _given(self, count: int) -> list[_Row]:
        rows = self._rows
        rows.sort(key=_place)
        self._rows = rows[count:]
        return [row for _, row in rows[:count]]
