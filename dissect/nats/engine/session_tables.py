"""Events of connections -> the records of the requested tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from natsync.protocol import Kind

from ..capture.report import ALL, DUPLICATE
from ..framing import FinishedFraming
from ..framing.events import Batch, Event, Note
from ..options import Options
from ..schema.records import AnomalyRecord, FlowRecord, Record, SubscriptionRecord
from ..secrets.redact import NOT_MASKED, Secrets
from ..sessions import EntryQuota, Session, SessionDelta
from ..tables import FROM_ENGINE, TABLES
from ..tcp.paths import path_text
from ..types import NEVER_NS, Direction
from .application_rows import ApplicationRows, ApplicationStates
from .connections import Connection, PacketEvents, ReleaseKey
from .event_order import EventOrder
from .finished_session import FinishedSession, LastRows
from .frame_rows import FrameRows
from .session_row import add_facts, session_row, start_of

# This many groups are processed together, so that code and data stay in the processor's caches, which saves a
# third of the time. Groups with large frames are processed sooner.
_GROUP_EVENTS = 256
_TOGETHER_BYTES = 1 << 20
_FRAME = 300  # bytes that an object for a frame takes
# A packet may expand to a million frames. Records of more than so many are made in parts.
_MOST_BYTES = 8 << 20
_PART = 4096

_time = attrgetter("ts_ns")
_AT_THE_END = frozenset(name for name, table in TABLES.items() if table.at_end)
# Tables that need the state of a session. Application layers need none: without it, their ten tables take a
# tenth less time.
_OF_SESSIONS = frozenset(FROM_ENGINE) - {"flows"}


class ReleasedRows(NamedTuple):
    """Records of all requested tables that were released together."""

    release: ReleaseKey
    records: list[Record]


class Due(NamedTuple):
    """What is due of one connection in a group: its `events`, its kind and account at that time, and whether
    it is `over`."""

    tables: SessionTables
    events: list[Event]
    kind: Kind | None
    account: str
    over: bool


class TableBuilder:
    """Call `feed` any number of times, then `finish`, then `close`. `alive` has the tables of open
    connections, and `quota` limits the entries of their sessions. With `quiet`, the state is the same, but no
    records are made. `protocols` counts the connections that are over, by protocol, and `tcp_bytes` their
    bytes, as in `CaptureReport`. With `request_events`, events of requests stand for the rows of `requests`.
    """

    def __init__(
        self,
        tables: Collection[str],
        options: Options,
        quiet: bool = False,
        protocols: Counter[str] | None = None,
        request_events: bool = False,
        tcp_bytes: Counter[str] | None = None,
    ) -> None:
        self._protocols: Counter[str] = Counter() if protocols is None else protocols
        self._tcp_bytes: Counter[str] = Counter() if tcp_bytes is None else tcp_bytes
        self.alive: dict[Connection, SessionTables] = {}
        self.quota = EntryQuota()
        self._tables = frozenset(tables)
        self._options = options
        self._layers = ApplicationStates(self._tables)
        self._request_events = request_events
        self._records_of = _discarded if quiet else partial(_records_of, kinds=options.kind)

    def restore(self, connection: Connection, tables: SessionTables) -> None:
        """Adds the restored tables of a connection."""
        self.alive[connection] = tables
        tables.recharge()

    def feed(
        self, source: Iterable[PacketEvents], together: bool = False
    ) -> Iterator[ReleasedRows]:
        """The records that each group completes, at the latest when `source` ends. With `together`, records
        may come a few groups later, which takes less time."""
        alive, tables, options, quota = self.alive, self._tables, self._options, self.quota
        layers = self._layers
        most = _GROUP_EVENTS if together or _AT_THE_END.issuperset(tables) else 1
        waiting: list[tuple[ReleaseKey, list[Due]]] = []
        held_bytes = 0
        for release, connections in source:
            dues: list[Due] = []
            ended: list[SessionTables] = []
            for connection, events in connections:
                session_tables = alive.get(connection)
                if session_tables is None:
                    session_tables = alive[connection] = SessionTables(
                        connection,
                        tables,
                        options,
                        quota,
                        layers,
                        self._request_events,
                    )
                events = session_tables.due(events)
                framing = connection.framing
                kind, account, over = framing.kind, framing.account, connection.over
                dues.append(Due(session_tables, events, kind, account, over))
                for event in events:
                    if event.__class__ is Batch:
                        held_bytes += event.frames[0].total_bytes + _FRAME * len(event.frames)
                if connection.finished:
                    ended.append(session_tables)
                if connection.over:
                    self._protocols[framing.facts.protocol] += 1
                    for side in connection.flow.sides:
                        self._tcp_bytes[ALL] += side.bytes
                        self._tcp_bytes[DUPLICATE] += side.stream.duplicate_bytes
                    del alive[connection]
            if held_bytes < _MOST_BYTES:
                waiting.append((release, dues))
            else:
                waiting += [(release, [part]) for due in dues for part in _parts(due)]
            if ended or len(waiting) >= most or held_bytes > _TOGETHER_BYTES:
                yield from self._records_of(waiting)
                waiting = []
                held_bytes = 0
                for session_tables in ended:
                    session_tables.shrink()
        yield from self._records_of(waiting)

    def finish(self) -> Iterator[ReleasedRows]:
        """The records of layers across sessions, after the last group."""
        for number, records in enumerate(self._layers.finish()):
            if records:
                yield ReleasedRows(ReleaseKey(NEVER_NS, number), records)

    def close(self) -> None:
        """Frees the files of layers across sessions."""
        self._layers.close()


def _discarded(groups: Iterable[tuple[ReleaseKey, list[Due]]]) -> list[ReleasedRows]:
    """Updates the state as `_records_of` does, without making records."""
    for _, dues in groups:
        for due in dues:
            if due.events:
                due.tables.update(due.events)
            if due.over:
                due.tables.drop()
    return []


def _records_of(
    groups: Iterable[tuple[ReleaseKey, list[Due]]], kinds: Container[Kind | None] | None
) -> Iterator[ReleasedRows]:
    """The records of these groups, for connections of these kinds."""
    for release, dues in groups:
        records: list[Record] = []
        for session_tables, events, kind, account, over in dues:
            if kinds is not None and kind not in kinds:
                session_tables.update(events)
                if over:
                    session_tables.drop()
                continue
            if events:
                session_tables.add(events, kind, account, records)
            if over:
                session_tables.close(records)
        if records:
            yield ReleasedRows(release, records)


def _parts(due: Due) -> list[Due]:
    """What is due, in parts of up to `_PART` frames."""
    parts: list[Due] = []
    for event in due.events:
        for part in event.parts(_PART) if isinstance(event, Batch) else [event]:
            parts.append(due._replace(events=[part], over=False))
    return [*parts[:-1], parts[-1]._replace(over=due.over)] if parts else [due]


class SessionTables:
    """The state from which the rows of one connection are made.

    While NATS frames may come, the requested tables need a session, or the state of application layers, or
    both. After the last frame, the last rows are left (`FinishedSession`)."""

    __slots__ = (
        "_connection",
        "_tables",
        "_session",
        "_finished",
        "_order",
        "_frames",
        "_layers",
        "_wants_anomalies",
    )

    def __init__(
        self,
        connection: Connection,
        tables: Collection[str],
        options: Options,
        quota: EntryQuota,
        layers: ApplicationStates,
        request_events: bool = False,
    ) -> None:
        self._connection = connection
        self._tables = tables
        is_nats = connection.is_nats
        self._session = (
            Session(connection.flow.id, tables, options.redact, quota, request_events)
            if is_nats and not _OF_SESSIONS.isdisjoint(tables)
            else None
        )
        self._finished: FinishedSession | None = None
        self._order: EventOrder | None = EventOrder(connection)
        self._frames = FrameRows(connection.flow.id, options) if "frames" in tables else None
        self._layers = (
            ApplicationRows(connection, options, layers) if is_nats and layers.states else None
        )
        self._wants_anomalies = "anomalies" in tables

    def recharge(self) -> None:
        """Charges the quota of another table builder, in which the tables continue."""
        if self._session:
            self._session.recharge()

    def due(self, events: list[Event]) -> list[Event]:
        """Adds events to those that wait; returns the events that are due, in order of time."""
        if not (self._session or self._layers or self._finished):
            return []
        return self._order.add(events) if self._order else sorted(events, key=_time)

    def add(
        self, events: list[Event], kind: Kind | None, account: str, records: list[Record]
    ) -> None:
        """Adds events that are due, and appends the records that they complete. `kind` and `account` are
        those that were known of the connection at that time."""
        session = self._session
        if session:
            for event in events:
                if event.__class__ is Batch:
                    session.add(event)
                elif isinstance(event, Note):
                    session.note(event)
                    if self._wants_anomalies:
                        row = _anomaly_row(self._connection, event)
                        row.text = row.text and session.masked(row.text)
                        records.append(row)
            if self._frames:
                records += self._frames.rows(events, kind, account, session.notes)
            if session.notes:
                self._flush_notes(session, records)
            if session.rows:
                records += self._rows(session, account)
        if self._layers:
            records += self._layers.rows(events, kind, account)
        elif self._finished:
            self._add_late(events, records)

    def _add_late(self, events: list[Event], records: list[Record]) -> None:
        """Adds events after the last frame."""
        for event in events:
            assert self._finished and isinstance(event, Note)
            self._finished.note(event)
            if self._wants_anomalies:
                records.append(_anomaly_row(self._connection, event))

    @property
    def is_clear(self) -> bool:
        """Whether the next events are due at once."""
        return self._order is None or self._order.is_clear

    @property
    def session(self) -> Session | None:
        """The session, if the requested tables need one, until its last frame."""
        return self._session

    def completed(self) -> list[Record]:
        """Takes the rows that the session has completed since the last call."""
        session = self._session
        return self._rows(session, self._connection.framing.account) if session else []

    def add_delta(self, direction: Direction, delta: SessionDelta) -> bool:
        """Updates the state by the sums over many batches; see `Session.add_delta`."""
        self.pass_to(self.last_number + sum(delta.counts.values()))
        return self._session is None or self._session.add_delta(direction, delta)

    @property
    def secrets(self) -> Secrets:
        """The secrets to mask in the headers of the next frames."""
        return self._frames.secrets if self._frames else NOT_MASKED

    @property
    def last_number(self) -> int:
        """The number of the last frame, if rows are made of frames."""
        numbered = self._frames or self._layers
        return numbered.last_number if numbered else 0

    def pass_to(self, number: int) -> None:
        """Goes on after the frame with this number, which was read elsewhere."""
        for numbered in (self._frames, self._layers):
            if numbered:
                numbered.pass_to(number)

    @property
    def layers(self) -> ApplicationRows | None:
        """The application layers that read the frames, if there are any."""
        return self._layers

    def awaited(self) -> Sequence[bytes] | None:
        """The subjects of the answers for which layers wait; None if a layer reads every message, or if the
        bytes of a subject are not known."""
        return self._layers.awaited() if self._layers else ()

    def update(self, events: Iterable[Event]) -> None:
        """Updates the state as `add` does, without making records."""
        if self._finished:
            self._add_late(list(events), [])
            return
        session = self._session
        for event in events:
            if isinstance(event, Note):
                if session:
                    session.note(event)
                continue
            if session:
                session.add(event)
            if self._frames:
                self._frames.skip(event)
            if self._layers:
                self._layers.skip(event)
        if session:
            session.notes.clear()
            session.rows.clear()

    def close(self, records: list[Record]) -> None:
        """Appends the last records of a connection that is over."""
        connection = self._connection
        if self._session or self._layers:
            self._finish()
        notes, row = connection.framing.layer_notes, None
        if self._finished:
            rows, notes, row = self._finished.close(connection.flow)
            records += rows
        if self._wants_anomalies:
            records += (_anomaly_row(connection, note) for note in notes)
        if row and "sessions" in self._tables:
            records.append(row)
        if "flows" in self._tables:
            records.append(_flow_row(connection))

    def shrink(self) -> None:
        """Replaces the state of the session by its last rows if no more frames can come."""
        framing = self._connection.framing
        if isinstance(framing, FinishedFraming) and not framing.last and self.is_clear:
            self._order = None
            if self._session or self._layers:
                self._finish()
            if self._finished:
                self._finished.pack()
                self._connection.framing = framing.without_counts()

    def _finish(self) -> None:
        """Ends the session, and makes its last rows."""
        session = self._session
        rows = self._layers.finish() if self._layers else []
        if session:
            row = session_row(self._connection, session)
            rows += self._rows(session, self._connection.framing.account)
            self._finished = FinishedSession(LastRows(rows, session.notes, row))
        else:
            self._finished = FinishedSession(LastRows(rows, [], None))
        self._session = self._frames = self._layers = None

    def drop(self) -> None:
        """Closes without making records."""
        if self._session:
            self._session.finish(None, False)

    def _rows(self, session: Session, account: str) -> list[Record]:
        """The rows that the session has completed."""
        rows, session.rows = session.rows, []
        if account:
            for row in rows:
                if isinstance(row, SubscriptionRecord):
                    row.account = account
        return rows

    def _flush_notes(self, session: Session, records: list[Record]) -> None:
        """Appends the anomalies that the session found."""
        if self._wants_anomalies:
            records += (_anomaly_row(self._connection, note) for note in session.notes)
        session.notes.clear()


def _anomaly_row(connection: Connection, note: Note) -> AnomalyRecord:
    return AnomalyRecord(
        session=connection.flow.id,
        ts_ns=note.ts_ns,
        packet=note.number,
        sender=note.direction.value,
        anomaly=note.anomaly.value,
        offset=note.offset,
        bytes=note.length,
        text=note.text or None,
    )


def _flow_row(connection: Connection) -> FlowRecord:
    flow = connection.flow
    originator, responder = flow.side(Direction.ORIGINATOR), flow.side(Direction.RESPONDER)
    record = FlowRecord(
        session=flow.id,
        community_id=flow.community_id,
        originator=flow.originator,
        responder=flow.responder,
        first_ns=flow.first_ns,
        last_ns=flow.latest_ns,
        packets_originator=originator.packets,
        packets_responder=responder.packets,
        bytes_originator=originator.bytes,
        bytes_responder=responder.bytes,
        start=start_of(connection),
        end=flow.end.value,
        ended_by=flow.ended_by.value if flow.ended_by else None,
        zero_windows_originator=originator.zero_windows,
        zero_windows_responder=responder.zero_windows,
        zero_window_ns_originator=originator.zero_window_ns,
        zero_window_ns_responder=responder.zero_window_ns,
        window_full_originator=originator.window_full,
        window_full_responder=responder.window_full,
        retransmitted_originator=originator.stream.retransmitted_bytes,
        retransmitted_responder=responder.stream.retransmitted_bytes,
        duplicate_bytes=originator.stream.duplicate_bytes + responder.stream.duplicate_bytes,
        path=path_text(flow),
        out_of_order_originator=originator.stream.out_of_order,
        out_of_order_responder=responder.stream.out_of_order,
        missing_originator=originator.stream.missing_bytes,
        missing_responder=responder.stream.missing_bytes,
        protocol=connection.framing.facts.protocol,
    )
    add_facts(record, connection.framing.stack.facts)
    return record
