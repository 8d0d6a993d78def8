"""The consumers that a session uses: the latest API answer about each, its deliveries and acks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Annotated

from ...durations import Durations
from ...schema.anomalies import Anomaly
from ...schema.records import Record
from ..json_bodies import Object, flag, masked_json, member, number, text
from ..recent import Recent
from .api import Call
from .deliveries import DeliveryRecord
from .pulls import PullRecord
from .streams import SUBJECTS, Named
from .subjects import ConsumerKey

_CONSUMERS = 4096  # of a session whose rows are not complete yet


@dataclass(slots=True, kw_only=True)
class ConsumerRecord(Record):
    """One consumer, as one session saw it."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "number of the first frame that names the consumer"]
    ts_ns: Annotated[int, "time of that frame"]
    last_ns: Annotated[int, "time of the last frame that concerns the consumer"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on connections between servers"] = None
    stream: Annotated[str, "name of the stream"]
    consumer: Annotated[str, "name of the consumer"]
    domain: Annotated[str | None, "JetStream domain, if a frame names it"] = None
    durable: Annotated[
        bool | None, "whether the consumer is durable, by its latest configuration"
    ] = None
    filter: Annotated[
        list[str] | None,
        "subjects that the consumer selects, by its latest configuration; the first 256",
    ] = None
    ack_policy: Annotated[str | None, "acknowledgement policy: none, all or explicit"] = None
    deliver_policy: Annotated[str | None, "where the consumer begins: all, last, new ..."] = None
    deliver_subject: Annotated[str | None, "subject to which a push consumer delivers"] = None
    ack_wait_ns: Annotated[
        int | None, "time after which an unacknowledged message is delivered again"
    ] = None
    max_deliver: Annotated[int | None, "maximum number of attempts to deliver a message"] = None
    config: Annotated[str | None, "latest configuration in an answer of the API: JSON"] = None
    num_pending: Annotated[
        int | None, "number of messages that wait for the consumer, by the latest answer of the API"
    ] = None
    num_ack_pending: Annotated[
        int | None, "number of deliveries without an ack, by the latest answer of the API"
    ] = None
    num_redelivered: Annotated[
        int | None,
        "number of messages that were delivered more than once, by the latest answer of the " "API",
    ] = None
    num_waiting: Annotated[
        int | None, "number of pull requests that wait, by the latest answer of the API"
    ] = None
    paused: Annotated[
        bool | None, "whether the consumer is paused, by the latest answer of the API"
    ] = None
    created: Annotated[int, "how many times the consumer was created"] = 0
    deleted: Annotated[int, "how many times the consumer was deleted"] = 0
    pulls: Annotated[int, "number of pull requests"] = 0
    pulled: Annotated[int, "number of messages that the pull requests asked for"] = 0
    heartbeats: Annotated[
        int, "number of idle heartbeats and flow control requests of a push consumer"
    ] = 0
    flow_controls: Annotated[int, "number of answers to flow control requests"] = 0
    deliveries: Annotated[int, "messages that the consumer delivered"] = 0
    delivery_bytes: Annotated[int, "bytes of payload in the delivered messages"] = 0
    redeliveries: Annotated[int, "deliveries that were not the first attempt"] = 0
    max_deliveries: Annotated[int | None, "largest number of attempts to deliver one message"] = (
        None
    )
    missing: Annotated[
        int,
        "deliveries that the sequences skip: they went to other clients, or are lost in the "
        "capture",
    ] = 0
    acks: Annotated[int, "number of acks (+ACK and +NXT) that clients sent"] = 0
    naks: Annotated[int, "number of negative acks (-NAK) that clients sent"] = 0
    terms: Annotated[int, "number of terms (+TERM) that clients sent"] = 0
    progress: Annotated[int, "number of progress acks (+WPI) that clients sent"] = 0
    last_stream_seq: Annotated[
        int | None, "highest stream sequence that the consumer delivered"
    ] = None
    first_pending: Annotated[
        int | None, "number of messages that waited after the first delivery"
    ] = None
    last_pending: Annotated[
        int | None, "number of messages that waited after the last delivery"
    ] = None
    max_pending: Annotated[
        int | None, "largest number of messages that waited for the consumer"
    ] = None
    ack_median_ns: Annotated[int | None, "median time from a delivery to its ack"] = None
    ack_p99_ns: Annotated[int | None, "99th percentile of the time from a delivery to its ack"] = (
        None
    )
    age_median_ns: Annotated[
        int | None,
        "median age of the messages at their first delivery: the time since the stream stored"
        " them",
    ] = None
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if the session uses so many consumers that this row was made before its end; later facts "
        "are in another row",
    ] = None


