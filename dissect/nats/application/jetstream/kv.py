"""Key-value buckets: keys that were put, read, deleted and watched (ADR-8).

A bucket `b` is the stream `KV_b` with the subjects `$KV.b.KEY`; if the API has a prefix, the subjects of
writes have it, too (nats.go: jetstream/kv.go). A write is a publication, and a read gets the last message on
the key's subject. A watch is a consumer: one that delivers all messages reads the history, one that delivers
only headers lists keys. Values are shown on request; those that a watch delivers are in `deliveries`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from ...outcomes import NO_MESSAGES_STATUS
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Record
from ..json_bodies import decimal, header, member, number, text
from ..rows import BUCKET, LATENCY, PAYLOAD, SessionRow, head, sized
from .api import Call
from .deliveries import DeliveryRecord
from .stored import GETS, Watches, asked_subject, stored_message

_SUBJECTS = "$KV."
_STREAMS = "KV_"
_CREATES = ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE")
_WATCHES = 4096
_REMOVED = {"DEL": "delete", "PURGE": "purge"}
_MARKERS = {"MaxAge": "purge", "Purge": "purge", "Remove": "delete"}


def _answer(row: KvRecord) -> str:
    if row.error is not None or row.code is not None:
        return f"{row.err_code or row.code or ''} {row.error or ''}".strip()
    return f"{row.removed}d" if row.removed else ""


_ANSWER = TextColumn("answer", 24, _answer, may_cut=True)


@dataclass(slots=True, kw_only=True)
class KvRecord(SessionRow):
    """One operation on a key-value bucket."""

    number: Annotated[int, "number of the frame that requests the operation"]
    bucket: Annotated[str, "name of the bucket", BUCKET]
    key: Annotated[
        str | None, "key; of a watch, its pattern", TextColumn("key", 24, may_cut=True)
    ] = None
    op: Annotated[
        str,
        "operation: put, create, update, delete, purge, get, watch, history, keys or status",
        TextColumn("op", 7),
    ]
    revision: Annotated[
        int | None, "revision that was written or read", TextColumn("revision", 8, short="rev")
    ] = None
    expected_revision: Annotated[
        int | None,
        "revision that a write expects or a read asks for; 0 means that the key must have no "
        "value",
        TextColumn("expected", 8, rank=3),
    ] = None
    value_bytes: Annotated[
        int | None, "size of the value that was written or read", sized("value", 4)
    ] = None
    ttl: Annotated[
        str | None,
        "Nats-TTL: of a write, how long the client asks to keep the value; of a get, how long the "
        "server keeps it, which is longer where the bucket's markers last longer",
    ] = None
    found: Annotated[bool | None, "of a get: whether the key has a value"] = None
    removed: Annotated[
        str | None, "of a get: delete or purge, if that was the last operation on the key"
    ] = None
    entries: Annotated[
        int | None,
        "of a watch, history or keys: number of entries that were delivered",
        TextColumn("entries", 7, rank=5),
    ] = None
    code: Annotated[int | None, "code of the error, as in HTTP"] = None
    err_code: Annotated[int | None, "JetStream's number of the error"] = None
    error: Annotated[str | None, "description of the error", _ANSWER] = None
    latency_ns: Annotated[int | None, "time from the request to its answer", LATENCY] = None
    anomalies: Annotated[list[str] | None, "anomalies of the operation"] = None
    payload: Annotated[
        str | None,
        "the value that was written or read, as text or in base64, if it was asked for",
        PAYLOAD,
    ] = None
    payload_sha256: Annotated[str | None, "SHA-256 of the whole value, if it was asked for"] = None


def kv_write(frame: LayerFrame) -> KvRecord | None:
    """The row of a publication that writes to a bucket; None for other publications."""
    subject = frame.subject or ""
    at = subject.find(_SUBJECTS)
    if at < 0 or (at and subject[at - 1] != "."):
        return None
    bucket, _, key = subject[at + len(_SUBJECTS) :].partition(".")
    if not bucket or not key:
        return None
    expected = decimal(header(frame, "Nats-Expected-Last-Subject-Sequence"))
    op = _REMOVED.get(header(frame, "KV-Operation") or "")
    if op is None:
        op = "put" if expected is None else "update" if expected else "create"
    row = KvRecord(
        **head(frame),
        bucket=bucket,
        key=key,
        op=op,
        expected_revision=expected,
        ttl=header(frame, "Nats-TTL"),
    )
    if op in ("put", "create", "update"):
        row.value_bytes = frame.payload_bytes
        row.payload, row.payload_sha256 = frame.shown_payload()
    return row


class KeyValue:
    """The buckets of one session, with its open watches."""

    def __init__(self) -> None:
        self._watches = Watches[KvRecord](_WATCHES)

    def call(self, call: Call) -> Iterator[Record]:
        """Yields the rows of a finished API call."""
        row = call.row
        stream = row.stream or ""
        if not stream.startswith(_STREAMS):
            return
        if row.api in GETS:
            yield self._get(call)
        elif row.api == "STREAM.INFO":
            yield self._row(call, "status")
        elif row.api in _CREATES:
            yield from self._watch(call)
        elif row.api == "CONSUMER.DELETE" and row.code is None:
            yield from self._watches.end((row.account, stream, row.consumer or ""))

    def deliver(self, made: DeliveryRecord) -> None:
        """Counts an entry that a consumer delivered."""
        if not made.stream.startswith(_STREAMS):
            return
        watch = self._watches.of_message((made.account, made.stream, made.consumer))
        if watch:
            watch.entries = (watch.entries or 0) + 1

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields the rows of its open watches."""
        yield from self._watches.finish()

    def _row(self, call: Call, op: str) -> KvRecord:
        made = call.row
        return KvRecord(
            **head(made),
            bucket=(made.stream or "")[len(_STREAMS) :],
            op=op,
            code=made.code,
            err_code=made.err_code,
            error=made.error,
            latency_ns=made.latency_ns,
            anomalies=made.anomalies,
        )

    def _get(self, call: Call) -> KvRecord:
        row = self._row(call, "get")
        found = stored_message(call)
        subject = asked_subject(call) or (found.subject if found else "")
        row.key = _key(subject)
        row.expected_revision = number(call.request, "seq")
        if found is None:
            row.found = False if row.code == NO_MESSAGES_STATUS else None
            return row
        removed = _REMOVED.get(found.headers.get("KV-Operation", ""))
        if removed is None and "KV-Operation" not in found.headers:
            removed = _MARKERS.get(found.headers.get("Nats-Marker-Reason", ""))
        row.found, row.removed, row.revision = removed is None, removed, found.seq
        row.ttl = found.headers.get("Nats-TTL")
        answer = call.value
        if removed is None and answer:
            row.value_bytes = len(found.content) + answer.missing_bytes
            shown = answer.shown.columns(found.content, answer.is_whole)
            row.payload, row.payload_sha256 = shown
        return row

    def _watch(self, call: Call) -> Iterator[KvRecord]:
        config = member(call.request, "config")
        headers_only = config.get("headers_only") is True
        takes_all = text(config, "deliver_policy") == "all"
        row = self._row(call, "keys" if headers_only else "history" if takes_all else "watch")
        filters = config.get("filter_subjects")
        named = filters if isinstance(filters, list) else [text(config, "filter_subject")]
        row.key = " ".join(_key(name) or "" for name in named if isinstance(name, str)) or None
        name = call.row.consumer or text(call.response, "name")
        if row.code is not None or not name:
            yield row
            return
        key = row.account, call.row.stream or "", name
        row.entries = self._watches.take_early(key)
        yield from self._watches.begin(key, row)


def _key(subject: str) -> str | None:
    """The key in a subject: the part after the bucket; None if there is none."""
    at = subject.find(_SUBJECTS)
    return subject[at + len(_SUBJECTS) :].partition(".")[2] or None if at >= 0 else None
