"""The stages in a row: packets -> segments -> connections -> records. Streaming generators all the way.

    for row in sessions(["capture.pcap"]):
        print(row.kind, row.originator, row.messages_originator)

Paths in, records out. CaptureError is raised where an input is no capture; what is damaged ends up in the
`report` handed in. Memory does not grow with the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from typing import Protocol, TypeVar

from .capture import CaptureReport, read_runs
from .engine.connections import packet_events
from .engine.session_tables import Rows, build_tables
from .engine.time_order import TimeOrder, payload_bytes, placed
from .options import Options
from .packet import Layers
from .records import (
    AnomalyRecord,
    FlowRecord,
    FrameRecord,
    Record,
    RequestRecord,
    SessionRecord,
    SubscriptionRecord,
)
from .tables import TABLE_OF, TABLES, layers_of
from .types import Packets, Segment, Tick

RowFilter = Callable[[list[Record]], list[Record]]
"""Picks records out of a list, in their order: `sql.Where(...).kept`."""

Beat = Callable[[int], None]
"""Is told now and then how many packets were read, when all that they release was taken."""

Share = tuple[int, int]
"""Number k of n processes: every flow belongs to one."""

_DEFAULTS = Options()
_ASKED_ROWS = 4096
_ASKED_BYTES = 16 << 20

_R = TypeVar("_R", bound=Record)
_Row_co = TypeVar("_Row_co", bound=Record, covariant=True)


def segments(
    paths: Sequence[str],
    report: CaptureReport | None = None,
    layers: Layers | None = None,
    beat: Beat | None = None,
    max_expanded: int | None = None,
) -> Iterator[Segment | Tick]:
    """The TCP segments in the captures, in order of their times; see `Options` for `max_expanded`."""
    runs = read_runs(paths, CaptureReport() if report is None else report, max_expanded)
    if beat:
        runs = _told(runs, beat)
    return (layers or Layers()).segments(runs)


def _told(runs: Iterable[Packets], beat: Beat) -> Generator[Packets, None, None]:
    packets = 0
    for run in runs:
        yield run
        packets += len(run.places)
        beat(packets)


def released(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    share: Share | None = None,
    beat: Beat | None = None,
    together: bool = False,
) -> Iterator[Rows]:
    """The records of several tables in one pass, as they become complete: of all flows, or of a share.
    With `together` they come a little later, which takes less time."""
    layers = Layers()
    if share is not None:
        number, processes = share
        layers = Layers(lambda flow: flow % processes == number)
        options = options.share(processes)
    source = segments(paths, report, layers, beat, options.max_expanded)
    payloads = any(layer.payloads for layer in layers_of(tables))
    return build_tables(packet_events(source, options, payloads), tables, options, together)


def narrowed(source: Iterable[Rows], keep: RowFilter, live: bool = False) -> Iterator[Rows]:
    """Only the records that `keep` picks out of a list. It is asked about many at a time; with `live`
    about those that came together."""
    waiting: list[Rows] = []
    records = size = 0
    for rows in source:
        waiting.append(rows)
        records += len(rows.records)
        size += payload_bytes(rows.records)
        if live or records >= _ASKED_ROWS or size >= _ASKED_BYTES:
            yield from narrow(waiting, keep)
            waiting = []
            records = size = 0
    yield from narrow(waiting, keep)


def narrow(some: Sequence[Rows], keep: RowFilter) -> Iterator[Rows]:
    """`narrowed` for those that are there, at once."""
    kept = set(map(id, keep([record for rows in some for record in rows.records])))
    for release, records in some:
        left = [record for record in records if id(record) in kept]
        if left:
            yield Rows(release, left)


def records(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
    keep: RowFilter | None = None,
) -> Generator[Record, None, None]:
    """The records of several tables in one pass, all or those that `keep` picks out of a list. Each table
    is in order of time, as far as its `window` allows; with `live` rows come as soon as they are complete.
    """
    source = released(paths, tables, options, report, together=not live)
    if keep:
        source = narrowed(source, keep, live)
    wanted = [TABLES[name] for name in tables]
    lines = {table.row: TimeOrder[Record](0 if live else table.window) for table in wanted}
    alone = len(lines) == 1
    for _, together in source:
        for kind, line in lines.items():
            rows = together if alone else [row for row in together if row.__class__ is kind]
            given = line.put(placed(rows), payload_bytes(rows))
            if given:
                yield from given
    for line in lines.values():
        yield from line.rest()


class TableFunction(Protocol[_Row_co]):
    """A function that gives the records of one table: `frames(paths)`, `sessions(paths)`, and so on."""

    def __call__(
        self,
        paths: Sequence[str],
        options: Options = _DEFAULTS,
        report: CaptureReport | None = None,
        live: bool = False,
    ) -> Generator[_Row_co, None, None]:
        """The records. `paths` are files, folders, patterns or `-` for standard input, together one
        timeline; the other arguments are those of `records`. A caller that stops early calls `close` on
        the generator, which closes the files. Raises CaptureError where an input is no capture."""


def rows_of(row: type[_R]) -> TableFunction[_R]:
    """The function for the table with this class of records."""
    table = TABLE_OF[row]

    def rows(
        paths: Sequence[str],
        options: Options = _DEFAULTS,
        report: CaptureReport | None = None,
        live: bool = False,
    ) -> Generator[_R, None, None]:
        return _only(row, records(paths, [table.name], options, report, live))

    rows.__name__ = rows.__qualname__ = table.name
    rows.__doc__ = f"{table.summary} Arguments as in `TableFunction`."
    return rows


frames = rows_of(FrameRecord)
sessions = rows_of(SessionRecord)
subscriptions = rows_of(SubscriptionRecord)
requests = rows_of(RequestRecord)
flows = rows_of(FlowRecord)
anomalies = rows_of(AnomalyRecord)


def _only(kind: type[_R], rows: Generator[Record, None, None]) -> Generator[_R, None, None]:
    with closing(rows):
        for row in rows:
            assert isinstance(row, kind)
            yield row
