"""A session whose frames have all been seen, while late packets may still belong to its connection.

Its rows are made, and wait here until the connection is over: they take a third of the memory of the state
they are made from. What late packets can change is set then: the time of the last packet, repeated bytes,
and anomalies.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ..framing.events import Note
from ..records import Record, SessionRecord, SubscriptionRecord
from ..tcp.flow import Flow
from .session_row import set_late_columns


class LastRows(NamedTuple):
    """The rows of a session that is over, in their order: `rows`, the anomalies in `notes`, and `session`."""

    rows: list[Record]
    notes: list[Note]
    session: SessionRecord


class FinishedSession:
    """The rows of a finished session. `notes` are the anomalies that it found when it was finished."""

    __slots__ = ("_row", "_rows", "_notes")

    def __init__(self, row: SessionRecord, rows: list[Record], notes: list[Note]) -> None:
        self._row = row
        self._rows = rows
        self._notes = notes

    def note(self, note: Note) -> None:
        """Counts an anomaly that a late packet shows. The session has holes now, so that the answers were not
        all to be seen: see `Session.finish`."""
        counts = Counter(self._row.anomalies or {})
        counts[note.anomaly.value] += 1
        counts.subtract(each.anomaly.value for each in self._notes)
        self._notes = []
        self._row.anomalies = dict(sorted((+counts).items())) or None

    def close(self, flow: Flow) -> LastRows:
        """The rows, now that the connection is over."""
        set_late_columns(self._row, flow)
        for row in self._rows:
            if isinstance(row, SubscriptionRecord) and row.close == "session":
                row.closed_ns = flow.last_ns
        return LastRows(self._rows, self._notes, self._row)
