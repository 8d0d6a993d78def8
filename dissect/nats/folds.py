"""Talks -> the records of the tables that are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from natsync.protocol import Kind

from .events import Batch, Event, Note
from .framing import RowMaker
from .options import Options
from .records import AnomalyRecord, FlowRecord, FrameRecord, Record, SessionRecord
from .sessions import Session
from .talks import Group, Release, Talk
from .wire import Direction

# A row whose time lies before another one's of its session, because it had to wait for bytes, is put in
# its place if it comes within this time and number of rows.
_LATE_NS = 1_000_000_000
_LATE_ROWS = 1000

_OF_SESSIONS = {"sessions", "subscriptions", "requests"}


class Rows(NamedTuple):
    """Records that were released at once, of all tables that are wanted."""

    release: Release
    records: list[Record]


def fold(source: Iterable[Group], tables: Collection[str], options: Options) -> Iterator[Rows]:
    """The records that each group completes. `tables` are names out of `records.COLUMNS`."""
    alive: dict[Talk, _Fold] = {}
    for release, talks in source:
        records: list[Record] = []
        for talk, events in talks:
            told = alive.get(talk)
            if told is None:
                told = alive[talk] = _Fold(talk, tables, options)
            told.take(events, records)
            if talk.over:
                told.close(records)
                del alive[talk]
        if records:
            yield Rows(release, records)


class _Fold:
    """What is kept of one talk."""

    def __init__(self, talk: Talk, tables: Collection[str], options: Options) -> None:
        self._talk = talk
        self._tables = tables
        wanted = talk.is_nats and not _OF_SESSIONS.isdisjoint(tables)
        self._session = Session(options.redact) if wanted else None
        self._frames = Numbered(talk, options) if "frames" in tables else None
        self._anomalies = "anomalies" in tables

    def take(self, events: list[Event], records: list[Record]) -> None:
        """Takes what is new; the records it completes are appended."""
        if self._session:
            tell(self._session, events)
        if self._frames:
            records += self._frames.rows(events)
        if self._anomalies:
            records += (
                _anomaly_row(self._talk, event) for event in events if isinstance(event, Note)
            )

    def close(self, records: list[Record]) -> None:
        """Nothing more comes."""
        talk = self._talk
        if self._session and "sessions" in self._tables:
            records.append(session_row(talk, self._session))
        if "flows" in self._tables:
            records.append(_flow_row(talk))


def tell(session: Session, events: Iterable[Event]) -> None:
    """Hands events to a session."""
    for event in events:
        if isinstance(event, Batch):
            session.add(event.direction, event.ts_ns, event.frames)
        else:
            session.note(event.direction, event.anomaly)


class Numbered:
    """The rows of one talk. While bytes are waited for, the rows behind them wait too."""

    def __init__(self, talk: Talk, options: Options) -> None:
        self._talk = talk
        self._maker = RowMaker(talk.flow.id, options.payload, options.redact)
        self._late: list[FrameRecord] = []
        self._number = 0

    def rows(self, events: Iterable[Event]) -> list[FrameRecord]:
        """The rows that are complete with these events, in order of time."""
        talk = self._talk
        kind, account = kind_name(talk.conversation.kind), talk.conversation.account
        for event in events:
            if isinstance(event, Batch):
                self._late.extend(self._maker.rows(event, kind, account))
        if self._late and (talk.over or not self._waits()):
            return self._in_order()
        return []

    def _waits(self) -> bool:
        talk = self._talk
        if not talk.conversation.waiting and not any(s.stream.held for s in talk.flow.sides):
            return False
        first, last = self._late[0], self._late[-1]
        return len(self._late) < _LATE_ROWS and last.ts_ns - first.ts_ns < _LATE_NS

    def _in_order(self) -> list[FrameRecord]:
        rows, self._late = self._late, []
        if len(rows) > 1:
            rows.sort(key=lambda row: row.ts_ns)
        for row in rows:
            self._number += 1
            row.number = self._number
        return rows


def session_row(talk: Talk, session: Session) -> SessionRecord:
    """The row of a session, from what it is so far."""
    flow, conversation = talk.flow, talk.conversation
    ledgers = [conversation.ledger(way) for way in Direction]
    record = SessionRecord(
        session=flow.id,
        capture=talk.capture,
        kind=kind_name(conversation.kind),
        transport=conversation.transport,
        compression=conversation.compression,
        originator=flow.originator,
        responder=flow.responder,
        first_ns=flow.first_ns,
        last_ns=flow.last_ns,
        start="handshake" if conversation.handshake else "midstream",
        end=flow.end.value,
        ended_by=flow.ended_by.value if flow.ended_by else None,
        account=conversation.account or None,
        missing_bytes=sum(ledger.missing for ledger in ledgers),
        skipped_bytes=sum(ledger.skipped for ledger in ledgers),
        retransmitted_bytes=sum(side.stream.retransmitted_bytes for side in flow.sides),
    )
    session.fill(record, conversation.kind)
    return record


def _anomaly_row(talk: Talk, note: Note) -> AnomalyRecord:
    return AnomalyRecord(
        session=talk.flow.id,
        ts_ns=note.ts_ns,
        packet=note.number,
        sender=note.direction.value,
        anomaly=note.anomaly.value,
        offset=note.offset,
        bytes=note.length,
        text=note.text or None,
    )


def _flow_row(talk: Talk) -> FlowRecord:
    flow = talk.flow
    originator, responder = (flow.side(way) for way in Direction)
    transport = talk.conversation.transport
    nats = "nats" if transport == "tcp" else transport
    return FlowRecord(
        session=flow.id,
        community_id=flow.community_id,
        originator=flow.originator,
        responder=flow.responder,
        first_ns=flow.first_ns,
        last_ns=flow.last_ns,
        packets_originator=originator.packets,
        packets_responder=responder.packets,
        bytes_originator=originator.bytes,
        bytes_responder=responder.bytes,
        start="midstream" if flow.midstream else "handshake",
        end=flow.end.value,
        retransmitted_originator=originator.stream.retransmitted_bytes,
        retransmitted_responder=responder.stream.retransmitted_bytes,
        out_of_order_originator=originator.stream.out_of_order,
        out_of_order_responder=responder.stream.out_of_order,
        missing_originator=originator.stream.missing_bytes,
        missing_responder=responder.stream.missing_bytes,
        protocol=nats if talk.is_nats else "other",
    )


def kind_name(kind: Kind | None) -> str:
    """The kind as the columns say it."""
    return kind.value if kind else "unknown"
