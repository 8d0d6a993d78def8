"""All stages in one process: packets -> segments -> connections -> records, as generators.

    for row in records(["capture.pcap"], ["sessions"]):
        print(row.kind, row.originator, row.messages_originator)

CaptureError is raised if an input is not a capture; damage is recorded in the `report` that the caller
passes. Memory does not grow with the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing

from .capture import CaptureReport
from .capture.sources import files_of
from .engine.dissection import Dissection, OnProgress
from .engine.same_sessions import with_known_sessions, with_same_sessions
from .engine.session_tables import ReleasedRows
from .engine.time_order import TimeOrder, payload_bytes, placed
from .kernel.dissection import KernelDissection
from .kernel.load import serves
from .options import Options, Payload
from .schema.records import Record
from .tables import TABLES
from .types import Share

RowFilter = Callable[[list[Record]], list[Record]]
"""Selects records of a list and keeps their order, such as `output.duckdb.Where(...).matching`."""

_DEFAULTS = Options()
_ASKED_ROWS = 4096
_ASKED_BYTES = 16 << 20


def timelines(
    paths: Sequence[str], options: Options, report: CaptureReport
) -> Iterable[Sequence[str]]:
    """The captures of each timeline: all captures form one, or each file is its own with `separate`."""
    return [[path] for path in files_of(paths, report)] if options.separate else [paths]


def released(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    share: Share | None = None,
    on_progress: OnProgress | None = None,
    together: bool = False,
    blocks: bool = False,
) -> Generator[ReleasedRows, None, None]:
    """The records of several tables in one pass, as they become complete, of all flows or of one share. With
    `together`, records come a little later, which costs less CPU time, and those of sessions at the end; with
    `blocks`, frames of the kernel come as blocks (see `kernel.frame_block`). Sessions of a share do not name
    others that show the same connection, see `engine.same_sessions`."""
    report = CaptureReport() if report is None else report
    make = KernelDissection if serves(tables, options, share) else Dissection
    dissection = make(
        tables,
        options,
        blocks=blocks,
        protocols=report.protocols,
        share=share,
        tcp_bytes=report.tcp_bytes,
    )
    source = dissection.read(dissection.packets(paths, report), together, on_progress)
    with closing(source):
        if share is None and "sessions" in tables:
            yield from with_same_sessions(source) if together else with_known_sessions(source)
        else:
            yield from source
    report.no_tcp += dissection.parser.passed_over
    report.udp_ports += dissection.parser.udp_ports


def narrowed(
    source: Iterable[ReleasedRows], keep: RowFilter, live: bool = False
) -> Iterator[ReleasedRows]:
    """The records that `keep` selects. Each call of `keep` gets many records; with `live`, only those that
    were released together."""
    waiting: list[ReleasedRows] = []
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


def narrow(some: Sequence[ReleasedRows], keep: RowFilter) -> Iterator[ReleasedRows]:
    """Applies `keep` to some releases at once."""
    kept = set(map(id, keep([record for rows in some for record in rows.records])))
    for release, records in some:
        left = [record for record in records if id(record) in kept]
        if left:
            yield ReleasedRows(release, left)


def records(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
    keep: RowFilter | None = None,
) -> Generator[Record, None, None]:
    """The records of several tables in one pass, or those that `keep` selects. Each table is in order of
    time, as far as its `window` allows; with `live`, rows come as soon as they are complete.
    """
    with closing(record_lists(paths, tables, options, report, live, keep)) as lists:
        for some in lists:
            yield from some


def record_lists(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options = _DEFAULTS,
    report: CaptureReport | None = None,
    live: bool = False,
    keep: RowFilter | None = None,
) -> Generator[Sequence[Record], None, None]:
    """The same as `records`, in lists: each list has records of one table."""
    report = CaptureReport() if report is None else report
    for timeline in timelines(paths, options, report):
        yield from _record_lists(timeline, tables, options, report, live, keep)


def _record_lists(
    paths: Sequence[str],
    tables: Collection[str],
    options: Options,
    report: CaptureReport,
    live: bool,
    keep: RowFilter | None,
) -> Generator[Sequence[Record], None, None]:
    """The records of one timeline."""
    source: Iterator[ReleasedRows] = released(paths, tables, options, report, together=not live)
    if keep:
        source = narrowed(source, keep, live)
    chosen = (TABLES[name] for name in tables)
    lines = {table.row: TimeOrder[Record](0 if live else table.window) for table in chosen}
    only = next(iter(lines)) if len(lines) == 1 else None
    is_shown = options.payload is not Payload.NONE
    for _, together in source:
        for kind, rows in [(only, together)] if only else _by_kind(together):
            due = lines[kind].put(placed(rows), payload_bytes(rows) if is_shown else 0)
            if due:
                yield due
    for line in lines.values():
        if due := line.flush():
            yield due


def _by_kind(records: Iterable[Record]) -> Iterable[tuple[type[Record], list[Record]]]:
    """Groups records by their class, in order."""
    found: dict[type[Record], list[Record]] = {}
    for record in records:
        found.setdefault(record.__class__, []).append(record)
    return found.items()
