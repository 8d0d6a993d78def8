"""All stages in one process: packets -> segments -> connections -> records, as generators.

    for row in records(["capture.pcap"], ["sessions"]):
        print(row.kind, row.originator, row.messages_originator)

CaptureError is raised if an input is not a capture; damage is recorded in the `report` that the caller
passes. Memory does not grow with the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from functools import partial
from itertools import chain, islice

from .capture import CaptureReport, read_runs
from .capture.embedded_secrets import read_secrets
from .capture.sources import files_of
from .capture.time_range import packets_between
from .engine.connections import ConnectionTable
from .engine.session_tables import Rows, TableBuilder
from .engine.time_order import TimeOrder, payload_bytes, placed
from .options import Options
from .packet import PacketParser
from .schema.records import Record
from .secrets.key_log import KeyLogs
from .tables import TABLES, needs_payloads
from .types import Packets, Segment, Tick

RowFilter = Callable[[list[Record]], list[Record]]
"""Selects records of a list and keeps their order, such as `output.duckdb.Where(...).matching`."""

OnProgress = Callable[[int], None]
"""Called now and then with the number of packets read, once all rows that they released are consumed."""

Share = tuple[int, int]
"""(k, n): share k of n, from 0. Each flow belongs to exactly one share."""

_DEFAULTS = Options()
_ASKED_ROWS = 4096
_ASKED_BYTES = 16 << 20
# Records that are complete are released, and progress is reported, after this many blocks of packets (2 MiB).
_BLOCKS = 16


def segments(
    paths: Sequence[str],
    report: CaptureReport | None = None,
    options: Options = _DEFAULTS,
    key_logs: KeyLogs | None = None,
) -> Iterator[Segment | Tick]:
    """The TCP segments in the packets of the captures."""
    report = CaptureReport() if report is None else report
    return PacketParser().segments(packets(paths, report, options, key_logs))


def packets(
    paths: Sequence[str], report: CaptureReport, options: Options, key_logs: KeyLogs | None
) -> Iterator[Packets]:
    """The packets of the captures in order of time, within the time range of the options. The TLS secrets
    embedded in the captures are added to `key_logs`."""
    embedded = None
    if key_logs:
        embedded = key_logs.embedded
        key_logs.look_ahead_with(partial(read_secrets, paths, options.max_expanded))
    runs: Iterable[Packets] = read_runs(paths, report, options.max_expanded, embedded=embedded)
    if options.from_time is None and options.until_time is None:
        return iter(runs)
    return packets_between(runs, options.from_time, options.until_time)


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
    runs: bool = False,
) -> Generator[Rows, None, None]:
    """The records of several tables in one pass, as they become complete, of all flows or of one share. With
    `together`, records come a little later, which costs less CPU time; with `runs`, frames come as runs (see
    `engine.frame_runs`)."""
    parser = PacketParser()
    if share is not None:
        number, processes = share
        parser = PacketParser(lambda flow: flow % processes == number)
        options = options.share(processes)
    report = CaptureReport() if report is None else report
    key_logs = KeyLogs(options.key_logs)
    connections = ConnectionTable(options, needs_payloads(tables), key_logs)
    builder = TableBuilder(tables, options, protocols=report.protocols, runs=runs)
    blocks = packets(paths, report, options, key_logs)
    count = 0

    def counted(blocks: Iterable[Packets]) -> Iterator[Packets]:
        nonlocal count
        for block in blocks:
            count += len(block.places)
            yield block

    with closing(builder):
        for block in blocks:
            some = counted(chain([block], islice(blocks, _BLOCKS - 1)))
            yield from builder.feed(connections.feed(parser.feed(some)), together)
            if on_progress:
                on_progress(count)
        parser.finish()
        yield from builder.feed(connections.finish(), together)
        yield from builder.finish()


def narrowed(source: Iterable[Rows], keep: RowFilter, live: bool = False) -> Iterator[Rows]:
    """The records that `keep` selects. Each call of `keep` gets many records; with `live`, only those that
    were released together."""
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
    """Applies `keep` to some releases at once."""
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
    source: Iterator[Rows] = released(paths, tables, options, report, together=not live)
    if keep:
        source = narrowed(source, keep, live)
    chosen = (TABLES[name] for name in tables)
    lines = {table.row: TimeOrder[Record](0 if live else table.window) for table in chosen}
    only = next(iter(lines)) if len(lines) == 1 else None
    for _, together in source:
        for kind, rows in [(only, together)] if only else _by_kind(together):
            due = lines[kind].put(placed(rows), payload_bytes(rows))
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
