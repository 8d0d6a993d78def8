"""Frames -> the rows of the table `frames`, made only if these rows are requested."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from hashlib import sha256

from natsync.protocol import (
    Connect,
    Err,
    Frame,
    Info,
    Kind,
    Message,
    ProtocolError,
    parse_headers,
)

from ..anomalies import Anomaly
from ..declaration import LayerFrame
from ..framing.events import Batch, Event, Note
from ..options import Options, Payload
from ..records import FrameRecord, Headers, text_of
from ..redact import MASK, Secrets, masked_json
from ..types import Direction
from .connections import Connection

_ORIGINATOR = Direction.ORIGINATOR


class RowMaker:
    """Makes and numbers the rows of one session."""

    def __init__(
        self,
        session: str,
        payload: Payload,
        redact: bool,
        row: type[FrameRecord] = FrameRecord,
    ) -> None:
        self._row = row
        self._session = session
        self._payload = payload
        self._redact = redact
        self._secrets = Secrets()
        self._number = 0

    def rows(self, batch: Batch, kind: str, account: str) -> list[FrameRecord]:
        """The rows of a batch, in order. `account` is the account to which a route is dedicated, if any."""
        sender = "originator" if batch.direction is _ORIGINATOR else "responder"
        session, number, ts_ns = self._session, self._number, batch.ts_ns
        packet, bare, row_class = batch.first, self._payload is Payload.NONE, self._row
        has_content = row_class is LayerFrame
        made = []
        for frame in batch.frames:
            make, whole = _MAKERS[frame.__class__]
            number += 1
            row = make(frame, session, number, ts_ns, packet, sender, kind, account, row_class)
            if not (whole and bare):
                self._fill(row, frame)
            if has_content:
                setattr(row, "content", getattr(frame, "payload", b""))
            made.append(row)
            packet = batch.last
        self._number = number
        if batch.flaw:
            made[0].anomalies = [batch.flaw.value, *(made[0].anomalies or [])]
        return made

    def skip(self, batch: Batch) -> None:
        """Numbers the frames of a batch and learns their secrets without making rows."""
        self.count(len(batch.frames))
        for frame in batch.frames:
            if isinstance(frame, Connect):
                self._secrets.learn(frame.json)

    def count(self, frames: int) -> None:
        """Numbers frames without making rows; there is no CONNECT among them."""
        self._number += frames

    def _fill(self, row: FrameRecord, frame: Frame) -> None:
        """Sets the columns that are computed from the frame: headers, payload, JSON, error."""
        if isinstance(frame, Message):
            if row.header_bytes:
                _fill_headers(row, getattr(frame, "headers"))
            if self._payload is not Payload.NONE:
                self._fill_payload(row, getattr(frame, "payload"), frame.missing_bytes)
        elif isinstance(frame, (Info, Connect)):
            self._fill_json(row, frame)
        elif isinstance(frame, Err):
            text = text_of(frame.text)
            row.error = self._secrets.masked(text) if self._redact else text

    def _fill_payload(self, row: FrameRecord, payload: bytes, missing: int) -> None:
        if self._payload is Payload.TEXT:
            row.payload = text_of(payload)
        elif self._payload is Payload.BASE64:
            row.payload = b64encode(payload).decode()
        elif not missing:
            row.payload_sha256 = sha256(payload).hexdigest()

    def _fill_json(self, row: FrameRecord, frame: Info | Connect) -> None:
        if isinstance(frame, Connect):
            self._secrets.learn(frame.json)
        masked = masked_json(frame.json, self._secrets)
        row.json = masked if self._redact else text_of(frame.json)
        if masked == MASK:
            row.anomalies = [Anomaly.BAD_JSON.value]


class FrameRows:
    """The rows of one connection's frames."""

    def __init__(
        self, connection: Connection, options: Options, row: type[FrameRecord] = FrameRecord
    ) -> None:
        self._maker = RowMaker(connection.flow.id, options.payload, options.redact, row)

    def rows(
        self, events: Iterable[Event], kind: Kind | None, account: str, notes: Sequence[Note]
    ) -> list[FrameRecord]:
        """The rows of frames in order of time. `notes` are the anomalies that the session found in them."""
        name = kind_name(kind)
        rows: list[FrameRecord] = []
        for event in events:
            if isinstance(event, Batch):
                rows += self._maker.rows(event, name, account)
        if notes:
            _mark(rows, notes)
        return rows

    def skip(self, batch: Batch) -> None:
        """Numbers the frames of a batch without making rows."""
        self._maker.skip(batch)

    def count(self, frames: int) -> None:
        """Numbers frames without making rows."""
        self._maker.count(frames)


