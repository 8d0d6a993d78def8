"""Frames -> the rows of the table `frames`, and the same rows for application layers."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache
from typing import NamedTuple, TypeVar

from natsync.protocol import (
    Connect,
    Err,
    Frame,
    Info,
    Kind,
    LMsg,
    LSub,
    Message,
    ProtocolError,
    RHMsg,
    RMsg,
    RSub,
    Unsub,
    parse_headers,
)

from ..framing.events import Batch, Event, Note
from ..options import Options, Payload
from ..schema.anomalies import Anomaly
from ..schema.declaration import LayerFrame
from ..schema.records import FrameRecord, Headers, printable_json, text_of
from ..secrets.redact import MASK, NO_SECRETS, NOT_MASKED, Secrets, masked_json
from ..types import Chunk, Gap

_Row = TypeVar("_Row", bound=FrameRecord)
_TEXTS = ("subject", "reply", "sid", "queue", "account", "origin")


class FrameRows:
    """The rows of one connection's frames. `last_number` is the number of the last frame; `secrets` are to be
    masked in the next texts."""

    def __init__(self, session: str, options: Options) -> None:
        self.last_number = 0
        self.secrets: Secrets = NO_SECRETS if options.redact else NOT_MASKED
        self._session = session
        self._payload = options.payload
        self._redact = options.redact

    def rows(
        self, events: Iterable[Event], kind: Kind | None, account: str, notes: Sequence[Note]
    ) -> list[FrameRecord]:
        """The rows of frames, in order. `notes` are the anomalies that the session found in them."""
        rows: list[FrameRecord] = []
        for batch in events:
            if not isinstance(batch, Batch):
                continue
            for number, packet, frame in self._numbered(batch):
                row = self._row(FrameRecord, batch, number, packet, frame, kind, account)
                if isinstance(frame, Message):
                    add_headers(row, _headers_of(frame), self.secrets)
                    if self._payload is not Payload.NONE:
                        columns = self._payload.columns(_payload_of(frame), not frame.missing_bytes)
                        row.payload, row.payload_sha256 = columns
                rows.append(row)
        if notes:
            _mark(rows, notes)
        return rows

    def for_layers(
        self, batch: Batch, kind: Kind | None, account: str, ops: Container[str]
    ) -> list[LayerFrame]:
        """The frames of a batch with these operations, as records for application layers. They lack the
        anomalies that only the session finds, and have headers as on the wire: layers mask what they show.
        """
        rows = []
        for number, packet, frame in self._numbered(batch):
            if frame.op not in ops:
                continue
            row = self._row(LayerFrame, batch, number, packet, frame, kind, account)
            row.shown, row.secrets = self._payload, self.secrets
            if isinstance(frame, Message):
                row.content = _payload_of(frame)
                add_headers(row, _headers_of(frame), NOT_MASKED)
            rows.append(row)
        return rows

    def skip(self, batch: Batch) -> None:
        """Numbers the frames of a batch without making rows."""
        self.last_number = (batch.number or self.last_number + 1) + len(batch.frames) - 1
        for frame in batch.frames:
            if isinstance(frame, Connect):
                self.secrets = self.secrets.learned(frame.json)

    def pass_to(self, number: int) -> None:
        """Goes on after the frame with this number, which was read elsewhere, as were those before it; there
        is no CONNECT among them."""
        self.last_number = number

    def _numbered(self, batch: Batch) -> Iterator[tuple[int, Chunk | Gap, Frame]]:
        """The frames of a batch, with their numbers and the packets in which they begin. The secrets of all
        are known."""
        self.skip(batch)
        first = self.last_number - len(batch.frames) + 1
        packet = batch.first
        for number, frame in enumerate(batch.frames, first):
            yield number, packet, frame
            packet = batch.last

    def _row(
        self,
        make: type[_Row],
        batch: Batch,
        number: int,
        packet: Chunk | Gap,
        frame: Frame,
        kind: Kind | None,
        account: str,
    ) -> _Row:
        """The row of a frame, without headers and payload."""
        texts = _texts_of(frame.__class__)
        row = make(
            session=self._session,
            number=number,
            ts_ns=batch.ts_ns,
            packet=packet.number,
            capture=packet.capture,
            sender=batch.direction.value,
            kind=kind_name(kind),
            op=frame.op,
            account=account or None if "account" in texts else None,
            total_bytes=frame.total_bytes,
            offset=frame.offset,
        )
        for name in texts:
            if wire := getattr(frame, name):
                setattr(row, name, text_of(wire))
        if batch.gap and frame is batch.frames[0]:
            row.anomalies = [batch.gap.value]
        match frame:
            case Message():
                row.payload_bytes = frame.payload_bytes
                row.header_bytes = frame.header_bytes or None
                if frame.missing_bytes:
                    row.captured_bytes = frame.payload_bytes - frame.missing_bytes
                if isinstance(frame, (RMsg, RHMsg, LMsg)):
                    row.queues = [text_of(queue) for queue in frame.queues] or None
            case Unsub():
                row.max_msgs = frame.max_msgs
            case RSub() | LSub():
                row.weight = frame.weight if frame.queue else None
            case Err():
                row.error = self.secrets.masked(text_of(frame.text))
            case Info() | Connect():
                masked = masked_json(frame.json, self.secrets)
                row.json = printable_json(masked if self._redact else text_of(frame.json))
                if masked == MASK:
                    _add_anomaly(row, Anomaly.BAD_JSON)
        return row


@cache
def _texts_of(kind: type[Frame]) -> tuple[str, ...]:
    """The texts of frames of this class."""
    return tuple(name for name in _TEXTS if name in kind._fields)


def _payload_of(frame: Message) -> bytes:
    payload: bytes = getattr(frame, "payload")
    return payload


def _headers_of(frame: Message) -> bytes:
    headers: bytes = getattr(frame, "headers") if frame.header_bytes else b""
    return headers


def add_headers(row: FrameRecord, block: bytes, secrets: Secrets) -> None:
    """Fills the columns that come from a header block, without these secrets."""
    if not block:  # as of nearly all messages
        return
    row.status, row.status_text, row.headers, anomaly = header_cells(block, secrets)
    if anomaly:
        _add_anomaly(row, anomaly)


def _mark(rows: Iterable[FrameRecord], notes: Iterable[Note]) -> None:
    """Adds the anomalies that notes report for these rows."""
    places = {(row.sender, row.offset): row for row in rows}
    for note in notes:
        row = places.get((note.direction.value, note.offset))
        if row and note.length:
            _add_anomaly(row, note.anomaly)


def _add_anomaly(row: FrameRecord, anomaly: Anomaly) -> None:
    """Adds an anomaly to a row that does not have it yet."""
    known = row.anomalies or []
    if anomaly.value not in known:
        row.anomalies = [*known, anomaly.value]


def kind_name(kind: Kind | None) -> str:
    """The name of a kind in columns."""
    return kind.value if kind else "unknown"


def headers_of(
    fields: Iterable[tuple[str, str]], shown: Callable[[str], str]
) -> dict[str, list[str]]:
    """The values of each name, in order, as they are to be `shown`."""
    headers: dict[str, list[str]] = {}
    for name, value in fields:
        headers.setdefault(shown(name), []).append(shown(value))
    return headers


class HeaderCells(NamedTuple):
    """The columns that come from a header block; `anomaly` if it cannot be read."""

    status: int | None = None
    status_text: str | None = None
    headers: Headers | None = None
    anomaly: Anomaly | None = None


def header_cells(block: bytes, secrets: Secrets) -> HeaderCells:
    """The columns that come from a header block, without these secrets."""
    if not block:
        return HeaderCells()  # bytes of the block are missing
    try:
        parsed = parse_headers(block)
    except ProtocolError:
        return HeaderCells(anomaly=Anomaly.BAD_HEADERS)
    shown = secrets.masked if secrets.may_be_in(text_of(block)) else str
    text = shown(text_of(parsed.description)) or None if parsed.status else None
    fields = [(text_of(name), text_of(value)) for name, value in parsed.fields]
    return HeaderCells(parsed.status or None, text, headers_of(fields, shown) or None)
