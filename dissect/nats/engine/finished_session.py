"""A session after its last frame, while late packets may still belong to its connection.

Its rows are made at once and stored in packed form until the connection is over, because they take a
twentieth of the memory of the session's state. Late packets can change a few columns, which are set at the
end: the time of the last packet, retransmitted bytes, and anomalies.
"""

from __future__ import annotations

import pickle
from collections import Counter
from typing import NamedTuple

from ..framing.events import Note
from ..schema.records import Record, SessionRecord, SubscriptionRecord
from ..tcp.flow import Flow
from .session_row import set_late_columns


class LastRows(NamedTuple):
    """The last rows of a session, in their order: `rows`, the anomalies in `notes`, and `session`, its own
    row. `session` is None if only application layers read the frames."""

    rows: list[Record]
    notes: list[Note]
    session: SessionRecord | None


class FinishedSession:
    """The last rows of a session, with the anomalies that the session found when it was finished."""

    __slots__ = ("_rows",)

    def __init__(self, rows: LastRows) -> None:
        self._rows: LastRows | bytes = rows

    def pack(self) -> None:
        """Frees most of the memory that the rows take."""
        if isinstance(self._rows, LastRows):
            self._rows = pickle.dumps(tuple(self._rows), 5)

    def note(self, note: Note) -> None:
        """Counts an anomaly that a late packet shows. Now the session has a gap, so the anomalies that
        `Session.finish` finds in sessions without gaps are withdrawn."""
        rows, notes, session = self._unpacked()
        if session is None:
            return
        counts = Counter(session.anomalies or {})
        counts[note.anomaly.value] += 1
        counts.subtract(each.anomaly.value for each in notes)
        session.anomalies = dict(sorted((+counts).items())) or None
        self._rows = LastRows(rows, [], session)
        self.pack()

    def close(self, flow: Flow) -> LastRows:
        """The rows, now that the connection is over."""
        last = self._unpacked()
        if last.session:
            set_late_columns(last.session, flow)
        for row in last.rows:
            if isinstance(row, SubscriptionRecord) and row.close == "session":
                row.closed_ns = flow.last_ns
        return last

    def _unpacked(self) -> LastRows:
        if isinstance(self._rows, LastRows):
            return self._rows
        return LastRows(*pickle.loads(self._rows))
