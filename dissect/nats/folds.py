"""Talks -> the records of the tables that are wanted."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from natsync.protocol import Kind

from .events import Batch, Event, Note
from .flows import End
from .framing import RowMaker
from .options import Options
from .records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    SessionRecord,
    SubscriptionRecord,
)
from .sessions import Budget, Session
from .talks import Group, Release, Talk
from .wire import Direction

# What has to wait for bytes is put in its place among what the other side said meanwhile, if it comes
# within this time and number of frames.
_LATE_NS = 1_000_000_000
_LATE_FRAMES = 1000

# Sessions of which only the last word is wanted are told so many events at a time, so that the code that does
# it is in the processor's caches: a third less time for it. A large frame ends the waiting.
_TOGETHER = 256
_LARGE_BYTES = 1 << 16


_AT_THE_END = frozenset({"sessions", "flows"})


class Rows(NamedTuple):
    """Records that were released at once, of all tables that are wanted."""

    release: Release
    records: list[Record]


def fold(source: Iterable[Group], tables: Collection[str], options: Options) -> Iterator[Rows]:
    """The records that each group completes. `tables` are names out of `records.COLUMNS`."""
    alive: dict[Talk, _Fold] = {}
    budget = Budget()
    queue = _Queue() if _AT_THE_END.issuperset(tables) else None
    for release, talks in source:
        records: list[Record] = []
        for talk, events in talks:
            told = alive.get(talk)
            if told is None:
                told = alive[talk] = _Fold(talk, tables, options, budget, queue)
            told.take(events, records)
            if talk.over:
                told.close(records)
                del alive[talk]
        if records:
            yield Rows(release, records)


class _Queue:
    """Events on their way to their sessions, of all talks."""

    def __init__(self) -> None:
        self._events: list[tuple[Session, Event]] = []

    def put(self, session: Session, events: list[Event]) -> None:
        """Takes them in order of time."""
        waiting = self._events
        for event in events:
            waiting.append((session, event))
            if event.__class__ is Batch and event.frames[0].total_bytes > _LARGE_BYTES:
                self.empty()
        if len(waiting) >= _TOGETHER:
            self.empty()

    def empty(self) -> None:
        """Tells the sessions."""
        for session, event in self._events:
            if event.__class__ is Batch:
                session.add(event)
            elif isinstance(event, Note):
                session.note(event)
        self._events.clear()


class _Fold:
    """What is kept of one talk. Where rows are made only at its end, its session is told by the `queue`."""

    def __init__(
        self,
        talk: Talk,
        tables: Collection[str],
        options: Options,
        budget: Budget,
        queue: _Queue | None,
    ) -> None:
        self._talk = talk
        self._queue = queue
        self._tables = tables
        wanted = talk.is_nats and tables != {"flows"}
        self._session = Session(talk.flow.id, tables, options.redact, budget) if wanted else None
        self._line = _Line(talk)
        self._frames = _Numbered(talk, options) if "frames" in tables else None
        self._wants_anomalies = "anomalies" in tables

    def take(self, events: list[Event], records: list[Record]) -> None:
        """Takes what is new; the records it completes are appended."""
        session, line = self._session, self._line
        if session is None:
            return
        if line.held or line.waits():
            events = line.take(events)
        if len(events) > 1:
            events.sort(key=_time)
        if self._queue:
            self._queue.put(session, events)
            return
        for event in events:
            if event.__class__ is Batch:
                session.add(event)
            elif isinstance(event, Note):
                session.note(event)
                if self._wants_anomalies:
                    records.append(_anomaly_row(self._talk, event))
        if self._frames:
            records += self._frames.rows(events, session.notes)
        if session.notes:
            self._tell_notes(session, records)
        if session.rows:
            records += self._rows(session)

    def close(self, records: list[Record]) -> None:
        """Nothing more comes."""
        talk, session = self._talk, self._session
        if self._queue:
            self._queue.empty()
        if session:
            row = session_row(talk, session)
            records += self._rows(session)
            self._tell_notes(session, records)
            if "sessions" in self._tables:
                records.append(row)
        if "flows" in self._tables:
            records.append(_flow_row(talk))

    def _rows(self, session: Session) -> list[Record]:
        """The rows that the session has completed."""
        rows, session.rows = session.rows, []
        account = self._talk.conversation.account
        if account:
            for row in rows:
                if isinstance(row, SubscriptionRecord):
                    row.account = account
        return rows

    def _tell_notes(self, session: Session, records: list[Record]) -> None:
        """What the session found odd."""
        if self._wants_anomalies:
            records += (_anomaly_row(self._talk, note) for note in session.notes)
        session.notes.clear()


class _Line:
    """Where the events of one talk wait: while bytes are missing, what is behind them comes later than
    what the other side said meanwhile, and an answer would come before its question."""

    def __init__(self, talk: Talk) -> None:
        self.held: list[Event] = []
        self._talk = talk
        self._frames = 0
        first, second = talk.flow.sides
        self._first, self._second = first.stream, second.stream

    def waits(self) -> bool:
        """Whether bytes are waited for."""
        if self._first.held or self._second.held:
            return not self._talk.over
        return self._talk.conversation.waiting and not self._talk.over

    def take(self, events: list[Event]) -> list[Event]:
        """What may go on, with these events behind those that wait."""
        held = self.held
        held += events
        self._frames += sum(len(event.frames) for event in events if isinstance(event, Batch))
        if self.waits() and self._frames < _LATE_FRAMES:
            if not held or held[-1].ts_ns - held[0].ts_ns < _LATE_NS:
                return []
        self.held, self._frames = [], 0
        return held


def _time(event: Event) -> int:
    return event.ts_ns


class _Numbered:
    """The rows of one talk's frames."""

    def __init__(self, talk: Talk, options: Options) -> None:
        self._talk = talk
        self._maker = RowMaker(talk.flow.id, options.payload, options.redact)

    def rows(self, events: Iterable[Event], notes: Sequence[Note]) -> list[FrameRecord]:
        """The rows of frames in order of time. `notes` are what the session found odd about them."""
        talk = self._talk
        kind, account = kind_name(talk.conversation.kind), talk.conversation.account
        rows: list[FrameRecord] = []
        for event in events:
            if isinstance(event, Batch):
                rows += self._maker.rows(event, kind, account)
        if notes:
            _mark(rows, notes)
        return rows


