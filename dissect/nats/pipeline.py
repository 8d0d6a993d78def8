"""The stages in a row: packets -> segments -> talks -> rows. Streaming generators all the way.

    for row in sessions(["capture.pcap"]):
        print(row.kind, row.originator, row.messages_originator)

`frames` and `sessions` are for users: paths in, records out. They raise CaptureError where an input is
no capture; what is damaged ends up in the `report` handed in. Memory does not grow with the capture.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from natsync.protocol import Kind

from .capture import CaptureReport, read_packets
from .flows import Delivery, Flow, FlowTable
from .framing import Batch, Budget, Conversation, Event, Payload, RowMaker, Verdict
from .layers import Layers
from .reassembly import Stream
from .records import FrameRecord, SessionRecord
from .sessions import Session
from .wire import Direction, Segment

# A row whose time lies before another one's of its session, because it had to wait for bytes, is put in
# its place if it comes within this time and number of rows.
_LATE_NS = 1_000_000_000
_LATE_ROWS = 1000


@dataclass(slots=True, eq=False)
class Talk:
    """A flow and what is said on it. `capture` is the file of its first byte. `over`: that was all."""

    flow: Flow
    conversation: Conversation
    capture: str
    over: bool = False


@dataclass(slots=True)
class Options:
    """How to read. `hints` maps ports to what the user says is spoken there."""

    hints: Mapping[int, Kind] = field(default_factory=dict)
    payload: Payload = Payload.NONE
    redact: bool = True


def segments(
    paths: Sequence[str], report: CaptureReport | None = None, layers: Layers | None = None
) -> Iterator[Segment]:
    """The TCP segments in the captures, in order of their times."""
    segment_of = (layers or Layers()).segment_of
    for packet in read_packets(paths, CaptureReport() if report is None else report):
        segment = segment_of(packet)
        if segment:
            yield segment


def talks(source: Iterable[Segment], options: Options) -> Iterator[tuple[Talk, list[Event]]]:
    """What every segment completes in its talk, and each talk once more when it is over.

    Flows that carry no NATS give nothing.
    """
    table = FlowTable(Stream)
    talking = _Talks(table, options)
    alive = talking.alive
    for segment in source:
        deliveries = table.add(segment)
        if not deliveries:
            continue
        flow, direction, items = deliveries[0]
        talk = alive.get(flow)
        if talk is None or len(deliveries) > 1 or flow.midstream:
            yield from talking.take(deliveries)
            continue
        events = talk.conversation.take(direction, items)
        if events:
            yield talk, events
    for delivery in table.finish():
        yield from talking.take([delivery])


class _Talks:
    """The talks of the flows that are alive."""

    def __init__(self, table: FlowTable, options: Options) -> None:
        self._table = table
        self._options = options
        self._budget = Budget()
        self.alive: dict[Flow, Talk] = {}

    def take(self, deliveries: Iterable[Delivery]) -> list[tuple[Talk, list[Event]]]:
        """What the deliveries complete. Flows are turned round when all of them were taken: their labels
        are those from before."""
        taken = []
        turned = []
        for flow, direction, items in deliveries:
            talk = self.alive.get(flow)
            if talk is None:
                if not items:
                    continue
                talk = self.alive[flow] = self._talk(flow, items[0].capture)
            conversation = talk.conversation
            events = conversation.take(direction, items) if items else []
            if flow.over and direction is Direction.RESPONDER:
                events += conversation.finish()
                talk.over = True
                del self.alive[flow]
            if conversation.turned and talk not in turned:
                turned.append(talk)
            if conversation.verdict is Verdict.NATS and (events or talk.over):
                taken.append((talk, events))
        for talk in turned:
            if talk.conversation.turned:
                talk.conversation.turned = False
                self._table.swap(talk.flow)
        return taken

    def _talk(self, flow: Flow, capture: str) -> Talk:
        options = self._options
        hint = self._hint(flow)
        payloads = options.payload is not Payload.NONE
        return Talk(flow, Conversation(flow.midstream, payloads, self._budget, hint), capture)

    def _hint(self, flow: Flow) -> Kind | None:
        """What the user says about the flow's ports. Who listens there is the responder."""
        hints = self._options.hints
        if not hints:
            return None
        ports = [int(end.rpartition(":")[2]) for end in (flow.responder, flow.originator)]
        return next((hints[port] for port in ports if port in hints), None)


def frame_rows(
    source: Iterable[tuple[Talk, list[Event]]], options: Options
) -> Generator[FrameRecord, None, None]:
    """A row a frame, numbered within its session in order of time."""
    makers: dict[Talk, _Numbered] = {}
    for talk, events in source:
        maker = makers.get(talk)
        if maker is None:
            maker = makers[talk] = _Numbered(talk, options)
        yield from maker.rows(events)
        if talk.over:
            del makers[talk]


