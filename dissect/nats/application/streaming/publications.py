"""Publications that wait for their acks, and the subjects to which these acks come.

A client chooses the reply subject of a publication: one under `_STAN.acks.` for all of them (stan.go), or any
inbox, also one for each (natsync).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator

from ...schema.anomalies import Anomaly
from ..held_payloads import HeldPayloads
from ..rows import mark
from .records import StreamingRecord

_PUBLICATIONS = 16_384  # stan.go lets this many wait for their acks
_ACKS = "_STAN.acks."


class Publications:
    """The rows of a session's publications without an ack, by guid. If there are too many, the oldest are
    forgotten."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, tuple[StreamingRecord, str]] = OrderedDict()
        self._inboxes: dict[str, set[str]] = {}  # reply subject -> guids
        self._held = HeldPayloads()

    def add(self, row: StreamingRecord, inbox: str) -> Iterator[StreamingRecord]:
        """Adds a publication whose ack comes to `inbox`; yields the rows that no longer wait."""
        guid, waiting = row.guid or "", self._waiting
        before = self.take(guid)
        if before:
            yield before
        while len(waiting) >= _PUBLICATIONS or (
            waiting and self._held.are_too_many_with(row.payload)
        ):
            oldest = self.take(next(iter(waiting)))
            assert oldest
            mark(oldest, Anomaly.FORGOTTEN.value)
            yield oldest
        waiting[guid] = row, inbox
        self._inboxes.setdefault(inbox, set()).add(guid)
        self._held.add(row.payload)

    def evidence(self, subject: str) -> str | None:
        """How it is known that a message to this subject is an ack; None if it is none."""
        if subject.startswith(_ACKS):
            return "subject"
        return "inbox" if subject in self._inboxes else None

    def take(self, guid: str) -> StreamingRecord | None:
        """Removes and returns the publication with this guid; None if none waits."""
        row, inbox = self._waiting.pop(guid, (None, ""))
        if row:
            self._held.remove(row.payload)
            guids = self._inboxes[inbox]
            guids.remove(guid)
            if not guids:
                del self._inboxes[inbox]
        return row

    def take_only(self, inbox: str) -> StreamingRecord | None:
        """Removes and returns the publication whose ack comes to `inbox`, if it is the only one."""
        guids = self._inboxes.get(inbox, set())
        return self.take(*guids) if len(guids) == 1 else None

    def rest(self) -> Iterable[StreamingRecord]:
        """The publications that still wait, in order."""
        return [row for row, _ in self._waiting.values()]
