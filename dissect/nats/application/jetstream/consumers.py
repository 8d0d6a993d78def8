"""The consumers that a session uses: the latest API answer about each, its deliveries and acks."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Annotated

from ...durations import Durations
from ...schema.declaration import TextColumn
from ...schema.records import Record
from ...secrets.redact import Secrets
from ..json_bodies import Member, Object, fill, flag, masked_json, member, text, texts
from ..rows import CONSUMER, DOMAIN, ODD, STREAM, UsedRow, counted, head, lasting
from .api import Call
from .deliveries import DeliveryRecord
from .pulls import PullRecord
from .subjects import ConsumerKey
from .used import Named, Used

# So many last attempts of a consumer wait for their acks; further ones are not followed.
_LAST_ATTEMPTS = 10_000
_GIVEN_UP = 256


@dataclass(slots=True, kw_only=True)
class ConsumerRecord(UsedRow):
    """One consumer, as one session saw it."""

    number: Annotated[int, "number of the first frame that names the consumer"]
    last_ns: Annotated[int, "time of the last frame that concerns the consumer"]
    stream: Annotated[str, "name of the stream", STREAM]
    consumer: Annotated[str, "name of the consumer", CONSUMER]
    domain: Annotated[str | None, "JetStream domain, if a frame names it", DOMAIN] = None
    durable: Annotated[
        bool | None, "whether the consumer is durable, by its latest configuration"
    ] = None
    filter: Annotated[
        list[str] | None,
        "subjects that the consumer selects, by its latest configuration; the first 256",
        TextColumn("filter", 16, may_cut=True, rank=5, render=" ".join),
    ] = None
    ack_policy: Annotated[
        str | None, "acknowledgement policy: none, all or explicit", Member("config.ack_policy")
    ] = None
    deliver_policy: Annotated[
        str | None, "where the consumer begins: all, last, new ...", Member("config.deliver_policy")
    ] = None
    deliver_subject: Annotated[
        str | None, "subject to which a push consumer delivers", Member("config.deliver_subject")
    ] = None
    ack_wait_ns: Annotated[
        int | None,
        "time after which an unacknowledged message is delivered again",
        Member("config.ack_wait"),
        lasting("wait", 6),
    ] = None
    max_deliver: Annotated[
        int | None,
        "maximum number of attempts to deliver a message",
        Member("config.max_deliver"),
        TextColumn("tries", 5, rank=6, render=lambda tries: str(tries) if tries > 0 else ""),
    ] = None
    config: Annotated[str | None, "latest configuration in an answer of the API: JSON"] = None
    num_pending: Annotated[
        int | None,
        "number of messages that wait for the consumer, by the latest answer of the API",
        Member("num_pending"),
    ] = None
    num_ack_pending: Annotated[
        int | None,
        "number of deliveries without an ack, by the latest answer of the API",
        Member("num_ack_pending"),
    ] = None
    num_redelivered: Annotated[
        int | None,
        "number of messages that were delivered more than once, by the latest answer of the API",
        Member("num_redelivered"),
    ] = None
    num_waiting: Annotated[
        int | None,
        "number of pull requests that wait, by the latest answer of the API",
        Member("num_waiting"),
    ] = None
    paused: Annotated[
        bool | None, "whether the consumer is paused, by the latest answer of the API"
    ] = None
    created: Annotated[int, "how many times the consumer was created"] = 0
    deleted: Annotated[int, "how many times the consumer was deleted"] = 0
    pulls: Annotated[int, "number of pull requests", counted("pulls", 6, 4)] = 0
    pulled: Annotated[int, "number of messages that the pull requests asked for"] = 0
    heartbeats: Annotated[
        int, "number of idle heartbeats and flow control requests of a push consumer"
    ] = 0
    flow_controls: Annotated[int, "number of answers to flow control requests"] = 0
    deliveries: Annotated[int, "messages that the consumer delivered", counted("delivered", 9)] = 0
    delivery_bytes: Annotated[int, "bytes of payload in the delivered messages"] = 0
    redeliveries: Annotated[
        int, "deliveries that were not the first attempt", counted("again", 5)
    ] = 0
    max_deliveries: Annotated[int | None, "largest number of attempts to deliver one message"] = (
        None
    )
    missing: Annotated[
        int,
        "deliveries that the sequences skip: they went to other clients, or are lost in the "
        "capture",
    ] = 0
    acks: Annotated[int, "number of acks (+ACK and +NXT) that clients sent", counted("acks", 6)] = 0
    naks: Annotated[int, "number of negative acks (-NAK) that clients sent", counted("naks", 5)] = 0
    terms: Annotated[int, "number of terms (+TERM) that clients sent", counted("terms", 5, 2)] = 0
    progress: Annotated[int, "number of progress acks (+WPI) that clients sent"] = 0
    late_acks: Annotated[
        int | None,
        "number of acks that came later than `ack_wait_ns` (or the step of `backoff`) allows, without "
        "progress acks: the server delivers such messages again",
    ] = None
    given_up: Annotated[
        list[str] | None,
        "stream sequences of messages that were delivered `max_deliver` times and not acknowledged in time: "
        "the server delivers them no more; the first 256",
    ] = None
    last_stream_seq: Annotated[
        int | None, "highest stream sequence that the consumer delivered"
    ] = None
    first_pending: Annotated[
        int | None,
        "number of messages that waited after the first delivery",
        TextColumn("first", 7, rank=3),
    ] = None
    last_pending: Annotated[
        int | None,
        "number of messages that waited after the last delivery",
        TextColumn("pending", 7),
    ] = None
    max_pending: Annotated[
        int | None, "largest number of messages that waited for the consumer", TextColumn("most", 7)
    ] = None
    ack_median_ns: Annotated[
        int | None, "median time from a delivery to its ack", lasting("median")
    ] = None
    ack_p99_ns: Annotated[
        int | None, "99th percentile of the time from a delivery to its ack", lasting("p99", 1)
    ] = None
    age_median_ns: Annotated[
        int | None,
        "median age of the messages at their first delivery: the time since the stream stored"
        " them",
    ] = None
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if the session uses so many consumers that this row was made before its end; later facts "
        "are in another row",
        ODD,
    ] = None


@dataclass(slots=True)
class _OpenConsumer:
    """A row that is not complete yet."""

    row: ConsumerRecord
    latencies: Durations = field(default_factory=Durations)
    ages: Durations = field(default_factory=Durations)
    last_seq: int | None = None
    # By attempt, how long the server waits for an ack; the last one is that of all further attempts.
    waits_ns: list[int] = field(default_factory=list)
    # Messages whose last attempt waits for its ack, by stream sequence: when they are given up.
    last_attempts: OrderedDict[int, int] = field(default_factory=OrderedDict)
    given_up: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, named_by: Named, ts_ns: int, stream: str, consumer: str) -> _OpenConsumer:
        """Begins the row of a consumer."""
        return cls(
            ConsumerRecord(**head(named_by), last_ns=ts_ns, stream=stream, consumer=consumer)
        )

    def wait_ns(self, attempt: int) -> int | None:
        """How long the server waits for the ack of an attempt, if that is known."""
        waits = self.waits_ns
        return waits[min(attempt, len(waits)) - 1] if waits else None

    def attempt(self, made: DeliveryRecord) -> None:
        """Notes the last attempt to deliver a message."""
        wait_ns = self.wait_ns(made.delivered_count)
        if wait_ns and made.delivered_count == self.row.max_deliver:
            self.give_up(made.ts_ns)
            if len(self.last_attempts) < _LAST_ATTEMPTS:
                self.last_attempts[made.stream_seq] = made.ts_ns + wait_ns

    def settle(self, made: DeliveryRecord, ts_ns: int) -> None:
        """Takes the first final ack of a delivery."""
        self.give_up(ts_ns)
        wait_ns = self.wait_ns(made.delivered_count)
        if wait_ns and made.acks == 1 and made.ack_latency_ns is not None:
            self.row.late_acks = (self.row.late_acks or 0) + (made.ack_latency_ns > wait_ns)
        if made.ack != "nak":
            self.last_attempts.pop(made.stream_seq, None)
            if self.row.ack_policy == "all":
                for seq in [each for each in self.last_attempts if each < made.stream_seq]:
                    del self.last_attempts[seq]

    def give_up(self, ts_ns: int) -> None:
        """Notes the messages that are given up by this time."""
        attempts = self.last_attempts
        while attempts and next(iter(attempts.values())) < ts_ns:
            seq, _ = attempts.popitem(last=False)
            if len(self.given_up) < _GIVEN_UP:
                self.given_up.append(str(seq))

    def finish(self) -> ConsumerRecord:
        """Completes the row."""
        row = self.row
        self.give_up(row.last_ns)
        row.given_up = self.given_up or None
        row.late_acks = row.late_acks or None
        row.ack_median_ns = self.latencies.quantile(50)
        row.ack_p99_ns = self.latencies.quantile(99)
        row.age_median_ns = self.ages.quantile(50)
        return row


class Consumers(Used[_OpenConsumer]):
    """The consumers of one session."""

    def __init__(self, early: list[Record]) -> None:
        super().__init__(_OpenConsumer.start, early)
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
        found = self.use(asked, ts_ns, asked.stream, name)
        row = found.row
        if "config" in response:
            self._describe(found, response, call.secrets)
        if asked.api in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            row.created += bool(response)
        elif asked.api == "CONSUMER.DELETE":
            row.deleted += response.get("success") is True
        elif asked.api == "CONSUMER.PAUSE":
            row.paused = flag(response, "paused")

    def pull(self, made: PullRecord) -> None:
        """Counts a pull request."""
        row = self.use(made, made.ts_ns, made.stream, made.consumer).row
        row.pulls += 1
        row.pulled += made.batch

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts a delivery."""
        found = self.use(made, made.ts_ns, made.stream, made.consumer)
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
        found.attempt(made)
        if row.last_stream_seq is None or made.stream_seq > row.last_stream_seq:
            row.last_stream_seq = made.stream_seq
        if row.first_pending is None:
            row.first_pending = made.pending
        row.last_pending = made.pending
        if row.max_pending is None or made.pending > row.max_pending:
            row.max_pending = made.pending

    def acknowledge(self, made: DeliveryRecord, ack: str, ts_ns: int) -> None:
        """Counts an ack."""
        found = self.use(made, ts_ns, made.stream, made.consumer)
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
        if is_final:
            found.settle(made, ts_ns)

    def heartbeat(self, account: str | None, subject: str) -> None:
        """Counts an idle heartbeat or flow control request; `subject` is the consumer's deliver subject."""
        key = self._by_subject.get((account, subject))
        found = self._entries.peek(key) if key else None
        if found:
            found.row.heartbeats += 1

    def flow_control(self, account: str | None, subject: str) -> None:
        """Counts an answer to a flow control request: `$JS.FC.STREAM.CONSUMER.ID`."""
        tokens = subject.split(".")
        if len(tokens) in (5, 7):
            found = self._entries.peek((account, tokens[-3], tokens[-2]))
            if found:
                found.row.flow_controls += 1

    def _list(self, call: Call, ts_ns: int) -> None:
        listed = call.response.get("consumers")
        for item in listed if isinstance(listed, list) else ():
            name = text(item, "name") if isinstance(item, dict) else ""
            stream = call.row.stream
            if stream and name:
                self._describe(self.use(call.row, ts_ns, stream, name), item, call.secrets)

    def _forget(self, entry: _OpenConsumer) -> None:
        self._deliver_to(entry.row, "")
        super()._forget(entry)

    def _deliver_to(self, row: ConsumerRecord, subject: str) -> None:
        """Notes the subject to which a consumer delivers, if it is not empty, in place of the one before."""
        key = row.account, row.stream, row.consumer
        before = row.account, row.deliver_subject or ""
        if self._by_subject.get(before) == key:
            del self._by_subject[before]
        if subject:
            self._by_subject[row.account, subject] = key

    def _describe(self, found: _OpenConsumer, info: Object, secrets: Secrets) -> None:
        """Takes configuration and state from an answer of the API."""
        row, config = found.row, member(info, "config")
        self._deliver_to(row, text(config, "deliver_subject"))
        fill(row, info)
        row.config = masked_json(config, secrets)
        backoff = config.get("backoff")
        waits = backoff if isinstance(backoff, list) and backoff else [row.ack_wait_ns]
        acked = row.ack_policy != "none"
        found.waits_ns = [each for each in waits if type(each) is int and each > 0 and acked]
        row.durable = bool(text(config, "durable_name"))
        row.filter = texts(config, "filter_subjects")
        if not isinstance(config.get("filter_subjects"), list):
            row.filter = [name] if (name := text(config, "filter_subject")) else None
        # Servers send `paused` only if it is true, and never before 2.11 (server/consumer.go: omitempty).
        if (paused := flag(info, "paused")) or row.paused is not None:
            row.paused = bool(paused)
