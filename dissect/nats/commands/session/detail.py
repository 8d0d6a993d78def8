"""One session: its frames in order of time, with its anomalies in their places, and then its row.

`sessions --session` shows only key frames, `follow` all frames.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple

from ...capture import CaptureReport
from ...engine.connections import PacketEvents
from ...engine.dissection import Dissection
from ...engine.frame_rows import kind_name
from ...engine.session_tables import ReleasedRows
from ...errors import DissectError
from ...options import Options
from ...pipeline import timelines
from ...schema.records import AnomalyRecord, FrameRecord, Record, SessionRecord
from .summary import SUMMARIZED, SessionSummary, SummaryLine

# The key frames of a session: its beginning, subscriptions and errors.
_STORY_OPS = frozenset(
    "INFO CONNECT SUB UNSUB RS+ RS- LS+ LS- A+ A- -ERR".split(),
)
_STORY_ROWS = 500

_WHOLE_ID = 16
_NAMED = 20


class Unclear(DissectError):
    """No session, or more than one, has an id that begins with `start`; `ids` has those that do. `what` they
    are: sessions, or connections of any protocol."""

    def __init__(self, start: str, ids: Collection[str], what: str = "session") -> None:
        self.start = start
        self.ids = ids
        self.what = what
        super().__init__(start, ids, what)

    def __str__(self) -> str:
        if not self.ids:
            table = "sessions" if self.what == "session" else "flows"
            return (
                f"no {self.what} {self.start} in the captures; `{table}` lists them"
                " (with --from, IDs differ: pass the same --from)"
            )
        named = ", ".join(list(self.ids)[:_NAMED])
        more = f" and {len(self.ids) - _NAMED} more" if len(self.ids) > _NAMED else ""
        return f"{len(self.ids)} {self.what}s begin with {self.start}: {named}{more}"


class Heading(NamedTuple):
    """The facts about a session that are known at its first frames."""

    session: str
    kind: str
    originator: str
    responder: str
    first_ns: int


TimelineEntry = Heading | FrameRecord | AnomalyRecord | SessionRecord
"""An entry in the timeline of a session; the first one is its heading, the last one its row."""


class SessionStory(NamedTuple):
    """The row of a session, at most 500 of its key frames and anomalies (handshake, subscriptions, errors,
    losses), and a summary of what it does above NATS."""

    row: SessionRecord
    timeline: list[FrameRecord | AnomalyRecord]
    summary: list[SummaryLine]


def is_whole(start: str) -> bool:
    """Whether this is a complete session id and not only its beginning."""
    return len(start) == _WHOLE_ID


def timeline_entries(
    paths: Sequence[str],
    start: str,
    options: Options,
    report: CaptureReport | None = None,
    summary: SessionSummary | None = None,
) -> Generator[TimelineEntry, None, None]:
    """The entries of the session whose id begins with `start`. Raises Unclear, after the last packet, if
    there is no such session of the kinds in `options`, or if there are several; entries already returned are
    then void. `summary` gets the session's frames and its rows above NATS."""
    tables = ("frames", "anomalies", "sessions", *(SUMMARIZED if summary else ()))
    chosen = _Chosen(start)
    report = CaptureReport() if report is None else report
    place = _AnomalyPlaces()
    rows = (
        rows
        for timeline in timelines(paths, options, report)
        for rows in _rows(timeline, tables, options, report, chosen)
    )
    for _, records in rows:
        if summary:
            for record in records:
                summary.add(record)
        if chosen.heading:
            yield chosen.heading
            chosen.heading = None
        yield from place.put(records)
    if len(chosen.ids) == 1 and not place.has_row:
        raise Unclear(start, ())
    yield from place.rest()
    if len(chosen.ids) != 1:
        raise Unclear(start, chosen.ids)


def _rows(
    timeline: Sequence[str],
    tables: Collection[str],
    options: Options,
    report: CaptureReport,
    chosen: _Chosen,
) -> Iterator[ReleasedRows]:
    """The rows of the chosen session in one timeline."""
    if chosen.is_over:
        return
    dissection = Dissection(tables, options)
    events = dissection.events(dissection.packets(timeline, report))
    yield from dissection.tables(chosen.of(events))


def session_story(
    paths: Sequence[str], start: str, options: Options, report: CaptureReport | None = None
) -> SessionStory:
    """The session whose id begins with `start`. Raises Unclear, like `timeline_entries`."""
    summary = SessionSummary()
    story: list[FrameRecord | AnomalyRecord] = []
    for entry in timeline_entries(paths, start, options, report, summary):
        if isinstance(entry, SessionRecord):
            row = entry
        elif isinstance(entry, AnomalyRecord) or (
            isinstance(entry, FrameRecord) and (entry.op in _STORY_OPS or entry.anomalies)
        ):
            story.append(entry)
            del story[_STORY_ROWS:]
    return SessionStory(row, story, list(summary.lines()))


def only(rows: Iterable[SessionRecord], start: str) -> Iterator[SessionRecord]:
    """The one row whose session id begins with `start`. Raises Unclear unless there is exactly one."""
    ids: dict[str, None] = {}
    for row in rows:
        if row.session.startswith(start):
            ids[row.session] = None
            yield row
    if len(ids) != 1:
        raise Unclear(start, ids)


class _Chosen:
    """Selects the first session whose id begins with `start`; `ids` collects all ids that do. `is_over` once
    no more events can be wanted: the session is over, and `start` is its complete id."""

    def __init__(self, start: str) -> None:
        self.ids: dict[str, None] = {}
        self.heading: Heading | None = None
        self.is_over = False
        self._start = start

    def of(self, groups: Iterable[PacketEvents]) -> Iterator[PacketEvents]:
        """The events of the first such session."""
        start, ids = self._start, self.ids
        for release, released in groups:
            for connection, events in released:
                flow = connection.flow
                if not flow.id.startswith(start) or not connection.is_nats:
                    continue
                if flow.id not in ids:
                    ids[flow.id] = None
                    if len(ids) == 1:
                        self.heading = Heading(
                            session=flow.id,
                            kind=kind_name(connection.framing.kind),
                            originator=flow.originator,
                            responder=flow.responder,
                            first_ns=flow.first_ns,
                        )
                if flow.id == next(iter(ids)):
                    yield PacketEvents(release, [(connection, events)])
                if connection.over and is_whole(start):
                    self.is_over = True
                    return


class _AnomalyPlaces:
    """Puts anomalies before the frame to which their bytes belong."""

    def __init__(self) -> None:
        self._odd: dict[str, deque[AnomalyRecord]] = {"originator": deque(), "responder": deque()}
        self._last: list[TimelineEntry] = []

    @property
    def has_row(self) -> bool:
        """Whether the session's row has come; it never comes if the user did not ask for its kind."""
        return bool(self._last)

    def put(self, records: Iterable[Record]) -> Iterator[TimelineEntry]:
        """Adds records in order; returns the entries that are due."""
        frames = []
        for record in records:
            if isinstance(record, AnomalyRecord):
                self._odd[record.sender].append(record)
            elif isinstance(record, FrameRecord):
                frames.append(record)
            elif isinstance(record, SessionRecord):
                self._last.append(record)
        for frame in frames:
            odd = self._odd[frame.sender]
            while odd and odd[0].offset < frame.offset + frame.total_bytes:
                yield odd.popleft()
            yield frame

    def rest(self) -> Iterator[TimelineEntry]:
        """Returns the remaining entries."""
        left = [record for odd in self._odd.values() for record in odd]
        yield from sorted(left, key=lambda record: record.ts_ns)
        yield from self._last
