"""Messages that consumers delivered, each with the acks that the client sent.

The reply subject of a delivered message names its stream and consumer and the number of the attempt; a client
acknowledges by publishing to that subject (ADR-13, ADR-15):

    (empty) +ACK +OK         done                   -NAK [{"delay": NS}]     deliver again, perhaps later
    +WPI                     still working          +TERM [reason]           never deliver again
    +NXT [pull request]      done, and pull the next

A row waits for its ack, if necessary until the session ends; an acked row waits a little longer for repeated
acks. If the delivery itself is not in the capture, its ack proves it and makes the row.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

from ...durations import elapsed
from ...options import Payload
from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Record, text_of
from ..recent import HeldPayloads
from ..rows import CONSUMER, ODD, PAYLOAD, STREAM, SessionRow, head, lasting, mark
from .subjects import AckSubject, ack_subject

# By default, servers allow a consumer 1000 deliveries without an ack (max_ack_pending).
_UNACKED = 16_384
_SETTLED = 1024  # acked deliveries that wait for a confirmation
_REPEATED = 16  # acked deliveries that wait only for a repeated ack
_EMITTED = 4096  # keys of emitted rows: an ack that is repeated late is not a new delivery
_REASON = 256  # characters
_READ = 8192  # bytes of a message that are searched for a reason
_NOT_SEEN = Anomaly.DELIVERY_NOT_SEEN.value

# The server matches these by prefix, other acks as a whole (server/consumer.go: processAck).
_PREFIXES = ((b"-NAK", "nak"), (b"+TERM", "term"), (b"+NXT", "next"))
_UNITS = {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9}
_UNITS["h"] = 3600 * 10**9
_DURATION = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)(ns|us|µs|ms|s|m|h)")
_LONGEST_DURATION = 64


@dataclass(slots=True, kw_only=True)
class DeliveryRecord(SessionRow):
    """One message that a consumer delivered."""

    number: Annotated[
        int,
        "number of the delivery's frame; of the frame of the first ack, if the delivery was "
        "not captured",
    ]
    stream: Annotated[str, "name of the stream", STREAM]
    consumer: Annotated[str, "name of the consumer", CONSUMER]
    domain: Annotated[str | None, "JetStream domain, if the reply subject names it"] = None
    stream_seq: Annotated[int, "sequence of the message in the stream", TextColumn("seq", 6)]
    consumer_seq: Annotated[int, "sequence of the delivery; each attempt has its own"]
    delivered_count: Annotated[
        int,
        "number of the attempt to deliver this message, from 1",
        TextColumn("attempt", 7, short="try"),
    ]
    pending: Annotated[
        int, "messages that still waited for the consumer after this one", TextColumn("pending", 7)
    ]
    stored_ns: Annotated[int, "when the stream stored the message"]
    subject: Annotated[
        str | None,
        "subject of the message; absent if only the ack was captured",
        TextColumn("subject", 24, may_cut=True),
    ] = None
    payload_bytes: Annotated[int | None, "size of the payload"] = None
    ack: Annotated[
        str | None,
        "how the client acknowledged: ack, nak, term or next; progress if only that was sent;"
        " absent if nothing was seen",
        TextColumn("ack", 8),
    ] = None
    acks: Annotated[int, "number of acks that were sent, progress included"] = 0
    ack_ns: Annotated[int | None, "time of the acknowledgement in `ack`"] = None
    ack_latency_ns: Annotated[
        int | None, "time from the delivery to the acknowledgement in `ack`", lasting("after")
    ] = None
    nak_delay_ns: Annotated[
        int | None, "delay of the redelivery that a nak asked for", lasting("delay", 3)
    ] = None
    term_reason: Annotated[
        str | None, "reason that a term gave", TextColumn("reason", 16, may_cut=True, rank=2)
    ] = None
    confirmed_ns: Annotated[
        int | None, "when the server confirmed the ack, if the client asked for that"
    ] = None
    anomalies: Annotated[list[str] | None, "anomalies of the delivery or its acks", ODD] = None
    payload: Annotated[
        str | None, "the payload as text or in base64, if it was asked for", PAYLOAD
    ] = None
    payload_sha256: Annotated[str | None, "SHA-256 of the whole payload, if it was asked for"] = (
        None
    )


class Confirmation:
    """An ack that waits for its confirmation: a `Question`."""

    __slots__ = ("_row",)
    held_bytes = 0

    def __init__(self, row: DeliveryRecord) -> None:
        self._row = row

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Notes that the server confirmed the ack. A status, such as that of no responders, does not."""
        if frame.status is None and self._row.confirmed_ns is None:
            self._row.confirmed_ns = frame.ts_ns
        return False

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Returns no rows: the confirmation is a column of the delivery."""
        return ()


class Deliveries:
    """The deliveries of one session that wait for acks."""

    def __init__(self) -> None:
        self._unacked: OrderedDict[str, DeliveryRecord] = OrderedDict()
        self._settled: OrderedDict[str, DeliveryRecord] = OrderedDict()
        self._held = HeldPayloads()  # of these rows
        self._confirming: set[str] = set()
        self._emitted: OrderedDict[str, bool] = OrderedDict()  # whether the delivery was seen

    def deliver(
        self, frame: LayerFrame, ack_reply: AckSubject
    ) -> tuple[DeliveryRecord, list[Record]]:
        """Adds a delivered message; returns its row, and incomplete rows that are emitted early.

        Its ack may come first, because a delivery with missing bytes is complete only once the loss is
        certain. Then the delivery completes the row of the ack, unless that row is emitted already.
        """
        row, waits = self._waiting(ack_reply.key), True
        given_up: list[Record] = []
        if row is None or row.subject is not None:
            row = _row(frame, ack_reply)
            waits = self._emitted.get(ack_reply.key, True)
            if waits:
                given_up = self._put(ack_reply.key, row)
        else:
            row.number, row.ts_ns = frame.number, frame.ts_ns
            others = [each for each in row.anomalies or () if each != _NOT_SEEN]
            row.anomalies = others or None
        row.subject = ack_reply.subject or frame.subject
        row.payload_bytes = frame.payload_bytes
        if frame.shown is not Payload.NONE:
            row.payload, row.payload_sha256 = frame.shown_payload()
            if waits:
                self._held.add(row.payload)
                given_up += self._over(row)
        return row, given_up

    def _over(self, newest: DeliveryRecord) -> Iterator[Record]:
        """Emits incomplete rows early if the waiting rows hold too many payloads."""
        if self._held.are_too_many:
            yield from self._done()
        while self._held.are_too_many:
            key, row = next(iter(self._unacked.items()), ("", newest))
            if row is newest:
                return
            yield self._forgotten(key)

    def _forgotten(self, key: str) -> DeliveryRecord:
        row = self._unacked.pop(key)
        mark(row, Anomaly.FORGOTTEN.value)
        self._held.remove(row.payload)
        self._confirming.discard(key)
        return row

    def _put(self, key: str, row: DeliveryRecord) -> list[Record]:
        """Stores a row until its acks come; returns the row that is emitted early to make room."""
        unacked = self._unacked
        before = unacked.pop(key, None)
        if before is not None:
            self._held.remove(before.payload)
        elif len(unacked) >= _UNACKED:
            before = self._forgotten(next(iter(unacked)))
        unacked[key] = row
        return [] if before is None else [before]

    def acknowledge(
        self, frame: LayerFrame, ack: str
    ) -> tuple[DeliveryRecord | None, list[Record]]:
        """Adds an ack that a client sends; `ack` is `ack_of` its payload. Returns the row of its delivery, or
        None if that row is emitted already or this is not an ack, and the rows that are complete.
        """
        key, done = frame.subject or "", list[Record]()
        row = self._waiting(key)
        if row is None:
            ack_reply = ack_subject(key)
            if ack_reply is None:
                return None, []
            key = ack_reply.key
            row = self._waiting(key)
            if row is None:
                if key in self._emitted:
                    return None, []
                row = _row(frame, ack_reply)
                row.anomalies = [_NOT_SEEN]
                done += self._put(key, row)
        row.acks += 1
        _read_ack(row, frame, ack)
        if frame.reply and row.ack != "next":
            self._confirming.add(key)
        if row.ack != "progress" and key in self._unacked:
            before = self._settled.pop(key, None)
            if before:  # the same delivery, seen twice
                self._held.remove(before.payload)
                done.append(before)
            self._settled[key] = self._unacked.pop(key)
            done += self._done()
        return row, done

    def _waiting(self, key: str) -> DeliveryRecord | None:
        return self._unacked.get(key) or self._settled.get(key)

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields all remaining rows."""
        yield from self._settled.values()
        yield from self._unacked.values()
        self._settled, self._unacked = OrderedDict(), OrderedDict()

    def _done(self) -> list[DeliveryRecord]:
        """Removes and returns the acked rows that need not wait any longer."""
        settled, confirming, done = self._settled, self._confirming, []
        while len(settled) > _REPEATED or (settled and self._held.are_too_many):
            key = next(iter(settled))
            row = settled[key]
            if key in confirming and row.confirmed_ns is None:
                if len(settled) <= _SETTLED and not self._held.are_too_many:
                    break
            del settled[key]
            self._held.remove(row.payload)
            confirming.discard(key)
            self._emitted[key] = row.subject is not None
            if len(self._emitted) > _EMITTED:
                self._emitted.popitem(last=False)
            done.append(row)
        return done


