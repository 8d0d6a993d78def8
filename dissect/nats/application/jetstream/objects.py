"""Object stores: objects that were put, fetched, deleted, linked and looked up (ADR-20).

A store `b` is the stream `OBJ_b`. An object's chunks are messages on `$O.b.C.NUID`, in order; after them
comes its meta message on `$O.b.M.NAME` (base64url), a JSON object with name, size, chunks and digest. A
reader looks up the meta message and creates a consumer for the chunks. Contents are not shown; their digest
is checked if every chunk was captured whole.
"""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Annotated, NamedTuple

from ...number_formats import duration_text
from ...schema.anomalies import Anomaly
from ...schema.declaration import LayerFrame, TextColumn
from ...schema.records import Record, text_of
from ..json_bodies import Object, member, number, read_object, text, why_unread
from ..rows import BUCKET, ERROR, SessionRow, head, mark, sized
from .api import ApiRecord, Call
from .deliveries import DeliveryRecord
from .stored import GETS, Watches, asked_subject, stored_message

_SUBJECTS = "$O."
_STREAMS = "OBJ_"
_TRANSFERS = 256
_METAS = 1024
_WATCHES = 1024
_DIGEST = "SHA-256="


def _whole(row: ObjectRecord) -> str:
    if row.digest_ok is not None:
        return "yes" if row.digest_ok else "digest differs"
    return {None: "", True: "all chunks", False: "no"}[row.complete]


def _lasted(row: ObjectRecord) -> str:
    return duration_text(row.last_ns - row.first_ns)


_LASTED = TextColumn("lasted", 8, _lasted, right=True, rank=3)


@dataclass(slots=True, kw_only=True)
class ObjectRecord(SessionRow):
    """One operation on an object store."""

    number: Annotated[int, "number of the first frame of the operation"]
    bucket: Annotated[str, "name of the store", BUCKET]
    name: Annotated[str | None, "name of the object", TextColumn("name", 24, may_cut=True)] = None
    nuid: Annotated[str | None, "id of the object's contents"] = None
    op: Annotated[
        str,
        "operation: put, get, update (a new meta message for stored contents), delete, link, info or "
        "watch (a list is a watch that was ended)",
        TextColumn("op", 6),
    ]
    bytes: Annotated[
        int | None,
        "size of the chunks that were seen; of an info, the size in the meta message",
        sized("size"),
    ] = None
    chunks: Annotated[
        int | None,
        "number of chunks that were seen; of an info, the number in the meta message; of a "
        "watch, the number of meta messages",
        TextColumn("chunks", 6, rank=2),
    ] = None
    digest: Annotated[str | None, "digest in the meta message"] = None
    digest_ok: Annotated[
        bool | None, "whether the chunks have that digest; absent unless every chunk was seen"
    ] = None
    complete: Annotated[
        bool | None,
        "of a put or get: whether all chunks that the meta message announces were seen",
        TextColumn("whole", 10, _whole),
    ] = None
    link: Annotated[
        str | None,
        "target of a link: `BUCKET/NAME`, or `BUCKET`",
        TextColumn("link", 16, may_cut=True, rank=4),
    ] = None
    error: Annotated[str | None, "why the operation failed", ERROR] = None
    first_ns: Annotated[int, "time of the first frame of the operation"]
    last_ns: Annotated[int, "time of the last frame of the operation", _LASTED]
    anomalies: Annotated[list[str] | None, "anomalies of the operation"] = None


class _Digest:
    """SHA-256 of chunks in order; unknown once a chunk was not captured whole."""

    def __init__(self) -> None:
        self._hash = sha256()
        self.is_known = True

    def __reduce__(self) -> tuple[type[_Digest], tuple[()], dict[str, object]]:
        """A hash cannot be pickled, so the digest is unknown after the session moves to another process."""
        return _Digest, (), {"is_known": False}

    def add(self, frame: LayerFrame) -> None:
        """Takes the next chunk."""
        if frame.captured_bytes is not None:
            self.is_known = False
        self._hash.update(frame.content)

    def text(self) -> str:
        """The digest as meta messages write it."""
        return _DIGEST + urlsafe_b64encode(self._hash.digest()).decode()


class _TransferKey(NamedTuple):
    """Which chunks a transfer has; only a get has a consumer."""

    op: str
    bucket: str
    nuid: str
    consumer: str = ""


