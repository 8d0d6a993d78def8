"""Frames -> the rows of the table `frames`. Made only for frames that are wanted as rows."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import fields
from enum import Enum
from hashlib import sha256

from natsync.protocol import (
    Connect,
    Err,
    Frame,
    Info,
    Message,
    ProtocolError,
    Unsub,
    parse_headers,
)

from ..anomalies import Anomaly
from ..events import Batch
from ..records import FrameRecord, Headers
from ..redact import MASK, masked_json, masked_text, secrets_of

_TEXTS = frozenset({"subject", "reply", "sid", "queue", "account", "origin"})


class Payload(Enum):
    """What to show of payloads."""

    NONE = "none"
    SHA256 = "sha256"
    TEXT = "text"
    BASE64 = "base64"


def text_of(data: bytes) -> str:
    """Wire bytes as text: UTF-8, with invalid bytes as `\\xNN`."""
    return data.decode("utf-8", "backslashreplace")


class RowMaker:
    """Makes the rows of one session. `account` is what its route is dedicated to, if it is."""

    def __init__(self, session: str, payload: Payload, redact: bool) -> None:
        self._session = session
        self._payload = payload
        self._redact = redact
        self._secrets: frozenset[str] = frozenset()
        self._texts: dict[type[Frame], tuple[str, ...]] = {}

    def rows(self, batch: Batch, kind: str, account: str) -> Iterator[FrameRecord]:
        """The rows of a batch, in order; their numbers are still 0."""
        packet, flaw = batch.first, batch.flaw
        for frame in batch.frames:
            row = FrameRecord(
                session=self._session,
                number=0,
                ts_ns=batch.ts_ns,
                packet=packet.number,
                capture=packet.capture,
                sender=batch.direction.value,
                kind=kind,
                op=frame.op,
                total_bytes=frame.total_bytes,
                offset=frame.offset,
            )
            if account:
                row.account = account
            self._fill(row, frame)
            if flaw:
                row.anomalies = [flaw.value, *(row.anomalies or [])]
            yield row
            packet, flaw = batch.last, None

    def _fill(self, row: FrameRecord, frame: Frame) -> None:
        """Sets the columns that depend on the operation."""
        for name in self._text_fields(frame):
            value = getattr(frame, name)
            if value:
                setattr(row, name, text_of(value))
        if isinstance(frame, Message):
            self._fill_message(row, frame)
        elif isinstance(frame, (Info, Connect)):
            self._fill_json(row, frame)
        elif isinstance(frame, Err):
            text = text_of(frame.text)
            row.error = masked_text(text, self._secrets) if self._redact else text
        elif isinstance(frame, Unsub):
            row.max_msgs = frame.max_msgs
        elif getattr(frame, "queue", b""):
            row.weight = getattr(frame, "weight", None)

    def _text_fields(self, frame: Frame) -> tuple[str, ...]:
        names = self._texts.get(frame.__class__)
        if names is None:
            names = tuple(item.name for item in fields(frame) if item.name in _TEXTS)
            self._texts[frame.__class__] = names
        return names

    def _fill_message(self, row: FrameRecord, frame: Message) -> None:
        row.payload_bytes = frame.payload_bytes
        if frame.missing_bytes:
            row.captured_bytes = frame.payload_bytes - frame.missing_bytes
        queues = getattr(frame, "queues", ())
        if queues:
            row.queues = [text_of(queue) for queue in queues]
        if frame.header_bytes:
            row.header_bytes = frame.header_bytes
            block = getattr(frame, "headers", b"")
            if block:
                _fill_headers(row, block)
        if self._payload is not Payload.NONE:
            self._fill_payload(row, getattr(frame, "payload"), frame.missing_bytes)

    def _fill_payload(self, row: FrameRecord, payload: bytes, missing: int) -> None:
        if self._payload is Payload.TEXT:
            row.payload = text_of(payload)
        elif self._payload is Payload.BASE64:
            row.payload = b64encode(payload).decode()
        elif not missing:
            row.payload_sha256 = sha256(payload).hexdigest()

    def _fill_json(self, row: FrameRecord, frame: Info | Connect) -> None:
        if isinstance(frame, Connect):
            self._secrets |= secrets_of(frame.json)
        masked = masked_json(frame.json)
        row.json = masked if self._redact else text_of(frame.json)
        if masked == MASK:
            row.anomalies = [Anomaly.BAD_JSON.value]


def _fill_headers(row: FrameRecord, block: bytes) -> None:
    try:
        parsed = parse_headers(block)
    except ProtocolError:
        row.anomalies = [Anomaly.BAD_HEADERS.value]
        return
    if parsed.status:
        row.status = parsed.status
        row.status_text = text_of(parsed.description) or None
    headers: Headers = {}
    for name, value in parsed.fields:
        headers.setdefault(text_of(name), []).append(text_of(value))
    row.headers = headers or None
