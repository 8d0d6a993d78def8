"""The streams that a session uses: latest API answers, and messages published and delivered."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Annotated, Protocol

from ...schema.anomalies import Anomaly
from ...schema.records import Record
from ..json_bodies import Object, masked_json, member, number, text
from ..recent import Recent
from .api import Call
from .deliveries import DeliveryRecord
from .publishes import Publication

_STREAMS = 4096  # of a session whose rows are not complete yet
SUBJECTS = 256
"""The most subjects of a stream or consumer that a row has."""
_BATCHES = 4096  # that wait for their commits


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
    number: Annotated[int, "number of the first frame that names the stream"]
    ts_ns: Annotated[int, "time of that frame"]
    last_ns: Annotated[int, "time of the last frame that concerns the stream"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on connections between servers"] = None
    stream: Annotated[str, "name of the stream"]
    domain: Annotated[str | None, "JetStream domain, if a frame names it"] = None
    subjects: Annotated[
        list[str] | None,
        "subjects that the stream stores, by its latest configuration; the first 256",
    ] = None
    retention: Annotated[str | None, "retention policy: limits, interest or workqueue"] = None
    storage: Annotated[str | None, "where the server stores the stream: file or memory"] = None
    replicas: Annotated[int | None, "number of copies of the stream"] = None
    config: Annotated[str | None, "latest configuration in an answer of the API: JSON"] = None
    messages: Annotated[
        int | None, "number of stored messages, by the latest answer of the API"
    ] = None
    bytes: Annotated[int | None, "number of stored bytes, by the latest answer of the API"] = None
    first_seq: Annotated[
        int | None, "sequence of the oldest message, by the latest answer of the API"
    ] = None
    last_seq: Annotated[
        int | None, "highest sequence in answers of the API, acks and deliveries"
    ] = None
    consumer_count: Annotated[
        int | None, "number of consumers, by the latest answer of the API"
    ] = None
    leader: Annotated[
        str | None, "server that leads the stream, by the latest answer of the API"
    ] = None
    created: Annotated[int, "how many times the stream was created"] = 0
    deleted: Annotated[int, "how many times the stream was deleted"] = 0
    purged: Annotated[int, "number of purged messages"] = 0
    publishes: Annotated[int, "acknowledged messages that were published to the stream"] = 0
    publish_bytes: Annotated[int, "bytes of payload in these messages"] = 0
    publish_errors: Annotated[int, "messages that the stream refused"] = 0
    duplicates: Annotated[int, "messages that the stream had already"] = 0
    deliveries: Annotated[int, "messages that the consumers of the stream delivered"] = 0
    delivery_bytes: Annotated[int, "bytes of payload in the delivered messages"] = 0
    redeliveries: Annotated[int, "deliveries that were not the first attempt"] = 0
    acks: Annotated[int, "number of acks (+ACK and +NXT) that clients sent"] = 0
    naks: Annotated[int, "number of negative acks (-NAK) that clients sent"] = 0
    terms: Annotated[int, "number of terms (+TERM) that clients sent"] = 0
    max_pending: Annotated[
        int | None, "largest number of messages that waited for one of its consumers"
    ] = None
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if the session uses so many streams that this row was made before its end; later facts "
        "are in another row",
    ] = None


class Streams:
    """The streams of one session. If there are too many, the row of the one that was not used for longest is
    added to `early`."""

    def __init__(self, early: list[Record]) -> None:
        self._early = early
        self._rows = Recent[tuple[str | None, str], StreamRecord](_STREAMS)  # by account and name
        # Bytes of payload in the messages of open batches, by account and batch.
        self._batches: dict[tuple[str | None, str], int] = {}

    def call(self, call: Call, ts_ns: int) -> None:
        """Takes facts from a finished API call."""
        asked, response = call.row, call.response
        if asked.api == "STREAM.LIST":
            self._list(call, ts_ns)
        if not asked.stream or asked.code is not None:
            return
        row = self._row(asked, asked.stream, ts_ns)
        if "config" in response and asked.api.startswith("STREAM."):
            _describe(row, response)
        if asked.api == "STREAM.CREATE":
            row.created += bool(response)
        elif asked.api == "STREAM.DELETE":
            row.deleted += response.get("success") is True
        elif asked.api == "STREAM.PURGE":
            row.purged += number(response, "purged") or 0

    def publish(self, publication: Publication) -> None:
        """Notes the size of a publication in a batch, which counts once the batch is committed."""
        if publication.batch:
            key = publication.row.account, publication.batch
            if key not in self._batches and len(self._batches) >= _BATCHES:
                del self._batches[next(iter(self._batches))]
            self._batches[key] = self._batches.get(key, 0) + publication.row.payload_bytes

    def store(self, publication: Publication, ts_ns: int) -> None:
        """Counts a publication that was answered, or the batch that it commits."""
        made, count, size = publication.row, 1, publication.row.payload_bytes
        if publication.batch and publication.count:
            count = publication.count
            size = self._batches.pop((made.account, publication.batch), size)
        if not made.stream:
            return
        row = self._row(made, made.stream, ts_ns)
        if made.error is not None or made.code is not None:
            row.publish_errors += 1
            return
        row.publishes += count
        row.publish_bytes += size
        row.duplicates += bool(made.duplicate)
        _raise_last(row, made.seq)

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts a delivery."""
        row = self._row(made, made.stream, made.ts_ns)
        row.deliveries += 1
        row.delivery_bytes += made.payload_bytes or 0
        row.redeliveries += made.delivered_count > 1
        if row.max_pending is None or made.pending > row.max_pending:
            row.max_pending = made.pending
        _raise_last(row, made.stream_seq)

    def acknowledge(self, made: DeliveryRecord, ack: str, ts_ns: int) -> None:
        """Counts an ack."""
        row = self._row(made, made.stream, ts_ns)
        if ack == "ack" or ack == "next":
            row.acks += 1
        else:
            row.naks += ack == "nak"
            row.terms += ack == "term"

    def finish(self) -> Iterator[Record]:
        """The remaining rows, in order."""
        yield from sorted(self._rows.values(), key=attrgetter("number"))

    def _list(self, call: Call, ts_ns: int) -> None:
        """Takes facts from a page of a list of streams."""
        listed = call.response.get("streams")
        for item in listed if isinstance(listed, list) else ():
            config = item.get("config") if isinstance(item, dict) else None
            name = text(config, "name") if isinstance(config, dict) else ""
            if name:
                _describe(self._row(call.row, name, ts_ns), item)

    def _row(self, made: Named, stream: str, ts_ns: int) -> StreamRecord:
        key = made.account, stream
        row = self._rows.get(key)
        if row is None:
            row = StreamRecord(
                session=made.session,
                number=made.number,
                ts_ns=made.ts_ns,
                last_ns=ts_ns,
                kind=made.kind,
                account=made.account,
                stream=stream,
            )
            forgotten = self._rows.put(key, row)
            if forgotten:
                forgotten.anomalies = [Anomaly.FORGOTTEN.value]
                self._early.append(forgotten)
        if made.number < row.number:
            row.number, row.ts_ns = made.number, made.ts_ns
        if ts_ns > row.last_ns:
            row.last_ns = ts_ns
        row.domain = row.domain or made.domain
        return row


def _describe(row: StreamRecord, info: Object) -> None:
    """Takes configuration and state from an answer of the API."""
    config, state = member(info, "config"), member(info, "state")
    if config:
        row.config = masked_json(config)
        subjects = config.get("subjects")
        if isinstance(subjects, list):
            row.subjects = [item for item in subjects if isinstance(item, str)][:SUBJECTS] or None
        row.retention = text(config, "retention") or row.retention
        row.storage = text(config, "storage") or row.storage
        row.replicas = number(config, "num_replicas") or row.replicas
    if state:
        row.messages = number(state, "messages")
        row.bytes = number(state, "bytes")
        row.first_seq = number(state, "first_seq")
        row.consumer_count = number(state, "consumer_count")
        _raise_last(row, number(state, "last_seq"))
    row.leader = text(member(info, "cluster"), "leader") or row.leader


def _raise_last(row: StreamRecord, seq: int | None) -> None:
    if seq is not None and seq > (-1 if row.last_seq is None else row.last_seq):
        row.last_seq = seq
