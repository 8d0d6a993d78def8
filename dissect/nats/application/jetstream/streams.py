"""The streams that a session uses: what the API last said of each, and what was published and delivered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Protocol

from ...records import Record
from ..json_bodies import Object, member, number, shown, text
from .api import Call
from .deliveries import DeliveryRecord
from .publishes import PublishRecord

# Streams of a session that have rows; those that come later are only in the tables of single messages.
_STREAMS = 4096
_SUBJECTS = 256


class Named(Protocol):
    """A record about a stream."""

    session: str
    number: int
    ts_ns: int
    kind: str
    account: str | None
    domain: str | None


@dataclass(slots=True, kw_only=True)
class StreamRecord(Record):
    """One stream, as one session saw it."""

    session: Annotated[str, "session id: 16 hex digits"]
    number: Annotated[int, "number of the frame that first names it"]
    ts_ns: Annotated[int, "time of that frame"]
    last_ns: Annotated[int, "time of the last frame about it"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on server links"] = None
    stream: Annotated[str, "name"]
    domain: Annotated[str | None, "JetStream domain, where it is said"] = None
    subjects: Annotated[list[str] | None, "subjects it stores, as last configured"] = None
    retention: Annotated[str | None, "limits, interest or workqueue"] = None
    storage: Annotated[str | None, "file or memory"] = None
    replicas: Annotated[int | None, "copies of it"] = None
    config: Annotated[str | None, "configuration as last said by the API: JSON"] = None
    messages: Annotated[int | None, "messages in it, as last said by the API"] = None
    bytes: Annotated[int | None, "their size"] = None
    first_seq: Annotated[int | None, "sequence of the oldest one"] = None
    last_seq: Annotated[int | None, "highest sequence seen: in the API, acks and deliveries"] = None
    consumer_count: Annotated[int | None, "its consumers, as last said by the API"] = None
    leader: Annotated[str | None, "server that leads it, as last said by the API"] = None
    created: Annotated[int, "times it was created, successfully"] = 0
    deleted: Annotated[int, "times it was deleted, successfully"] = 0
    purged: Annotated[int, "messages that were purged"] = 0
    publishes: Annotated[int, "messages published to it, with its ack"] = 0
    publish_bytes: Annotated[int, "their payloads"] = 0
    publish_errors: Annotated[int, "publications that it refused"] = 0
    duplicates: Annotated[int, "publications that it had already"] = 0
    deliveries: Annotated[int, "messages that its consumers delivered"] = 0
    delivery_bytes: Annotated[int, "their payloads"] = 0
    redeliveries: Annotated[int, "deliveries that were not the first attempt"] = 0
    acks: Annotated[int, "acks sent"] = 0
    naks: Annotated[int, "negative acks sent"] = 0
    terms: Annotated[int, "terms sent"] = 0
    max_pending: Annotated[int | None, "most messages that waited for one of its consumers"] = None


class Streams:
    """The streams of one session."""

    def __init__(self) -> None:
        self._rows: dict[str, StreamRecord] = {}

    def call(self, call: Call, ts_ns: int) -> None:
        """Learns from a finished API call."""
        asked, response = call.row, call.response
        if asked.api == "STREAM.LIST":
            self._list(call, ts_ns)
        if not asked.stream or asked.code is not None:
            return
        row = self._row(asked, asked.stream, ts_ns)
        if row is None:
            return
        if "config" in response and asked.api.startswith("STREAM."):
            _describe(row, response)
        if asked.api == "STREAM.CREATE":
            row.created += bool(response)
        elif asked.api == "STREAM.DELETE":
            row.deleted += response.get("success") is True
        elif asked.api == "STREAM.PURGE":
            row.purged += number(response, "purged") or 0

    def publish(self, made: PublishRecord, ts_ns: int) -> None:
        """Counts a publication that was answered."""
        row = self._row(made, made.stream, ts_ns) if made.stream else None
        if row is None:
            return
        if made.error is not None or made.code is not None:
            row.publish_errors += 1
            return
        row.publishes += 1
        row.publish_bytes += made.payload_bytes
        row.duplicates += bool(made.duplicate)
        _raise_last(row, made.seq)

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts a delivery."""
        row = self._row(made, made.stream, made.ts_ns)
        if row is None:
            return
        row.deliveries += 1
        row.delivery_bytes += made.payload_bytes or 0
        row.redeliveries += made.delivered_count > 1
        if row.max_pending is None or made.pending > row.max_pending:
            row.max_pending = made.pending
        _raise_last(row, made.stream_seq)

    def acknowledge(self, made: DeliveryRecord, ack: str, ts_ns: int) -> None:
        """Counts an ack."""
        row = self._row(made, made.stream, ts_ns)
        if row:
            if ack == "ack" or ack == "next":
                row.acks += 1
            else:
                row.naks += ack == "nak"
                row.terms += ack == "term"

    def finish(self) -> Iterator[Record]:
        """The rows."""
        yield from self._rows.values()

    def _list(self, call: Call, ts_ns: int) -> None:
        """Learns from a page of a list of streams."""
        listed = call.response.get("streams")
        for item in listed if isinstance(listed, list) else ():
            config = item.get("config") if isinstance(item, dict) else None
            name = text(config, "name") if isinstance(config, dict) else ""
            row = self._row(call.row, name, ts_ns) if name else None
            if row:
                _describe(row, item)

    def _row(self, made: Named, stream: str, ts_ns: int) -> StreamRecord | None:
        row = self._rows.get(stream)
        if row is None:
            if len(self._rows) >= _STREAMS:
                return None
            row = self._rows[stream] = StreamRecord(
                session=made.session,
                number=made.number,
                ts_ns=made.ts_ns,
                last_ns=ts_ns,
                kind=made.kind,
                account=made.account,
                stream=stream,
            )
        if made.number < row.number:
            row.number, row.ts_ns = made.number, made.ts_ns
        if ts_ns > row.last_ns:
            row.last_ns = ts_ns
        row.domain = row.domain or made.domain
        return row


def _describe(row: StreamRecord, said: Object) -> None:
    """Takes configuration and state out of an answer of the API."""
    config, state = member(said, "config"), member(said, "state")
    if config:
        row.config = shown(config)
        subjects = config.get("subjects")
        if isinstance(subjects, list):
            row.subjects = [item for item in subjects if isinstance(item, str)][:_SUBJECTS] or None
        row.retention = text(config, "retention") or row.retention
        row.storage = text(config, "storage") or row.storage
        row.replicas = number(config, "num_replicas") or row.replicas
    if state:
        row.messages = number(state, "messages")
        row.bytes = number(state, "bytes")
        row.first_seq = number(state, "first_seq")
        row.consumer_count = number(state, "consumer_count")
        _raise_last(row, number(state, "last_seq"))
    row.leader = text(member(said, "cluster"), "leader") or row.leader


def _raise_last(row: StreamRecord, seq: int | None) -> None:
    if seq is not None and seq > (-1 if row.last_seq is None else row.last_seq):
        row.last_seq = seq