def _row(frame: LayerFrame, ack_reply: AckSubject) -> DeliveryRecord:
    return DeliveryRecord(
        **head(frame),
        stream=ack_reply.stream,
        consumer=ack_reply.consumer,
        domain=ack_reply.domain or None,
        stream_seq=ack_reply.stream_seq,
        consumer_seq=ack_reply.consumer_seq,
        delivered_count=ack_reply.delivered,
        pending=ack_reply.pending,
        stored_ns=ack_reply.stored_ns,
    )


def ack_of(content: bytes) -> str:
    """The kind of an ack: `ack`, `nak`, `progress`, `term` or `next`; empty if the payload is not an ack."""
    if content in (b"", b"+ACK", b"+OK"):
        return "ack"
    if content == b"+WPI":
        return "progress"
    return next((ack for start, ack in _PREFIXES if content.startswith(start)), "")


def _read_ack(row: DeliveryRecord, frame: LayerFrame, ack: str) -> None:
    if not ack:
        mark(row, (Anomaly.BAD_ACK if frame.is_whole else Anomaly.TRUNCATED).value)
        return
    if row.ack not in (None, "progress"):
        return  # the first final ack counts
    row.ack, row.ack_ns = ack, frame.ts_ns
    if row.subject is not None:
        row.ack_latency_ns = elapsed(frame.ts_ns - row.ts_ns)
    if ack == "nak":
        row.nak_delay_ns = _delay(text_of(frame.content[4:]).strip())
    elif ack == "term":
        # Masked before it is cut, because the cut may lose the @ of bob:secret@.
        reason = frame.secrets.masked(text_of(frame.content[5:_READ]))
        row.term_reason = reason.strip()[:_REASON] or None


def _delay(delay_text: str) -> int | None:
    """The delay of a nak in ns, from JSON or a duration as Go writes it; None if it is neither."""
    if delay_text.startswith("{"):
        try:
            read = json.loads(delay_text)
        except (ValueError, RecursionError):
            return None
        delay = read.get("delay") if isinstance(read, dict) else None
        return delay if type(delay) is int and 0 <= delay < 1 << 63 else None
    if not delay_text or len(delay_text) > _LONGEST_DURATION or _DURATION.sub("", delay_text):
        return None
    return round(sum(float(size) * _UNITS[unit] for size, unit in _DURATION.findall(delay_text)))
