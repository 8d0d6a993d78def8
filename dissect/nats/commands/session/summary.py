"""A session above NATS in a few lines: one for each table that has rows of the session, and one for the
subjects that NATS reserves, which counts traffic that no table decodes (Raft, JetStream between servers).

Memory is bounded: rows are counted as they come.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ...application.jetstream.api import ApiRecord
from ...application.jetstream.consumers import ConsumerRecord
from ...application.jetstream.deliveries import DeliveryRecord
from ...application.jetstream.kv import KvRecord
from ...application.jetstream.objects import ObjectRecord
from ...application.jetstream.publishes import PublishRecord
from ...application.jetstream.pulls import PullRecord
from ...application.jetstream.streams import StreamRecord
from ...application.jetstream.subjects import purpose
from ...application.messages import is_message
from ...application.services import ServiceRecord
from ...application.streaming.records import StreamingRecord
from ...number_formats import count_text, duration_text, size_text
from ...schema.records import FrameRecord, Record
from ...tables import TABLE_OF, TABLES

_NAMED = 8  # kinds or names on a line; the others are counted
_KINDS = 256  # kinds that are counted separately; the others are one


class SummaryLine(NamedTuple):
    """A session's rows of one table, in words; `table` is `subjects` for the subjects that NATS reserves."""

    table: str
    text: str


class SessionSummary:
    """The lines of one session. `add` takes its frames, and its rows of the tables in `SUMMARIZED`."""

    def __init__(self) -> None:
        self._messages: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._rows: Counter[str] = Counter()
        self._odd: Counter[str] = Counter()
        self._kinds: dict[str, Counter[str]] = {}
        self._names: dict[str, list[str]] = {}

    def add(self, record: Record) -> None:
        """Counts a frame or a row."""
        if isinstance(record, FrameRecord):
            self._add_frame(record)
            return
        table = TABLE_OF[record.__class__].name
        if table not in _KIND_OF and table not in _TEXT_OF:
            return
        self._rows[table] += 1
        self._odd[table] += bool(getattr(record, "anomalies", None))
        if table in _TEXT_OF:
            names = self._names.setdefault(table, [])
            if len(names) < _NAMED:
                names.append(_TEXT_OF[table](record))
            return
        kinds, kind = self._kinds.setdefault(table, Counter()), _KIND_OF[table](record)
        kinds[kind if kind in kinds or len(kinds) < _KINDS else "other"] += 1

    def lines(self) -> Iterator[SummaryLine]:
        """The lines, in the order of the tables."""
        for table in (name for name in SUMMARIZED if self._rows[name]):
            rows, named = self._rows[table], self._names.get(table)
            text = "; ".join(named) if named else f"{rows}: {_counts(self._kinds[table])}"
            if named and rows > len(named):
                text += f"; and {rows - len(named)} more"
            if self._odd[table]:
                text += f"; {count_text(self._odd[table], 'row')} with anomalies"
            yield SummaryLine(table, text)
        if self._messages:
            parts = (
                f"{name} {count_text(count, 'message')} ({size_text(self._bytes[name])})"
                for name, count in self._messages.most_common()
            )
            yield SummaryLine("subjects", ", ".join(parts))

    def _add_frame(self, frame: FrameRecord) -> None:
        name = purpose(frame.subject or "") if is_message(frame) else ""
        if name:
            self._messages[name] += 1
            self._bytes[name] += frame.payload_bytes or 0


def _counts(kinds: Counter[str]) -> str:
    shown = kinds.most_common(_NAMED)
    others = kinds.total() - sum(count for _, count in shown)
    return ", ".join(f"{count} {kind}" for kind, count in [*shown, *_others(others)])


def _others(count: int) -> list[tuple[str, int]]:
    return [("other", count)] if count else []


def _api(row: ApiRecord) -> str:
    return f"{row.api} failed" if row.error is not None or row.code is not None else row.api


def _publish(row: PublishRecord) -> str:
    if row.error is not None or row.code is not None:
        return "refused"
    if row.seq is None:  # in an atomic batch, only the last message is acked
        is_part = row.batch_id is not None and not row.batch_commit
        return "in a batch" if is_part else "without an ack"
    return "duplicate" if row.duplicate else "stored"


def _delivery(row: DeliveryRecord) -> str:
    again = " of a later attempt" if row.delivered_count > 1 else ""
    return (row.ack or "without an ack") + again


def _pull(row: PullRecord) -> str:
    return f"ended by {row.end}" if row.end.isdigit() else row.end


def _operation(row: KvRecord | ObjectRecord | StreamingRecord) -> str:
    return f"{row.op} failed" if row.error is not None else row.op


def _stream(row: StreamRecord) -> str:
    return f"{row.stream} {row.publishes} published, {row.deliveries} delivered"


def _consumer(row: ConsumerRecord) -> str:
    text = f"{row.stream}/{row.consumer} {row.deliveries} delivered"
    if row.redeliveries:
        text += f", {row.redeliveries} again"
    if row.last_pending is not None:
        text += f", {row.last_pending} waited at last"
    if row.ack_median_ns is not None:
        text += f", acks after {duration_text(row.ack_median_ns)} (median)"
    return text


def _service(row: ServiceRecord) -> str:
    name = f"{row.service} {row.subject}" if row.service else row.subject
    text = f"{name} {count_text(row.requests, 'request')}, {count_text(row.errors, 'error')}"
    if row.latency_median_ns is not None:
        text += f", {duration_text(row.latency_median_ns)} (median)"
    return text


# Tables whose rows are counted by kind, and tables whose rows are listed.
_KIND_OF: dict[str, Callable[..., str]] = {
    "api": _api,
    "publishes": _publish,
    "deliveries": _delivery,
    "pulls": _pull,
    "kv": _operation,
    "objects": _operation,
    "streaming": _operation,
}
_TEXT_OF: dict[str, Callable[..., str]] = {
    "streams": _stream,
    "consumers": _consumer,
    "services": _service,
}
SUMMARIZED = tuple(name for name in TABLES if name in _KIND_OF or name in _TEXT_OF)
"""The tables that have a line."""