@dataclass(slots=True)
class _Transfer:
    """The chunks of an object on their way to or from the store."""

    row: ObjectRecord
    digest: _Digest
    first_seq: int = 0
    last_seq: int = 0

    def add(self, frame: LayerFrame) -> None:
        """Takes the next chunk."""
        row = self.row
        row.bytes = (row.bytes or 0) + (frame.payload_bytes or 0)
        row.chunks = (row.chunks or 0) + 1
        row.last_ns = frame.ts_ns
        self.digest.add(frame)

    def check(self, meta: Object) -> None:
        """Compares the chunks with the meta message."""
        row = self.row
        row.name = text(meta, "name") or row.name
        row.digest = text(meta, "digest") or None
        chunks, size = number(meta, "chunks"), number(meta, "size")
        row.complete = (row.chunks or 0) == (chunks or 0) and (row.bytes or 0) == (size or 0)
        if row.complete and self.digest.is_known and row.digest:
            declared, seen = row.digest.partition("=")[2], self.digest.text().partition("=")[2]
            row.digest_ok = declared.rstrip("=") == seen.rstrip("=")


class Objects:
    """The object stores of one session."""

    def __init__(self) -> None:
        self._transfers: dict[_TransferKey, _Transfer] = {}
        self._metas: dict[tuple[str, str], Object] = {}  # bucket, nuid
        self._watches = Watches[ObjectRecord](_WATCHES)

    def publish(self, frame: LayerFrame) -> tuple[ObjectRecord | None, list[Record]]:
        """Adds a publication to a store; returns the row that its ack completes, and rows that end early."""
        bucket, part, rest = _parts(frame.subject or "")
        if part == "C" and rest:
            transfer, given_up = self._transfer(_TransferKey("put", bucket, rest), frame)
            transfer.add(frame)
            return None, given_up
        return (self._meta(frame, bucket, rest), []) if part == "M" else (None, [])

    def deliver(self, frame: LayerFrame, made: DeliveryRecord) -> Iterator[Record]:
        """Adds a message that a consumer delivered; yields the row that it completes."""
        if not made.stream.startswith(_STREAMS):
            return
        bucket, part, rest = _parts(made.subject or "")
        if part == "M":
            watch = self._watches.of_message((made.account, made.stream, made.consumer))
            if watch:
                watch.chunks, watch.last_ns = (watch.chunks or 0) + 1, frame.ts_ns
            return
        if part != "C":
            return
        key = _TransferKey("get", bucket, rest, made.consumer)
        if key not in self._transfers:
            self._continue(key, made.stream_seq)
        transfer, given_up = self._transfer(key, frame)
        yield from given_up
        if made.stream_seq <= transfer.last_seq:
            return  # the ordered consumer starts again
        transfer.first_seq = transfer.first_seq or made.stream_seq
        transfer.last_seq = made.stream_seq
        transfer.add(frame)
        meta = self._metas.get((bucket, rest))
        if made.pending == 0 or (meta and transfer.row.chunks == number(meta, "chunks")):
            del self._transfers[key]
            if meta:
                transfer.check(meta)
            yield transfer.row

    def call(self, call: Call, ts_ns: int) -> Iterator[Record]:
        """Yields the rows of a finished API call."""
        made, stream = call.row, call.row.stream or ""
        if not stream.startswith(_STREAMS):
            return
        bucket, part, rest = _parts(asked_subject(call))
        if made.api in GETS and part == "M":
            yield self._info(call, bucket, rest, ts_ns)
        elif made.api in ("CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE"):
            yield from self._watch(call, ts_ns)
        elif made.api == "CONSUMER.DELETE":
            yield from self._watches.end((made.account, stream, made.consumer or ""))

    def finish(self) -> Iterator[Record]:
        """Ends the session; yields the incomplete rows."""
        for key, transfer in self._transfers.items():
            meta = self._metas.get((key.bucket, key.nuid))
            if meta:
                transfer.check(meta)
            transfer.row.complete = bool(transfer.row.complete)
            yield transfer.row
        yield from self._watches.finish()

    def _continue(self, key: _TransferKey, seq: int) -> None:
        """Gives a consumer the transfer that it continues: an ordered consumer that starts again gets another
        name. A consumer that begins with the first chunk belongs to another reader."""
        for other, transfer in self._transfers.items():
            if other[:3] == key[:3] and transfer.first_seq < seq:
                self._transfers[key] = self._transfers.pop(other)
                return

    def _transfer(self, key: _TransferKey, frame: LayerFrame) -> tuple[_Transfer, list[Record]]:
        """The transfer of a chunk, and the row of the transfer that ends early to make room for it."""
        given_up = list[Record]()
        found = self._transfers.get(key)
        if found is None:
            if len(self._transfers) >= _TRANSFERS:
                oldest = self._transfers.pop(next(iter(self._transfers))).row
                oldest.anomalies = [Anomaly.FORGOTTEN.value]
                given_up.append(oldest)
            row = _row(frame, key.bucket, key.op)
            row.nuid = key.nuid
            found = self._transfers[key] = _Transfer(row, _Digest())
        return found, given_up

    def _meta(self, frame: LayerFrame, bucket: str, encoded: str) -> ObjectRecord:
        """The row of a published meta message."""
        meta = read_object(frame.content)
        row = _row(frame, bucket, "put")
        row.name = _name(encoded)
        if meta is None:
            row.anomalies = [why_unread(frame)]
            return row
        link, nuid = member(member(meta, "options"), "link"), text(meta, "nuid")
        is_known = (bucket, nuid) in self._metas
        self._remember(bucket, meta)
        row.name, row.nuid = text(meta, "name") or row.name, nuid or None
        if meta.get("deleted") is True:
            row.op = "delete"
        elif link:
            row.op = "link"
            row.link = "/".join(filter(None, (text(link, "bucket"), text(link, "name"))))
        elif is_known and _TransferKey("put", bucket, nuid) not in self._transfers:
            row.op, row.digest = "update", text(meta, "digest") or None
        else:
            transfer = self._transfers.pop(_TransferKey("put", bucket, nuid), None)
            transfer = transfer or _Transfer(row, _Digest())
            transfer.check(meta)
            row = transfer.row
            row.bytes, row.chunks = row.bytes or 0, row.chunks or 0
        row.last_ns = frame.ts_ns
        return row

    def _info(self, call: Call, bucket: str, encoded: str, ts_ns: int) -> ObjectRecord:
        row = _called(call, bucket, "info", ts_ns)
        row.name = _name(encoded)
        found = stored_message(call)
        if found is None:
            return row
        meta = read_object(found.content)
        if meta is None:
            mark(row, Anomaly.BAD_JSON.value)
            return row
        self._remember(bucket, meta)
        row.name, row.nuid = text(meta, "name") or row.name, text(meta, "nuid") or None
        row.bytes, row.chunks = number(meta, "size"), number(meta, "chunks")
        row.digest = text(meta, "digest") or None
        link = member(member(meta, "options"), "link")
        row.link = "/".join(filter(None, (text(link, "bucket"), text(link, "name")))) or None
        if meta.get("deleted") is True:
            row.error = "deleted"
        return row

    def _watch(self, call: Call, ts_ns: int) -> Iterator[ObjectRecord]:
        config = member(call.request, "config")
        bucket, part, pattern = _parts(text(config, "filter_subject"))
        if part != "M":
            return
        row = _called(call, bucket, "watch", ts_ns)
        row.name = None if pattern == ">" else _name(pattern)
        consumer = call.row.consumer or text(call.response, "name")
        key = row.account, call.row.stream or "", consumer
        row.chunks = self._watches.take_early(key)
        if call.row.code is not None:
            yield row
        else:
            yield from self._watches.begin(key, row)

    def _remember(self, bucket: str, meta: Object) -> None:
        kept = {name: meta.get(name) for name in ("name", "chunks", "size", "digest")}
        if len(self._metas) >= _METAS:
            del self._metas[next(iter(self._metas))]
        self._metas[bucket, text(meta, "nuid")] = kept


