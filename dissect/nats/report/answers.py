"""What the report shows: the answers to its questions, in the form that figures and the page need."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from ..questions.ask import AnswerRow, QueryEngine, answer_of, ask, sql_of
from .ladders import Ladders, ladders_of
from .subjects import Subjects, Volume
from .topology import Topology, topology_of

QUESTIONS = (
    "totals traffic subjects sessions slow stopped talkers sums counts topology servers latency latencies"
    " latency_over_time requests_by_subject slowest failed streams consumers lag ack_latencies stores"
    " services anomalies largest_anomalies ladder_sessions ladder_frames ladder_messages"
).split()
"""The questions that a report asks."""

SESSIONS = 1000
"""The most sessions that have a row on the page."""
SUBJECTS = 4000
"""The most subjects and wildcards whose messages are counted separately."""
REQUESTED = 200
"""The most subjects of requests whose latency is shown separately."""
NAMED = 300
"""The most talkers, streams, consumers, and names of one kind, that are counted separately."""
ROWS = 200
SLOW = 50
SLOWEST = 25
DRAWN = 8
"""The most consumers whose lag is drawn separately."""

MESSAGES, BYTES, EVENTS = "messages", "bytes", "events"


class Shown(list[AnswerRow]):
    """Rows that are shown. `seen` is the number of all rows."""

    @property
    def seen(self) -> int:
        """The number of rows, including those that are not shown."""
        return int(self[0].seen) if self else 0

    @property
    def dropped(self) -> int:
        """The number of rows that are not shown."""
        return self.seen - len(self)


class Lane(NamedTuple):
    """A measure of one kind of connection in one direction, or an event by its name."""

    measure: str
    name: str
    sender: str = ""


class Series(NamedTuple):
    """Numbers over time: the times at which their bins begin, and the numbers."""

    starts: list[int]
    numbers: list[int]


@dataclass(slots=True)
class Traffic:
    """Messages, their bytes, and events, in bins of time."""

    width_ns: int
    lanes: dict[Lane, Series]


@dataclass(slots=True)
class Connections:
    """Sessions and flows. `sums` has sums over all sessions."""

    sessions: Shown
    slow: Shown
    stopped: Shown
    talkers: list[AnswerRow]
    kinds: Counter[str]
    transports: Counter[str]
    auth: Counter[str]
    ends: Counter[str]
    errors: Counter[str]
    versions: Counter[str]
    protocols: Counter[str]
    sums: AnswerRow


@dataclass(slots=True)
class RequestFigures:
    """All requests of clients."""

    outcomes: Counter[str]
    latency: AnswerRow
    histogram: list[AnswerRow]
    over_time: list[AnswerRow]
    slowest: list[AnswerRow]
    failed: list[AnswerRow]
    subjects: list[AnswerRow]


@dataclass(slots=True)
class JetStreamFigures:
    """JetStream over all sessions. `acks` is the histogram of the times from a delivery to its ack."""

    streams: list[AnswerRow]
    consumers: list[AnswerRow]
    lag: list[AnswerRow]
    acks: list[AnswerRow]
    pull_ends: Counter[str]
    calls: Counter[str]
    errors: Counter[str]

    @property
    def is_empty(self) -> bool:
        """Whether no session used JetStream."""
        return not (self.streams or self.consumers or self.acks or self.calls or self.errors)


@dataclass(slots=True)
class Answers:
    """The answers to all questions of a report. `copies` is the number of sessions that are not in it,
    because another one shows the same connection."""

    totals: AnswerRow
    traffic: Traffic
    subjects: Subjects
    connections: Connections
    topology: Topology
    requests: RequestFigures
    jetstream: JetStreamFigures
    ladders: Ladders
    anomalies: list[AnswerRow]
    largest_anomalies: list[AnswerRow]
    stores: list[AnswerRow]
    services: Shown
    streaming: Counter[str]
    copies: int = 0


def answers_of(engine: QueryEngine, copies: int = 0) -> Answers:
    """Asks all questions."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row in ask(engine, "counts", limit=NAMED):
        counts[row.what][row.name] = row.count
    (totals,) = ask(engine, "totals")
    return Answers(
        totals=totals,
        traffic=traffic_of(engine),
        subjects=subjects_of(engine),
        connections=_connections(engine, counts),
        topology=topology_of(engine),
        requests=_requests(engine, counts),
        jetstream=_jetstream(engine, counts),
        ladders=ladders_of(engine),
        anomalies=ask(engine, "anomalies"),
        largest_anomalies=ask(engine, "largest_anomalies", limit=ROWS),
        stores=ask(engine, "stores", limit=ROWS),
        services=Shown(ask(engine, "services", limit=ROWS)),
        streaming=counts["streaming"],
        copies=copies,
    )


