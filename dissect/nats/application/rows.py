"""Rows that a frame begins: the columns that they share, and the text cells that several of them have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Protocol, TypedDict

from ..number_formats import duration_text, moment_text, size_text
from ..schema.declaration import LayerFrame, TextColumn
from ..schema.records import Record

TIME = TextColumn(
    "time", 23, lambda row: moment_text(row.ts_ns), rank=7, shorter=lambda cell: cell[11:]
)


@dataclass(slots=True, kw_only=True)
class _Begun(Record):
    session: Annotated[
        str,
        "session id: 16 hex digits",
        TextColumn("session", 16, rank=8, shorter=lambda cell: cell[:8]),
    ]
    number: Annotated[int, "number of the frame"]
    ts_ns: Annotated[int, "time of that frame", TIME]


@dataclass(slots=True, kw_only=True)
class SessionRow(_Begun):
    """A row about a frame of a session, and about those that follow from it."""

    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on connections between servers"] = None


@dataclass(slots=True, kw_only=True)
class UsedRow(_Begun):
    """A row about what a session uses until its end; the first frame that names it has the number."""

    last_ns: Annotated[int, "time of the last frame"]
    kind: Annotated[str, "kind of the connection"]
    account: Annotated[str | None, "account, on connections between servers"] = None


class Head(TypedDict):
    """The first columns of a row."""

    session: str
    number: int
    ts_ns: int
    kind: str
    account: str | None


def head(frame: LayerFrame | SessionRow) -> Head:
    """The first columns of a row that this frame, or the frame of this row, begins: `Row(**head(frame))`."""
    return {
        "session": frame.session,
        "number": frame.number,
        "ts_ns": frame.ts_ns,
        "kind": frame.kind,
        "account": frame.account,
    }


class Marked(Protocol):
    """A row with the column `anomalies`."""

    anomalies: list[str] | None


def mark(row: Marked, anomaly: str | None) -> None:
    """Adds an anomaly to a row, if there is one."""
    if anomaly:
        row.anomalies = [*(row.anomalies or ()), anomaly]


def words(*parts: str | None, row: Marked) -> str:
    """A cell with what went wrong: these parts, as far as they are there, and the anomalies of the row."""
    return " ".join(filter(None, (*parts, *(row.anomalies or ()))))


STREAM = TextColumn("stream", 12, may_cut=True)
CONSUMER = TextColumn("consumer", 12, may_cut=True)
DOMAIN = TextColumn("domain", 8, may_cut=True, rank=6)
BUCKET = TextColumn("bucket", 12, may_cut=True)
LATENCY = TextColumn("latency", 8, render=duration_text, rank=2)
ODD = TextColumn("odd", 16, lambda row: words(row=row), may_cut=True, alarm=True)
ERROR = TextColumn("error", 20, lambda row: words(row.error, row=row), may_cut=True, alarm=True)
API_ERROR = TextColumn(
    "error",
    24,
    lambda row: words(str(row.err_code or row.code or ""), row.error, row=row),
    may_cut=True,
    alarm=True,
)
PAYLOAD = TextColumn(
    "payload", 24, lambda row: row.payload or row.payload_sha256 or "", may_cut=True
)


def counted(name: str, usual: int, rank: int = 0, alarm: bool = False) -> TextColumn:
    """The cell of a count, empty if it is 0."""
    return TextColumn(name, usual, rank=rank, alarm=alarm, quiet=True)


def sized(name: str, rank: int = 0) -> TextColumn:
    """The cell of a size, empty if it is 0."""
    return TextColumn(name, 7, rank=rank, render=size_text, quiet=True)


def lasting(name: str, rank: int = 0) -> TextColumn:
    """The cell of a duration."""
    return TextColumn(name, 8, rank=rank, render=duration_text)