@dataclass(slots=True)
class _Consumer:
    """A row that is not complete yet."""

    row: ConsumerRecord
    latencies: Durations = field(default_factory=Durations)
    ages: Durations = field(default_factory=Durations)
    last_seq: int | None = None

    def finish(self) -> ConsumerRecord:
        """Completes the row."""
        row = self.row
        row.ack_median_ns = self.latencies.quantile(50)
        row.ack_p99_ns = self.latencies.quantile(99)
        row.age_median_ns = self.ages.quantile(50)
        return row


class Consumers:
    """The consumers of one session. If there are too many, the row of the one that was not used for longest
    is added to `early`."""

    def __init__(self, early: list[Record]) -> None:
        self._early = early
        self._consumers = Recent[ConsumerKey, _Consumer](_CONSUMERS)
        # Push consumers by account and the subject to which they deliver.
        self._by_subject: dict[tuple[str | None, str], ConsumerKey] = {}

    def call(self, call: Call, ts_ns: int) -> None:
        """Takes facts from a finished API call."""
        asked, response = call.row, call.response
        if not asked.api.startswith("CONSUMER.") or not asked.stream or asked.code is not None:
            return
        if asked.api == "CONSUMER.LIST":
            self._list(call, ts_ns)
            return
        name = asked.consumer or text(response, "name")
        if not name:
            return
        row = self._consumer(asked, asked.stream, name, ts_ns).row
        if "config" in response:
            self._describe(row, response)
        if asked.api in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            row.created += bool(response)
        elif asked.api == "CONSUMER.DELETE":
            row.deleted += response.get("success") is True
        elif asked.api == "CONSUMER.PAUSE":
            row.paused = flag(response, "paused")

    def pull(self, made: PullRecord) -> None:
        """Counts a pull request."""
        row = self._consumer(made, made.stream, made.consumer, made.ts_ns).row
        row.pulls += 1
        row.pulled += made.batch

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts a delivery."""
        found = self._consumer(made, made.stream, made.consumer, made.ts_ns)
        row = found.row
        row.deliveries += 1
        row.delivery_bytes += made.payload_bytes or 0
        if made.delivered_count > 1:
            row.redeliveries += 1
        else:
            found.ages.add(max(0, made.ts_ns - made.stored_ns))
        if row.max_deliveries is None or made.delivered_count > row.max_deliveries:
            row.max_deliveries = made.delivered_count
        if found.last_seq is not None and made.consumer_seq > found.last_seq:
            row.missing += made.consumer_seq - found.last_seq - 1
        found.last_seq = made.consumer_seq
        if row.last_stream_seq is None or made.stream_seq > row.last_stream_seq:
            row.last_stream_seq = made.stream_seq
        if row.first_pending is None:
            row.first_pending = made.pending
        row.last_pending = made.pending
        if row.max_pending is None or made.pending > row.max_pending:
            row.max_pending = made.pending

    def acknowledge(self, made: DeliveryRecord, ack: str, ts_ns: int) -> None:
        """Counts an ack."""
        found = self._consumer(made, made.stream, made.consumer, ts_ns)
        row = found.row
        if ack == "ack" or ack == "next":
            row.acks += 1
        else:
            row.naks += ack == "nak"
            row.terms += ack == "term"
            row.progress += ack == "progress"
        is_final = ack == made.ack and ack != "progress" and ts_ns == made.ack_ns
        if is_final and made.ack_latency_ns is not None:
            found.latencies.add(made.ack_latency_ns)

    def heartbeat(self, account: str | None, subject: str) -> None:
        """Counts an idle heartbeat or flow control request; `subject` is the consumer's deliver subject."""
        key = self._by_subject.get((account, subject))
        found = self._consumers.peek(key) if key else None
        if found:
            found.row.heartbeats += 1

    def flow_control(self, account: str | None, subject: str) -> None:
        """Counts an answer to a flow control request: `$JS.FC.STREAM.CONSUMER.ID`."""
        tokens = subject.split(".")
        if len(tokens) in (5, 7):
            found = self._consumers.peek((account, tokens[-3], tokens[-2]))
            if found:
                found.row.flow_controls += 1

    def finish(self) -> Iterator[Record]:
        """The remaining rows, in order."""
        for each in sorted(self._consumers.values(), key=attrgetter("row.number")):
            yield each.finish()

    def _list(self, call: Call, ts_ns: int) -> None:
        listed = call.response.get("consumers")
        for item in listed if isinstance(listed, list) else ():
            name = text(item, "name") if isinstance(item, dict) else ""
            stream = call.row.stream
            if stream and name:
                self._describe(self._consumer(call.row, stream, name, ts_ns).row, item)

    def _consumer(self, made: Named, stream: str, name: str, ts_ns: int) -> _Consumer:
        key = made.account, stream, name
        found = self._consumers.get(key)
        if found is None:
            row = ConsumerRecord(
                session=made.session,
                number=made.number,
                ts_ns=made.ts_ns,
                last_ns=ts_ns,
                kind=made.kind,
                account=made.account,
                stream=stream,
                consumer=name,
            )
            found = _Consumer(row)
            forgotten = self._consumers.put(key, found)
            if forgotten:
                self._deliver_to(forgotten.row, "")
                forgotten.row.anomalies = [Anomaly.FORGOTTEN.value]
                self._early.append(forgotten.finish())
        row = found.row
        if made.number < row.number:
            row.number, row.ts_ns = made.number, made.ts_ns
        if ts_ns > row.last_ns:
            row.last_ns = ts_ns
        row.domain = row.domain or made.domain
        return found

    def _deliver_to(self, row: ConsumerRecord, subject: str) -> None:
        """Notes the subject to which a consumer delivers, if it is not empty, in place of the one before."""
        key = row.account, row.stream, row.consumer
        before = row.account, row.deliver_subject or ""
        if self._by_subject.get(before) == key:
            del self._by_subject[before]
        if subject:
            self._by_subject[row.account, subject] = key

    def _describe(self, row: ConsumerRecord, info: Object) -> None:
        """Takes configuration and state from an answer of the API."""
        config = member(info, "config")
        self._deliver_to(row, text(config, "deliver_subject"))
        row.config = masked_json(config)
        row.durable = bool(text(config, "durable_name"))
        filters = config.get("filter_subjects")
        named = filters if isinstance(filters, list) else [text(config, "filter_subject")]
        row.filter = [item for item in named if isinstance(item, str) and item][:SUBJECTS] or None
        row.ack_policy = text(config, "ack_policy") or None
        row.deliver_policy = text(config, "deliver_policy") or None
        row.deliver_subject = text(config, "deliver_subject") or None
        row.ack_wait_ns = number(config, "ack_wait")
        row.max_deliver = number(config, "max_deliver")
        row.num_pending = number(info, "num_pending")
        row.num_ack_pending = number(info, "num_ack_pending")
        row.num_redelivered = number(info, "num_redelivered")
        row.num_waiting = number(info, "num_waiting")
        # Servers send `paused` only if it is true, and never before 2.11 (server/consumer.go: omitempty).
        if (paused := flag(info, "paused")) or row.paused is not None:
            row.paused = bool(paused)
