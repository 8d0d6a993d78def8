"""Records of all sessions -> one timeline.

Rows come when they are complete: those of a session that waits for bytes come late, and so does what is
told of a session as a whole. A `Timeline` keeps some back and gives them in order of time; what comes
later than that stays late. The order depends on the rows and on what was released together, never on
how the work was spread.
"""

from __future__ import annotations

from collections.abc import Callable

from .records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)

Place = tuple[int | str, ...]

# How many rows are kept back; the older half goes when there are as many.
REACH = {
    "frames": 20_000,
    "sessions": 50_000,
    "subscriptions": 50_000,
    "requests": 50_000,
    "flows": 50_000,
    "anomalies": 50_000,
}
_PAYLOAD_BYTES = 32 << 20


def place_of(record: Record) -> Place:
    """Where a record belongs in its table: by time first, no two alike but for equal records."""
    return _PLACES[record.__class__](record)


_PLACES: dict[type[Record], Callable[..., Place]] = {
    FrameRecord: lambda row: (row.ts_ns, row.session, row.number),
    SessionRecord: lambda row: (row.first_ns, row.session),
    SubscriptionRecord: lambda row: (
        row.opened_ns or 0,
        row.session,
        row.account or "",
        row.subject or "",
        row.queue or "",
        row.sid or "",
    ),
    RequestRecord: lambda row: (row.sent_ns, row.session, row.reply, row.subject),
    FlowRecord: lambda row: (row.first_ns, row.session),
    AnomalyRecord: lambda row: (
        row.ts_ns,
        row.session,
        row.packet,
        row.sender,
        row.offset,
        row.anomaly,
    ),
}


class Timeline:
    """Takes what is released together with `put`, which gives the rows that may go; then `rest`.

    `reach` is how many are kept back; with 0 they go as they come.
    """

    def __init__(self, reach: int) -> None:
        self._reach = reach
        self._rows: list[tuple[Place, Record]] = []
        self._payload_bytes = 0

    def put(self, records: list[Record]) -> list[Record]:
        """Takes records that came free at once."""
        if not self._reach:
            return records
        rows = self._rows
        for record in records:
            rows.append((place_of(record), record))
            if isinstance(record, FrameRecord) and record.payload:
                self._payload_bytes += len(record.payload)
        if len(rows) < self._reach and self._payload_bytes < _PAYLOAD_BYTES:
            return []
        self._payload_bytes = 0
        return self._given(len(rows) // 2)

    def rest(self) -> list[Record]:
        """Nothing more comes."""
        return self._given(len(self._rows))

    def _given(self, count: int) -> list[Record]:
        rows = self._rows
        rows.sort(key=_place)
        self._rows = rows[count:]
        return [record for _, record in rows[:count]]


def _place(row: tuple[Place, Record]) -> Place:
    return row[0]