def _mark(rows: Iterable[FrameRecord], notes: Iterable[Note]) -> None:
    """Adds anomalies to the rows of their frames."""
    places = {(row.sender, row.offset): row for row in rows}
    for note in notes:
        row = places.get((note.direction.value, note.offset))
        if row and note.length:
            known = row.anomalies or []
            if note.anomaly.value not in known:
                row.anomalies = [*known, note.anomaly.value]


def kind_name(kind: Kind | None) -> str:
    """The value of a kind in columns."""
    return kind.value if kind else "unknown"


def _fill_headers(row: FrameRecord, block: bytes) -> None:
    if not block:
        return  # bytes of it are missing
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


_CONTEXT = ("session", "number", "ts_ns", "packet", "sender", "kind", "account")
_TEXTS = {"subject", "reply", "sid", "queue", "account", "origin"}
_DECODED = "decode('utf-8', 'backslashreplace')"
_KNOWN_TEXTS = 4096
_KNOWN_BYTES = 128


class _Texts(dict[bytes, str]):
    """Decoded texts of the wire, cached: the same subjects come over and over."""

    def __missing__(self, wire: bytes) -> str:
        text = text_of(wire)
        if len(wire) <= _KNOWN_BYTES:
            if len(self) >= _KNOWN_TEXTS:
                self.clear()
            self[wire] = text
        return text


_USED = {"new": object.__new__, "texts": _Texts()}
# Computed columns: the field that the frame must have, and the expression for the value.
_VALUES = {
    "queues": ("queues", f"[queue.{_DECODED} for queue in frame.queues] or None"),
    "weight": ("weight", "frame.weight if frame.queue else None"),
    "header_bytes": ("header_bytes", "frame.header_bytes or None"),
    "captured_bytes": (
        "missing_bytes",
        "frame.payload_bytes - frame.missing_bytes if frame.missing_bytes else None",
    ),
}
_OTHERS = {"op": "frame.op", "packet": "packet.number", "capture": "packet.capture"}
_AS_THEY_ARE = {"total_bytes", "offset", "payload_bytes", "max_msgs"}


def _value(column: str, names: set[str]) -> str:
    """The expression for a column, for a frame with these fields."""
    if column in names and column in _TEXTS:
        absent = column if column in _CONTEXT else ""
        return f"texts[frame.{column}] if frame.{column} else {absent or None}"
    if column in _VALUES:
        field, value = _VALUES[column]
        return value if field in names else "None"
    if column in names and column in _AS_THEY_ARE:
        return f"frame.{column}"
    if column == "account":  # a frame without an account, such as PING, belongs to none
        return "None"
    return _OTHERS.get(column, column if column in _CONTEXT else "None")


class _Makers(dict[type[Frame], tuple[Callable[..., FrameRecord], bool]]):
    """For each class of frames, the function that makes a row, and whether that sets all columns except the
    payload. Entries are made on first use."""

    def __missing__(self, frame: type[Frame]) -> tuple[Callable[..., FrameRecord], bool]:
        names = {item.name for item in fields(frame)}
        whole = not names & {"header_bytes", "json", "text"}
        made = self[frame] = _maker(names), whole
        return made


def _maker(names: set[str]) -> Callable[..., FrameRecord]:
    """Makes a row out of a frame that has fields with these names and of what is `_GIVEN`, one assignment
    a column: a third of the time of calling FrameRecord (0.4 and 1.3 us for a PUB, CPython 3.11).
    """
    lines = [f"row.{item.name} = {_value(item.name, names)}" for item in fields(FrameRecord)]
    used = ", ".join(f"{name}={name}" for name in _USED)
    head = f"def make(frame, {', '.join(_CONTEXT)}, row_class, {used}):"
    scope: dict[str, Callable[..., FrameRecord]] = {}
    source = "\n ".join([head, "account = account or None", "row = new(row_class)", *lines])
    # Compiled first: CPython ends by SIGINT, whatever handles it, if it meets a string that runs.
    exec(compile(f"{source}\n return row", __file__, "exec"), dict(_USED), scope)
    return scope["make"]


_MAKERS = _Makers()