def _mark(rows: Iterable[FrameRecord], notes: Iterable[Note]) -> None:
    """Says in the rows of frames what is odd about them."""
    places = {(row.sender, row.offset): row for row in rows}
    for note in notes:
        row = places.get((note.direction.value, note.offset))
        if row and note.length:
            said = row.anomalies or []
            if note.anomaly.value not in said:
                row.anomalies = [*said, note.anomaly.value]


def session_row(talk: Talk, session: Session) -> SessionRecord:
    """The row of a session, from what it is so far."""
    flow, conversation = talk.flow, talk.conversation
    session.finish(flow.last_ns if flow.end in (End.FIN, End.RST) else None, conversation.handshake)
    ledgers = [conversation.ledger(way) for way in Direction]
    record = SessionRecord(
        session=flow.id,
        capture=talk.capture,
        kind=kind_name(conversation.kind),
        transport=conversation.transport,
        compression=conversation.compression,
        originator=flow.originator,
        responder=flow.responder,
        proxied_for=conversation.proxied_for,
        first_ns=flow.first_ns,
        last_ns=flow.last_ns,
        start="handshake" if conversation.handshake else "midstream",
        end=flow.end.value,
        ended_by=flow.ended_by.value if flow.ended_by else None,
        account=conversation.account or None,
        missing_bytes=sum(ledger.missing for ledger in ledgers),
        skipped_bytes=sum(ledger.skipped for ledger in ledgers),
        opaque_bytes=sum(ledger.opaque for ledger in ledgers) or None,
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
        ended_by=flow.ended_by.value if flow.ended_by else None,
        retransmitted_originator=originator.stream.retransmitted_bytes,
        retransmitted_responder=responder.stream.retransmitted_bytes,
        out_of_order_originator=originator.stream.out_of_order,
        out_of_order_responder=responder.stream.out_of_order,
        missing_originator=originator.stream.missing_bytes,
        missing_responder=responder.stream.missing_bytes,
        protocol=talk.conversation.protocol,
    )


def kind_name(kind: Kind | None) -> str:
    """The kind as the columns say it."""
    return kind.value if kind else "unknown"
