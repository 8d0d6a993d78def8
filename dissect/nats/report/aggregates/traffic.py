"""Traffic over time: messages and bytes by kind of connection and direction; errors and losses in the same
bins."""

from __future__ import annotations

from typing import NamedTuple

from ... import outcomes
from ...application.jetstream.deliveries import DeliveryRecord
from ...schema.records import AnomalyRecord, FrameRecord, Record, RequestRecord
from ..bounded.time_bins import TimeBins

MESSAGES, BYTES, EVENTS = "messages", "bytes", "events"

# Events with a mark on the time axis. An anomaly is marked by its own name.
ERROR, NO_RESPONDERS, REDELIVERED = "-ERR", "no responders", "redelivered"
LOSSES = frozenset({"lost", "truncated", "skipped", "limit", "evicted", "forgotten"})


class Lane(NamedTuple):
    """A key of the counts: a measure of one kind of connection in one direction, or an event by its name."""

    measure: str
    name: str
    sender: str = ""


class Traffic:
    """Messages, their bytes, and events, in bins of time."""

    tables = ("frames", "anomalies", "requests", "deliveries")

    def __init__(self) -> None:
        self.bins: TimeBins[Lane] = TimeBins()
        self.messages = 0
        self.bytes = 0

    def add(self, row: Record) -> None:
        """Adds a row of one of the tables."""
        if isinstance(row, FrameRecord):
            self._add_frame(row)
        elif isinstance(row, AnomalyRecord):
            self.event(row.ts_ns, row.anomaly)
        elif isinstance(row, RequestRecord):
            if row.outcome == outcomes.NO_RESPONDERS:
                self.event(row.replied_ns or row.sent_ns, NO_RESPONDERS)
        elif isinstance(row, DeliveryRecord) and (row.delivered_count or 0) > 1:
            self.event(row.ts_ns, REDELIVERED)

    def event(self, ts_ns: int, name: str) -> None:
        """Counts an event."""
        self.bins.add(ts_ns, Lane(EVENTS, name))

    def merge(self, other: Traffic) -> None:
        """Adds the traffic of another part."""
        self.bins.merge(other.bins)
        self.messages += other.messages
        self.bytes += other.bytes

    def _add_frame(self, row: FrameRecord) -> None:
        if row.op == "-ERR":
            self.event(row.ts_ns, ERROR)
        if row.payload_bytes is None:
            return
        size = row.payload_bytes + (row.header_bytes or 0)
        self.messages += 1
        self.bytes += size
        self.bins.add(row.ts_ns, Lane(MESSAGES, row.kind, row.sender))
        self.bins.add(row.ts_ns, Lane(BYTES, row.kind, row.sender), size)
