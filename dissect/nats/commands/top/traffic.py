"""The counts that `nats-dissect top` shows: connections, subjects, requests and problems, with their rates.

Each table keeps at most `MOST_LINES` lines. When it is full, a quarter of them is dropped: ended connections
first, then the lines that were silent longest; `forgotten` counts them. Texts come from the engine's tables,
so secrets are masked already.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import ClassVar, Generic, TypeVar

from ... import outcomes
from ...application.servers import connection_in
from ...durations import Durations
from ...engine.connections import Connection
from ...schema.records import AnomalyRecord, FrameRecord, Record
from ...sessions import Moment, RequestEvent
from ...subjects import generic
from ...tcp.flow import End

MOST_LINES = 10_000
"""The limit of each table except requests. A line takes about 1 kB."""
MOST_REQUEST_LINES = 1_000
"""The limit of requests. A line takes up to 200 kB, because it has many latencies."""

OPEN = "open"
_LOSSES = frozenset({"lost", "truncated"})


@dataclass(slots=True, kw_only=True)
class TopLine:
    """A line of a table. `rates` has the growth of each of `counters` per second in the last interval."""

    counters: ClassVar[tuple[str, ...]] = ()
    last_ns: int = 0
    rates: dict[str, float] = field(default_factory=dict)
    before: tuple[int, ...] = ()

    def measure(self, seconds: float) -> None:
        """Computes the rates since the last call, or since the beginning."""
        now = tuple(getattr(self, name) for name in self.counters)
        old = self.before or (0,) * len(now)
        self.rates = {
            name: (new - was) / seconds for name, new, was in zip(self.counters, now, old)
        }
        self.before = now

    @property
    def is_over(self) -> bool:
        """Whether nothing more can be counted."""
        return False


@dataclass(slots=True, kw_only=True)
class ConnectionLine(TopLine):
    """A NATS connection. `sent` and `received` are messages, as its originator sees them."""

    counters: ClassVar[tuple[str, ...]] = ("sent", "received", "bytes")
    session: str
    kind: str = "unknown"
    name: str | None = None
    server: str | None = None
    originator: str
    responder: str
    state: str = OPEN
    sent: int = 0
    received: int = 0
    bytes: int = 0
    errors: int = 0
    lost_bytes: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the connection is over."""
        return self.state != OPEN


@dataclass(slots=True, kw_only=True)
class SubjectLine(TopLine):
    """A subject: messages from clients, to clients, and between servers."""

    counters: ClassVar[tuple[str, ...]] = ("published", "delivered", "forwarded", "bytes")
    subject: str
    published: int = 0
    delivered: int = 0
    forwarded: int = 0
    bytes: int = 0


@dataclass(slots=True, kw_only=True)
class RequestLine(TopLine):
    """The requests to one subject. `failed` counts those without a reply and those with an error as reply: an
    unanswered one counts when no more replies can come. `latencies` are of those that were answered.
    """

    counters: ClassVar[tuple[str, ...]] = ("requests", "failed")
    subject: str
    requests: int = 0
    failed: int = 0
    latencies: Durations = field(default_factory=Durations)


@dataclass(slots=True, kw_only=True)
class ProblemLine(TopLine):
    """An -ERR, an anomaly, or failed requests of one connection."""

    counters: ClassVar[tuple[str, ...]] = ("count",)
    problem: str
    text: str
    session: str
    count: int = 0
    bytes: int = 0


AnyLine = TypeVar("AnyLine", bound=TopLine)


