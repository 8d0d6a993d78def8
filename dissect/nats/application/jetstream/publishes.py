"""Messages published to JetStream, each with its PubAck.

A subject alone does not show that a message goes to a stream. A message counts as published to JetStream if
it has headers that only streams read, if it belongs to a key-value bucket or an object store, or if its reply
subject gets an ack: JSON with `stream` and `seq`, and also `error` if the message was not stored
(nats-server: server/stream.go).

A batch has one ack, for the message that commits it. Headers show the messages of an atomic batch (ADR-50),
and reply subjects those of a fast batch: `PREFIX.FLOW.GAPS.SEQUENCE.OPERATION.$FI`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from ...number_formats import size_text
from ...outcomes import NO_RESPONDERS_TEXT
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Headers, Record
from ...secrets.redact import Secrets
from ..json_bodies import (
    Member,
    Object,
    decimal,
    error_of,
    fill,
    flag,
    number,
    read_object,
    status_text,
    text,
    why_unread,
)
from ..rows import API_ERROR, LATENCY, PAYLOAD, STREAM, TIME, SessionRow, head, mark
from .kv import KvRecord
from .objects import ObjectRecord

# Headers that only streams read: a message with one of them expects an ack.
_ASKS = frozenset(
    (
        "Nats-Msg-Id",
        "Nats-Expected-Stream",
        "Nats-Expected-Last-Sequence",
        "Nats-Expected-Last-Subject-Sequence",
        "Nats-Expected-Last-Subject-Sequence-Subject",
        "Nats-Expected-Last-Msg-Id",
        "Nats-Batch-Id",
        "Nats-Rollup",
        "Nats-TTL",
        "Nats-Incr",
        "Nats-Schedule",
        "KV-Operation",
    )
)
# Headers that servers add to messages that a stream has stored already: they send them on (republish, direct
# gets).
_STORED = frozenset(("Nats-Stream", "Nats-Sequence"))
_READ = _ASKS | {"Nats-Batch-Sequence", "Nats-Batch-Commit"}
_STORES = ("$KV.", "$O.")
_FAST = ".$FI"


def _expected(row: PublishRecord) -> str:
    last, subject_last = row.expected_last_seq, row.expected_last_subject_seq
    parts = (
        row.expected_stream,
        None if last is None else f"last {last}",
        None if subject_last is None else f"subject last {subject_last}",
        row.expected_last_msg_id and f"last id {row.expected_last_msg_id}",
    )
    return ", ".join(filter(None, parts))


def _batch(row: PublishRecord) -> str:
    if row.batch_id is None:
        return ""
    return f"{row.batch_id}:{row.batch_seq or '?'}{' commit' if row.batch_commit else ''}"


_EXPECTED = TextColumn("expected", 16, _expected, may_cut=True, rank=5)
_BATCH = TextColumn("batch", 12, _batch, may_cut=True, rank=3)
_DUPLICATE = TextColumn("duplicate", 9, lambda row: "yes" if row.duplicate else "", short="dup")


@dataclass(slots=True, kw_only=True)
class PublishRecord(SessionRow):
    """One message published to JetStream."""

    number: Annotated[int, "number of the message's frame"]
    ts_ns: Annotated[int, "time of the message's frame", TIME]
    subject: Annotated[str, "subject of the message", TextColumn("subject", 24, may_cut=True)]
    msg_id: Annotated[
        str | None,
        "Nats-Msg-Id, by which the server recognizes duplicates",
        TextColumn("id", 10, may_cut=True, rank=4),
    ] = None
    expected_stream: Annotated[str | None, "Nats-Expected-Stream of the message", _EXPECTED] = None
    expected_last_seq: Annotated[int | None, "Nats-Expected-Last-Sequence of the message"] = None
    expected_last_subject_seq: Annotated[
        int | None,
        "Nats-Expected-Last-Subject-Sequence of the message; 0 means that the subject must "
        "have no message",
    ] = None
    expected_last_msg_id: Annotated[str | None, "Nats-Expected-Last-Msg-Id of the message"] = None
    batch_id: Annotated[
        str | None, "Nats-Batch-Id: the atomic batch to which the message belongs", _BATCH
    ] = None
    batch_seq: Annotated[
        int | None, "Nats-Batch-Sequence: the place of the message in the batch"
    ] = None
    batch_commit: Annotated[
        bool | None, "true if the message commits the batch (Nats-Batch-Commit); otherwise absent"
    ] = None
    ttl: Annotated[str | None, "Nats-TTL: how long the stream keeps the message"] = None
    payload_bytes: Annotated[
        int, "size of the payload", TextColumn("bytes", 7, rank=6, render=size_text)
    ]
    stream: Annotated[str | None, "stream that stored the message", STREAM, Member("stream")] = None
    seq: Annotated[int | None, "sequence of the message in the stream", TextColumn("seq", 6)] = None
    domain: Annotated[str | None, "JetStream domain of the stream", Member("domain")] = None
    duplicate: Annotated[
        bool | None,
        "true if the stream had the message already: `seq` is the sequence of the first copy",
        _DUPLICATE,
    ] = None
    code: Annotated[
        int | None, "code of the error, as in HTTP; 503 means that no stream listens"
    ] = None
    err_code: Annotated[int | None, "JetStream's number of the error"] = None
    error: Annotated[str | None, "description of the error", API_ERROR] = None
    latency_ns: Annotated[int | None, "time from the message to its ack", LATENCY] = None
    reply_number: Annotated[int | None, "number of the ack's frame"] = None
    anomalies: Annotated[list[str] | None, "anomalies of the message or its ack"] = None
    payload: Annotated[
        str | None, "the payload as text or in base64, if it was asked for", PAYLOAD
    ] = None
    payload_sha256: Annotated[str | None, "SHA-256 of the whole payload, if it was asked for"] = (
        None
    )


class Publication:
    """A message that waits for its ack: a `Question`. It has a row only if an ack `is_expected` or comes.
    `stored` is its row in `kv` or `objects`, which the ack completes. `batch` identifies the batch to which
    it belongs; `count` is the number of messages in a batch that its ack confirms."""

    __slots__ = ("row", "is_expected", "batch", "count", "_stored")

    def __init__(self, frame: LayerFrame, stored: KvRecord | ObjectRecord | None = None) -> None:
        self._stored = stored
        subject = frame.subject or ""
        headers: Headers = frame.headers or {}
        asks = not _ASKS.isdisjoint(headers) and not _STORED <= headers.keys()
        self.is_expected = stored is not None or asks or subject.startswith(_STORES)
        self.row = PublishRecord(
            **head(frame), subject=subject, payload_bytes=frame.payload_bytes or 0
        )
        self.row.payload, self.row.payload_sha256 = frame.shown_payload()
        if headers and not _READ.isdisjoint(headers):
            self._read_headers(headers)
        reply = frame.reply or ""
        self.batch = reply.rsplit(".", 5)[0] if reply.endswith(_FAST) else self.row.batch_id
        self.count: int | None = None

    @property
    def held_bytes(self) -> int:
        """The size of the payload that its row shows."""
        return len(self.row.payload or "")

    def answer(self, frame: LayerFrame, nobody: bool, latency_ns: int | None) -> bool:
        """Takes the answer: an ack, an error status, or something else."""
        row, content = self.row, frame.content
        if nobody:
            row.code, row.error = frame.status, status_text(frame) or NO_RESPONDERS_TEXT
        elif ack := read_ack(content):
            self.is_expected = True
            self._take(ack, frame.secrets)
        elif self.is_expected and content:
            read = read_object(content)
            if read is None or {"stream", "seq"} <= read.keys():
                row.anomalies = [why_unread(frame)]
        row.latency_ns, row.reply_number = latency_ns, frame.number
        return False

    def close(self, anomaly: str | None) -> Iterable[Record]:
        """Ends the exchange; returns the rows if the message counts as a publication."""
        if not self.is_expected:
            return ()
        row, stored = self.row, self._stored
        mark(row, anomaly)
        if stored is None:
            return (row,)
        stored.error = row.error
        stored.anomalies = [*(stored.anomalies or ()), *(row.anomalies or ())] or None
        if isinstance(stored, KvRecord):
            stored.revision, stored.latency_ns = row.seq, row.latency_ns
            stored.code, stored.err_code = row.code, row.err_code
        return (row, stored)

    def _read_headers(self, headers: Headers) -> None:
        row = self.row
        header = {name: values[0] for name, values in headers.items() if values}.get
        row.msg_id = header("Nats-Msg-Id")
        row.expected_stream = header("Nats-Expected-Stream")
        row.expected_last_seq = decimal(header("Nats-Expected-Last-Sequence"))
        row.expected_last_subject_seq = decimal(header("Nats-Expected-Last-Subject-Sequence"))
        row.expected_last_msg_id = header("Nats-Expected-Last-Msg-Id")
        row.batch_id = header("Nats-Batch-Id")
        row.batch_seq = decimal(header("Nats-Batch-Sequence"))
        row.batch_commit = True if header("Nats-Batch-Commit") is not None else None
        row.ttl = header("Nats-TTL")

    def _take(self, read: Object, secrets: Secrets) -> None:
        row = self.row
        fill(row, read)
        row.code, row.err_code, row.error = error_of(read, secrets)
        if row.error is None and row.code is None:
            row.seq = number(read, "seq")
            row.duplicate = flag(read, "duplicate") or None
            self.count = number(read, "count")


def read_ack(content: bytes) -> Object | None:
    """The PubAck in a payload: JSON with `stream` and `seq`; None for everything else."""
    if content[:1] != b"{" or b'"stream"' not in content or b'"seq"' not in content:
        return None
    read = read_object(content)
    if read is None or not text(read, "stream") or number(read, "seq") is None or "type" in read:
        return None
    return read
