"""The streams that a session uses: latest API answers, and messages published and delivered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...schema.declaration import TextColumn
from ...schema.records import Record
from ...secrets.redact import Secrets
from ..json_bodies import Member, Object, fill, masked_json, member, number, text
from ..rows import DOMAIN, ODD, STREAM, UsedRow, counted, head
from .api import Call
from .deliveries import DeliveryRecord
from .publishes import Publication
from .used import Named, Used

_BATCHES = 4096  # that wait for their commits


@dataclass(slots=True, kw_only=True)
class StreamRecord(UsedRow):
    """One stream, as one session saw it."""

    number: Annotated[int, "number of the first frame that names the stream"]
    last_ns: Annotated[int, "time of the last frame that concerns the stream"]
    stream: Annotated[str, "name of the stream", STREAM]
    domain: Annotated[str | None, "JetStream domain, if a frame names it", DOMAIN] = None
    subjects: Annotated[
        list[str] | None,
        "subjects that the stream stores, by its latest configuration; the first 256",
        Member("config.subjects"),
        TextColumn("subjects", 20, may_cut=True, rank=3, render=" ".join),
    ] = None
    retention: Annotated[
        str | None, "retention policy: limits, interest or workqueue", Member("config.retention")
    ] = None
    storage: Annotated[
        str | None, "where the server stores the stream: file or memory", Member("config.storage")
    ] = None
    replicas: Annotated[
        int | None, "number of copies of the stream", Member("config.num_replicas")
    ] = None
    config: Annotated[str | None, "latest configuration in an answer of the API: JSON"] = None
    messages: Annotated[
        int | None,
        "number of stored messages, by the latest answer of the API",
        Member("state.messages"),
        TextColumn("messages", 8, short="msgs"),
    ] = None
    bytes: Annotated[
        int | None, "number of stored bytes, by the latest answer of the API", Member("state.bytes")
    ] = None
    first_seq: Annotated[
        int | None,
        "sequence of the oldest message, by the latest answer of the API",
        Member("state.first_seq"),
    ] = None
    last_seq: Annotated[
        int | None,
        "highest sequence in answers of the API, acks and deliveries",
        TextColumn("last", 7),
    ] = None
    consumer_count: Annotated[
        int | None,
        "number of consumers, by the latest answer of the API",
        Member("state.consumer_count"),
    ] = None
    leader: Annotated[
        str | None,
        "server that leads the stream, by the latest answer of the API",
        Member("cluster.leader"),
    ] = None
    created: Annotated[int, "how many times the stream was created"] = 0
    deleted: Annotated[
        int, "how many times the stream was deleted", counted("deleted", 7, rank=1)
    ] = 0
    purged: Annotated[int, "number of purged messages"] = 0
    publishes: Annotated[
        int, "acknowledged messages that were published to the stream", counted("published", 9)
    ] = 0
    publish_bytes: Annotated[int, "bytes of payload in these messages"] = 0
    publish_errors: Annotated[
        int, "messages that the stream refused", counted("refused", 7, alarm=True)
    ] = 0
    duplicates: Annotated[int, "messages that the stream had already"] = 0
    deliveries: Annotated[
        int, "messages that the consumers of the stream delivered", counted("delivered", 9)
    ] = 0
    delivery_bytes: Annotated[int, "bytes of payload in the delivered messages"] = 0
    redeliveries: Annotated[
        int, "deliveries that were not the first attempt", counted("again", 5)
    ] = 0
    acks: Annotated[int, "number of acks (+ACK and +NXT) that clients sent", counted("acks", 6)] = 0
    naks: Annotated[
        int, "number of negative acks (-NAK) that clients sent", counted("naks", 5, 2)
    ] = 0
    terms: Annotated[int, "number of terms (+TERM) that clients sent", counted("terms", 5, 2)] = 0
    max_pending: Annotated[
        int | None,
        "largest number of messages that waited for one of its consumers",
        TextColumn("pending", 7),
    ] = None
    anomalies: Annotated[
        list[str] | None,
        "forgotten, if the session uses so many streams that this row was made before its end; later facts "
        "are in another row",
        ODD,
    ] = None


def _raise_last(row: StreamRecord, seq: int | None) -> None:
    if seq is not None and seq > (-1 if row.last_seq is None else row.last_seq):
        row.last_seq = seq


@dataclass(slots=True)
class _OpenStream:
    """A row that is not complete yet."""

    row: StreamRecord

    @classmethod
    def start(cls, named_by: Named, ts_ns: int, stream: str, _: str) -> _OpenStream:
        """Begins the row of a stream."""
        return cls(StreamRecord(**head(named_by), last_ns=ts_ns, stream=stream))

    def finish(self) -> StreamRecord:
        """The complete row."""
        return self.row

    def describe(self, info: Object, secrets: Secrets) -> None:
        """Takes configuration and state from an answer of the API."""
        fill(self.row, info)
        config = member(info, "config")
        self.row.config = masked_json(config, secrets) if config else self.row.config
        _raise_last(self.row, number(member(info, "state"), "last_seq"))


class Streams(Used[_OpenStream]):
    """The streams of one session."""

    def __init__(self, early: list[Record]) -> None:
        super().__init__(_OpenStream.start, early)
        # Bytes of payload in the messages of open batches, by account and batch.
        self._batches: dict[tuple[str | None, str], int] = {}

    def call(self, call: Call, ts_ns: int) -> None:
        """Takes facts from a finished API call."""
        asked, response = call.row, call.response
        if asked.api == "STREAM.LIST":
            self._list(call, ts_ns)
        if not asked.stream or asked.code is not None:
            return
        found = self.use(asked, ts_ns, asked.stream)
        row = found.row
        if "config" in response and asked.api.startswith("STREAM."):
            found.describe(response, call.secrets)
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
        row = self.use(made, ts_ns, made.stream).row
        if made.error is not None or made.code is not None:
            row.publish_errors += 1
            return
        row.publishes += count
        row.publish_bytes += size
        row.duplicates += bool(made.duplicate)
        _raise_last(row, made.seq)

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts a delivery."""
        row = self.use(made, made.ts_ns, made.stream).row
        row.deliveries += 1
        row.delivery_bytes += made.payload_bytes or 0
        row.redeliveries += made.delivered_count > 1
        if row.max_pending is None or made.pending > row.max_pending:
            row.max_pending = made.pending
        _raise_last(row, made.stream_seq)

    def acknowledge(self, made: DeliveryRecord, ack: str, ts_ns: int) -> None:
        """Counts an ack."""
        row = self.use(made, ts_ns, made.stream).row
        if ack == "ack" or ack == "next":
            row.acks += 1
        else:
            row.naks += ack == "nak"
            row.terms += ack == "term"

    def _list(self, call: Call, ts_ns: int) -> None:
        """Takes facts from a page of a list of streams."""
        listed = call.response.get("streams")
        for item in listed if isinstance(listed, list) else ():
            config = item.get("config") if isinstance(item, dict) else None
            name = text(config, "name") if isinstance(config, dict) else ""
            if name:
                self.use(call.row, ts_ns, name).describe(item, call.secrets)
