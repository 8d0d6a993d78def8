"""Messages of NATS Streaming that wait: publications and deliveries for their acks, others for a proof.

A client chooses the reply subject of a publication: one under `_STAN.acks.` for all of them (stan.go), or any
inbox, also one for each (natsync). Several subscriptions may get a message, and each acknowledges its own. A
message that may be a delivery waits until the next one to its inbox proves it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from natsync.protocol.streaming import MsgProto

from ...schema.anomalies import Anomaly
from ..recent import HeldPayloads
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


_DELIVERIES = 32_768  # two for each message


class DeliveryTimes:
    """The times of the latest deliveries. An empty inbox stands for the latest one to any inbox, because the
    subscription of an ack may be unknown."""

    def __init__(self) -> None:
        self._times = OrderedDict[tuple[str, int, str], int]()  # by channel, sequence and inbox

    def __contains__(self, message: tuple[str, int]) -> bool:
        return (*message, "") in self._times

    def add(self, channel: str, sequence: int, inbox: str, ts_ns: int) -> None:
        """Adds a delivery to an inbox; the oldest is forgotten if there are too many."""
        for name in ("", inbox):
            if len(self._times) >= _DELIVERIES:
                self._times.popitem(last=False)
            self._times[channel, sequence, name] = ts_ns

    def take(self, channel: str, sequence: int, inbox: str) -> int | None:
        """Removes and returns the time of a delivery that was acknowledged; None if it is unknown."""
        return self._times.pop((channel, sequence, inbox), None)


_INBOXES = 1024


class PossibleDelivery(NamedTuple):
    """A message without its data, and its row."""

    row: StreamingRecord
    message: MsgProto


class Candidates:
    """The latest message to each inbox, with its row. If there are too many, the oldest are forgotten."""

    def __init__(self) -> None:
        self._latest: OrderedDict[str, PossibleDelivery] = OrderedDict()
        self._held = HeldPayloads()

    def __len__(self) -> int:
        return len(self._latest)

    def put(self, inbox: str, row: StreamingRecord, message: MsgProto) -> PossibleDelivery | None:
        """Keeps a message without its data; returns the previous message to the inbox."""
        message.data = b""
        latest, held = self._latest, self._held
        before = latest.pop(inbox, None)
        if before:
            held.remove(before.row.payload)
        while len(latest) >= _INBOXES or (latest and held.are_too_many_with(row.payload)):
            _, (oldest, _) = latest.popitem(last=False)
            held.remove(oldest.payload)
        latest[inbox] = PossibleDelivery(row, message)
        held.add(row.payload)
        return before
