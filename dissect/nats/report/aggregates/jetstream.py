"""JetStream over all sessions: streams, consumers, waiting messages over time, acks, redeliveries, errors."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...application.jetstream.api import ApiRecord
from ...application.jetstream.consumers import ConsumerRecord
from ...application.jetstream.deliveries import DeliveryRecord
from ...application.jetstream.publishes import PublishRecord
from ...application.jetstream.pulls import PullRecord
from ...application.jetstream.streams import StreamRecord
from ...durations import Durations, bucket_of
from ...outcomes import is_error_status
from ...schema.records import Record
from ...types import EARLIEST_NS
from ..bounded.collections import Keyed
from ..bounded.time_bins import TimeBins

NAMED = 300
"""The limit for streams, and for consumers, that are counted separately."""
DRAWN = 8
"""The number of consumers whose lag is drawn."""

OTHERS = ("", "", "(others)", "")

Name = tuple[str, str, str, str]
"""Account, domain, stream and consumer; the consumer is empty for a stream, and the account is known only on
connections between servers."""


def others(key: Name) -> Name:
    """The name under which rare names are merged."""
    return OTHERS


@dataclass(slots=True)
class Stream:
    """One stream over all sessions. `messages` and `consumers` are the latest values of the API."""

    publishes: int = 0
    publish_bytes: int = 0
    publish_errors: int = 0
    duplicates: int = 0
    deliveries: int = 0
    redeliveries: int = 0
    created: int = 0
    deleted: int = 0
    purged: int = 0
    last_seq: int = 0
    messages: int | None = None
    consumers: int | None = None
    updated_ns: int = EARLIEST_NS

    @property
    def weight(self) -> int:
        """Messages, plus 1000 for each deletion and each failed publication."""
        return self.publishes + self.deliveries + 1000 * (self.deleted + self.publish_errors)

    def merge(self, other: Stream) -> None:
        """Adds the counts of another session; its latest values replace older ones."""
        for name in _STREAM_SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.last_seq = max(self.last_seq, other.last_seq)
        if other.messages is not None and other.updated_ns > self.updated_ns:
            self.messages, self.consumers = other.messages, other.consumers
            self.updated_ns = other.updated_ns


_STREAM_SUMS = (
    "publishes publish_bytes publish_errors duplicates deliveries redeliveries created deleted purged"
).split()


@dataclass(slots=True)
class Consumer:
    """One consumer over all sessions. `pending` is the latest value of a delivery or of the API."""

    pulls: int = 0
    deliveries: int = 0
    redeliveries: int = 0
    missing: int = 0
    acks: int = 0
    naks: int = 0
    terms: int = 0
    max_deliveries: int = 0
    max_pending: int = 0
    ack_p99_ns: int = 0
    pending: int | None = None
    ack_pending: int | None = None
    updated_ns: int = EARLIEST_NS

    @property
    def weight(self) -> int:
        """Deliveries and pulls, plus 100 for each redelivery."""
        return self.deliveries + self.pulls + 100 * self.redeliveries

    def merge(self, other: Consumer) -> None:
        """Adds the counts of another session; its latest values replace older ones."""
        for name in _CONSUMER_SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in _CONSUMER_HIGHEST:
            setattr(self, name, max(getattr(self, name), getattr(other, name)))
        if other.updated_ns > self.updated_ns:
            self.updated_ns = other.updated_ns
            self.pending = self.pending if other.pending is None else other.pending
            self.ack_pending = self.ack_pending if other.ack_pending is None else other.ack_pending


_CONSUMER_SUMS = "pulls deliveries redeliveries missing acks naks terms".split()
_CONSUMER_HIGHEST = "max_deliveries max_pending ack_p99_ns".split()


class JetStream:
    """The contents of the JetStream tables, aggregated."""

    tables = ("streams", "consumers", "publishes", "deliveries", "pulls", "api")

    def __init__(self) -> None:
        self.streams: Keyed[Name, Stream] = Keyed(Stream, others, NAMED)
        self.consumers: Keyed[Name, Consumer] = Keyed(Consumer, others, NAMED)
        self.lag: TimeBins[Name] = TimeBins(max)
        self._known: set[Name] = set()
        self.acks: TimeBins[int] = TimeBins()
        self.ack_latency = Durations()
        self.publish_latency = Durations()
        self.pull_ends: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()

    def add(self, row: Record) -> None:
        """Adds a row of one of the tables."""
        if isinstance(row, DeliveryRecord):
            self._add_delivery(row)
        elif isinstance(row, PublishRecord):
            if row.latency_ns is not None:
                self.publish_latency.add(row.latency_ns)
            self._note_error(row, "publish")
        elif isinstance(row, PullRecord):
            self.pull_ends[row.end or "open"] += 1
        elif isinstance(row, ApiRecord):
            _count(self.calls, row.api)
            self._note_error(row, row.api)
        elif isinstance(row, StreamRecord):
            self._add_stream(row)
        elif isinstance(row, ConsumerRecord):
            self._add_consumer(row)

    def merge(self, other: JetStream) -> None:
        """Adds the contents of another part."""
        self.streams.merge(other.streams)
        self.consumers.merge(other.consumers)
        self.lag.merge(other.lag.renamed(self._known_name))
        self.acks.merge(other.acks)
        self.ack_latency.merge(other.ack_latency)
        self.publish_latency.merge(other.publish_latency)
        for mine, theirs in (
            (self.pull_ends, other.pull_ends),
            (self.calls, other.calls),
            (self.errors, other.errors),
        ):
            mine.update(theirs)

    @property
    def drawn_lag(self) -> TimeBins[Name]:
        """The lag of the consumers for which the most messages waited, and of the others together. The choice
        does not depend on the order of the rows, or on the parts that were merged."""
        most: Counter[Name] = Counter()
        for _, numbers in self.lag.bins:
            for name, number in numbers.items():
                if name != OTHERS:
                    most[name] = max(most[name], number)
        drawn = set(sorted(most, key=lambda name: (-most[name], name))[:DRAWN])
        return self.lag.renamed(lambda name: name if name in drawn else OTHERS)

    @property
    def is_empty(self) -> bool:
        """Whether no session used JetStream."""
        counts = self.calls, self.errors, self.ack_latency.count
        return not (len(self.streams) or len(self.consumers) or any(counts))

    def _note_error(self, row: ApiRecord | PublishRecord, call: str) -> None:
        if is_error_status(row.code):
            number = f" ({row.err_code})" if row.err_code else ""
            _count(self.errors, f"{call}: {row.code} {row.error or ''}{number}")

    def _known_name(self, name: Name) -> Name:
        """The name of a consumer, or that of the others if there are too many."""
        if len(self._known) < NAMED:
            self._known.add(name)
        return name if name in self._known else OTHERS

    def _add_delivery(self, row: DeliveryRecord) -> None:
        name = _name(row, row.consumer)
        if row.pending is not None:
            self.lag.add(row.ts_ns, self._known_name(name), row.pending)
        if row.ack_latency_ns is not None:
            self.ack_latency.add(row.ack_latency_ns)
            self.acks.add(row.ts_ns, bucket_of(row.ack_latency_ns))

    def _add_stream(self, row: StreamRecord) -> None:
        seen = Stream(**{name: getattr(row, name) for name in _STREAM_SUMS})
        seen.last_seq = row.last_seq or 0
        seen.messages, seen.consumers, seen.updated_ns = (
            row.messages,
            row.consumer_count,
            row.last_ns,
        )
        self.streams[_name(row)].merge(seen)

    def _add_consumer(self, row: ConsumerRecord) -> None:
        seen = Consumer(**{name: getattr(row, name) or 0 for name in _CONSUMER_SUMS})
        for name in _CONSUMER_HIGHEST:
            setattr(seen, name, getattr(row, name) or 0)
        seen.pending = row.last_pending if row.last_pending is not None else row.num_pending
        seen.ack_pending, seen.updated_ns = row.num_ack_pending, row.last_ns
        self.consumers[_name(row, row.consumer)].merge(seen)


def _name(row: StreamRecord | ConsumerRecord | DeliveryRecord, consumer: str = "") -> Name:
    return row.account or "", row.domain or "", row.stream, consumer


def _count(counts: Counter[str], name: str) -> None:
    """Counts one more of this name, or of the others if there are too many names."""
    counts[name if name in counts or len(counts) < NAMED else OTHERS[2]] += 1