def _row(beginning: LayerFrame | ApiRecord, bucket: str, op: str) -> ObjectRecord:
    ts_ns = beginning.ts_ns
    return ObjectRecord(**head(beginning), bucket=bucket, op=op, first_ns=ts_ns, last_ns=ts_ns)


def _called(call: Call, bucket: str, op: str, ts_ns: int) -> ObjectRecord:
    """The row of an operation that is an API call, which was answered at `ts_ns`."""
    row = _row(call.row, bucket, op)
    row.error, row.anomalies, row.last_ns = call.row.error, call.row.anomalies, ts_ns
    return row


def _parts(subject: str) -> tuple[str, str, str]:
    """Splits a subject of a store into the bucket, `C` or `M`, and the rest; others into empty strings."""
    at = subject.find(_SUBJECTS)
    if at < 0 or (at and subject[at - 1] != "."):
        return "", "", ""
    bucket, _, rest = subject[at + len(_SUBJECTS) :].partition(".")
    part, _, rest = rest.partition(".")
    return bucket, part, rest


def _name(encoded: str) -> str | None:
    """The name of an object, decoded from the subject of its meta message; None if it cannot be decoded."""
    try:
        plain = encoded.replace("-", "+").replace("_", "/").encode("ascii")
        return text_of(binascii.a2b_base64(plain)) or None
    except (binascii.Error, UnicodeEncodeError):
        return None