def traffic_of(engine: QueryEngine) -> Traffic:
    """Traffic over time."""
    lanes: defaultdict[Lane, Series] = defaultdict(lambda: Series([], []))
    width_ns = 0

    def add(lane: Lane, start: int, number: int) -> None:
        lanes[lane].starts.append(start)
        lanes[lane].numbers.append(number)

    for row in ask(engine, "traffic"):
        width_ns = row.width_ns
        add(Lane(row.measure, row.name, row.sender), row.bin_ns, row.count)
        if row.measure == MESSAGES:
            add(Lane(BYTES, row.name, row.sender), row.bin_ns, row.bytes)
    return Traffic(width_ns, {lane: lanes[lane] for lane in sorted(lanes)})


def subjects_of(engine: QueryEngine, limit: int = SUBJECTS) -> Subjects:
    """The volume of each subject. If there are too many subjects, rare ones become wildcards, step by step:
    `orders.eu.17` is counted under `orders.eu.>`, then under `orders.>`."""
    sql, merged = sql_of("subjects"), 0
    while len(rows := answer_of(engine, f"{sql}\nLIMIT {limit + 1}")) > limit:
        sql = sql_of("wildcards", subjects=sql, kept=limit // 2)
        merged += 1
    volumes = {
        row.subject: Volume(row.published, row.delivered, row.passed, row.bytes) for row in rows
    }
    return Subjects(volumes, merged)


def stopped_of(engine: QueryEngine) -> Shown:
    """Connections on which a receiver stopped its sender."""
    return Shown(ask(engine, "stopped", limit=SLOW))


def _connections(engine: QueryEngine, counts: dict[str, Counter[str]]) -> Connections:
    (sums,) = ask(engine, "sums")
    return Connections(
        sessions=Shown(ask(engine, "sessions", limit=SESSIONS)),
        slow=Shown(ask(engine, "slow", limit=SLOW)),
        stopped=stopped_of(engine),
        talkers=ask(engine, "talkers", limit=NAMED),
        kinds=counts["kind"],
        transports=counts["transport"],
        auth=counts["auth"],
        ends=counts["end"],
        errors=counts["error"],
        versions=counts["version"],
        protocols=counts["protocol"],
        sums=sums,
    )


def _requests(engine: QueryEngine, counts: dict[str, Counter[str]]) -> RequestFigures:
    (latency,) = ask(engine, "latency")
    return RequestFigures(
        outcomes=counts["outcome"],
        latency=latency,
        histogram=ask(engine, "latencies"),
        over_time=ask(engine, "latency_over_time"),
        slowest=ask(engine, "slowest", limit=SLOWEST),
        failed=ask(engine, "failed", limit=SLOWEST),
        subjects=ask(engine, "requests_by_subject", limit=REQUESTED),
    )


def _jetstream(engine: QueryEngine, counts: dict[str, Counter[str]]) -> JetStreamFigures:
    return JetStreamFigures(
        streams=ask(engine, "streams", limit=NAMED),
        consumers=ask(engine, "consumers", limit=NAMED),
        lag=ask(engine, "lag", limit=DRAWN),
        acks=ask(engine, "ack_latencies"),
        pull_ends=counts["pull"],
        calls=counts["call"],
        errors=counts["refusal"],
    )