class TopLines(Generic[AnyLine]):
    """The lines of one table, each with a key; `forgotten` counts lines that were dropped."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self.forgotten = 0
        self._most = most
        self._lines: dict[object, AnyLine] = {}

    def __iter__(self) -> Iterator[AnyLine]:
        return iter(self._lines.values())

    def __len__(self) -> int:
        return len(self._lines)

    def get(self, key: object) -> AnyLine | None:
        """The line with this key, if there is one."""
        return self._lines.get(key)

    def line(self, key: object, make: Callable[[], AnyLine]) -> AnyLine:
        """The line with this key; a new one if there is none."""
        line = self._lines.get(key)
        if line is None:
            if len(self._lines) >= self._most:
                self._drop()
            line = self._lines[key] = make()
        return line

    def _drop(self) -> None:
        quarter = max(1, self._most // 4)
        oldest = nsmallest(
            quarter, self._lines.items(), key=lambda item: (not item[1].is_over, item[1].last_ns)
        )
        for key, _ in oldest:
            del self._lines[key]
        self.forgotten += len(oldest)


@dataclass(slots=True, frozen=True)
class StoredFlow:
    """What the tables have of a connection."""

    id: str
    originator: str
    responder: str
    first_ns: int
    latest_ns: int
    end: End


@dataclass(slots=True, frozen=True)
class StoredConnection:
    """A connection in tables."""

    flow: StoredFlow


class TopTraffic:
    """The four tables, and totals. Call `meet` for each connection before its rows are added, and `part` when
    it is over; `measure` ends an interval. Sessions that show a connection which another session shows
    already are counted in `copies`, and nowhere else."""

    def __init__(self, most: int = MOST_LINES) -> None:
        self.connections: TopLines[ConnectionLine] = TopLines(most)
        self.subjects: TopLines[SubjectLine] = TopLines(most)
        self.requests: TopLines[RequestLine] = TopLines(min(most, MOST_REQUEST_LINES))
        self.problems: TopLines[ProblemLine] = TopLines(most)
        self.totals: Counter[str] = Counter()
        self.rates: dict[str, float] = {}
        self.latencies = Durations()
        self.open: Counter[str] = Counter()
        self.copies = 0
        self._before: Counter[str] = Counter()
        self._met: dict[str, Connection | StoredConnection] = {}
        self._shown: dict[tuple[str, int], str] = (
            {}
        )  # the first session of each numbered connection
        self._numbers: dict[str, tuple[str, int]] = {}  # its number, by that session
        self._copies: set[str] = set()

    def meet(self, connection: Connection | StoredConnection) -> None:
        """Notes a connection whose rows may come next."""
        self._met[connection.flow.id] = connection

    def part(self, connection: Connection) -> None:
        """Notes that a connection is over and gets no more rows; it stays in its table."""
        self._update(connection)
        session = connection.flow.id
        self._met.pop(session, None)
        self._copies.discard(session)
        number = self._numbers.pop(session, None)
        if number and self._shown[number] == session:
            del self._shown[number]

    def _update(self, connection: Connection | StoredConnection) -> None:
        """Updates the line of a connection with facts that its rows do not have."""
        flow = connection.flow
        if line := self.connections.get(flow.id):
            line.state = flow.end.value
            line.originator, line.responder = flow.originator, flow.responder

    def add(self, records: Iterable[Record]) -> None:
        """Counts rows of `frames` and `anomalies`, and events of requests."""
        copies = self._copies
        for record in records:
            if isinstance(record, FrameRecord):
                if record.op == "INFO" and record.session not in self._numbers:
                    self._note_number(record)
                if record.session not in copies:
                    self._add_frame(record)
            elif isinstance(record, RequestEvent):
                if record.request.session not in copies:
                    self._add_request(record)
            elif isinstance(record, AnomalyRecord) and record.session not in copies:
                self._add_anomaly(record)

    def _note_number(self, frame: FrameRecord) -> None:
        """Notes the number that a connection has on its server, and whether another session shows it, too."""
        session, number = frame.session, connection_in(_object(frame.json))
        connection = self._met.get(session)
        if not number or not connection or session in self._copies or frame.sender != "responder":
            return
        first = self._met.get(self._shown.get(number, ""))
        if first and connection.flow.first_ns <= first.flow.latest_ns:
            self._copies.add(session)
            self.copies += 1
        else:
            self._shown[number] = session
            self._numbers[session] = number

    def lines(self, table: str) -> list[TopLine]:
        """The lines of a table, by its name."""
        return [*getattr(self, table)]

    def forgotten(self, table: str) -> int:
        """The number of lines of a table that were dropped."""
        return int(getattr(self, table).forgotten)

    def measure(self, seconds: float) -> None:
        """Computes all rates since the last call, which was `seconds` ago."""
        for connection in self._met.values():
            self._update(connection)
        for table in ("connections", "subjects", "requests", "problems"):
            for line in self.lines(table):
                line.measure(seconds)
        self.rates = {
            name: (count - self._before[name]) / seconds for name, count in self.totals.items()
        }
        self._before = self.totals.copy()
        self.open = Counter(line.kind for line in self.connections if not line.is_over)

    def _connection(self, session: str) -> ConnectionLine | None:
        """The line of a session, which is made if it is missing; None if the session is over and has none."""
        line = self.connections.get(session)
        if line is None and (connection := self._met.get(session)):
            flow = connection.flow
            line = self.connections.line(
                session,
                lambda: ConnectionLine(
                    session=session, originator=flow.originator, responder=flow.responder
                ),
            )
        return line

    def _add_frame(self, frame: FrameRecord) -> None:
        connection = self._connection(frame.session)
        if connection:
            connection.last_ns, connection.kind = frame.ts_ns, frame.kind
        if frame.payload_bytes is not None:
            self._add_message(frame, connection)
        elif frame.json is not None:
            if connection:
                _name(connection, frame)
        elif frame.error is not None:
            if connection:
                connection.errors += 1
            self._problem(frame.session, frame.ts_ns, "-ERR", frame.error)

    def _add_message(self, frame: FrameRecord, connection: ConnectionLine | None) -> None:
        size = (frame.header_bytes or 0) + (frame.payload_bytes or 0)
        self.totals["messages"] += 1
        self.totals["bytes"] += size
        if connection:
            connection.bytes += size
            if frame.sender == "originator":
                connection.sent += 1
            else:
                connection.received += 1
        name = generic(frame.subject or "")
        subject = self.subjects.line(name, lambda: SubjectLine(subject=name))
        subject.last_ns = frame.ts_ns
        subject.bytes += size
        if frame.op in ("PUB", "HPUB"):
            subject.published += 1
        elif frame.op in ("MSG", "HMSG"):
            subject.delivered += 1
        else:
            subject.forwarded += 1

    def _add_request(self, event: RequestEvent) -> None:
        """Counts a request when it is sent, and its latency and failure when they are known."""
        moment, request = event.moment, event.request
        name = generic(request.subject)
        line = self.requests.line(name, lambda: RequestLine(subject=name))
        if moment is Moment.SENT:
            line.last_ns = max(line.last_ns, request.sent_ns)
            line.requests += 1
            self.totals["requests"] += 1
            return
        line.last_ns = max(line.last_ns, request.replied_ns or request.sent_ns)
        is_answered = request.replied_ns is not None
        if moment is Moment.ANSWERED and request.latency_ns is not None:
            line.latencies.add(request.latency_ns)
            self.latencies.add(request.latency_ns)
        if is_answered is (moment is Moment.ANSWERED) and request.outcome != outcomes.OK:
            self._fail(line, request.session, request.outcome)

    def _fail(self, line: RequestLine, session: str, outcome: str) -> None:
        line.failed += 1
        self._problem(session, line.last_ns, outcome, f"request to {line.subject}")

    def _add_anomaly(self, found: AnomalyRecord) -> None:
        lost = found.bytes if found.anomaly in _LOSSES else 0
        if lost and (connection := self._connection(found.session)):
            connection.lost_bytes += lost
        self.totals["lost_bytes"] += lost
        self._problem(found.session, found.ts_ns, found.anomaly, found.text or "", found.bytes)

    def _problem(self, session: str, ts_ns: int, problem: str, text: str, size: int = 0) -> None:
        line = self.problems.line(
            (session, problem, text),
            lambda: ProblemLine(problem=problem, text=text, session=session),
        )
        line.last_ns = ts_ns
        line.count += 1
        line.bytes += size
        self.totals["problems"] += 1


def _name(line: ConnectionLine, frame: FrameRecord) -> None:
    """Takes the names of client and server from INFO and CONNECT."""
    info = _object(frame.json)
    name = info.get("name" if frame.op == "CONNECT" else "server_name")
    if not isinstance(name, str) or not name:
        return
    if frame.sender == "responder":
        line.server = name
    elif line.name is None or frame.op == "INFO":
        line.name = name


def _object(text: str | None) -> dict[str, object]:
    try:
        value = json.loads(text or "")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