class _Numbered:
    """The rows of one talk. While bytes are waited for, the rows behind them wait too."""

    def __init__(self, talk: Talk, options: Options) -> None:
        self._talk = talk
        self._maker = RowMaker(talk.flow.id, options.payload, options.redact)
        self._late: list[FrameRecord] = []
        self._number = 0

    def rows(self, events: Iterable[Event]) -> Iterator[FrameRecord]:
        talk = self._talk
        kind, account = kind_name(talk.conversation.kind), talk.conversation.account
        for event in events:
            if isinstance(event, Batch):
                self._late.extend(self._maker.rows(event, kind, account))
        if self._late and (talk.over or not self._waits()):
            yield from self._in_order()

    def _waits(self) -> bool:
        talk = self._talk
        if not talk.conversation.waiting and not any(s.stream.held for s in talk.flow.sides):
            return False
        first, last = self._late[0], self._late[-1]
        return len(self._late) < _LATE_ROWS and last.ts_ns - first.ts_ns < _LATE_NS

    def _in_order(self) -> Iterator[FrameRecord]:
        rows, self._late = self._late, []
        if len(rows) > 1:
            rows.sort(key=lambda row: row.ts_ns)
        for row in rows:
            self._number += 1
            row.number = self._number
            yield row


def session_rows(
    source: Iterable[tuple[Talk, list[Event]]], options: Options
) -> Generator[SessionRecord, None, None]:
    """A row a session, when it is over."""
    alive: dict[Talk, Session] = {}
    for talk, events in source:
        session = alive.get(talk)
        if session is None:
            session = alive[talk] = Session(options.redact)
        _tell(session, events)
        if talk.over:
            yield _session_row(talk, session)
            del alive[talk]


def _tell(session: Session, events: Iterable[Event]) -> None:
    for event in events:
        if isinstance(event, Batch):
            session.add(event.direction, event.ts_ns, event.frames)
        else:
            session.note(event.direction, event.anomaly)


def _session_row(talk: Talk, session: Session) -> SessionRecord:
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


def kind_name(kind: Kind | None) -> str:
    """The kind as the columns say it."""
    return kind.value if kind else "unknown"


def frames(
    paths: Sequence[str],
    *,
    payload: Payload = Payload.NONE,
    redact: bool = True,
    hints: Mapping[int, Kind] | None = None,
    report: CaptureReport | None = None,
) -> Generator[FrameRecord, None, None]:
    """The frames in the captures: one record an operation, as soon as it is complete.

    `paths` are files, folders, patterns or `-` for standard input, together one timeline. Secrets are
    masked unless `redact` is false. `hints` maps a port to the kind of connection it surely carries.
    Who stops early calls `close`, which closes the files.
    """
    options = Options(hints or {}, payload, redact)
    return frame_rows(talks(segments(paths, report), options), options)


def sessions(
    paths: Sequence[str],
    *,
    redact: bool = True,
    hints: Mapping[int, Kind] | None = None,
    report: CaptureReport | None = None,
) -> Generator[SessionRecord, None, None]:
    """The NATS connections in the captures: one record each, when it is over. Arguments as in `frames`."""
    options = Options(hints or {}, redact=redact)
    return session_rows(talks(segments(paths, report), options), options)


# What makes a session's story: its beginning, what was subscribed, and what went wrong.
_STORY_OPS = frozenset(
    "INFO CONNECT SUB UNSUB RS+ RS- LS+ LS- A+ A- -ERR".split(),
)
_STORY_ROWS = 500


def session_story(
    paths: Sequence[str],
    session: str,
    redact: bool = True,
    hints: Mapping[int, Kind] | None = None,
    report: CaptureReport | None = None,
) -> tuple[SessionRecord, list[FrameRecord]] | None:
    """The first session whose id begins with `session`, and the frames that tell its story: handshake,
    subscriptions, errors; at most 500. None if there is no such session."""
    options = Options(hints or {}, redact=redact)
    story: list[FrameRecord] = []
    chosen: Talk | None = None
    told = Session(redact)
    for talk, events in talks(segments(paths, report), options):
        if chosen is None and talk.flow.id.startswith(session):
            chosen = talk
            rows = _Numbered(talk, options)
        if talk is not chosen:
            continue
        _tell(told, events)
        story += [row for row in rows.rows(events) if row.op in _STORY_OPS or row.anomalies]
        del story[_STORY_ROWS:]
    return (_session_row(chosen, told), story) if chosen else None
