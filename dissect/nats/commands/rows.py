"""The rows of one table, as records or rendered by several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial

from ..capture import CaptureReport
from ..output.duckdb import Where
from ..output.formats import FORMATS
from ..output.writer import Layout
from ..parallel import Work, sharded
from ..pipeline import records, timelines
from ..records import Record, SessionRecord
from .command_options import CommandOptions
from .sorting import RenderedRow, SortOrder


def rows_of(
    table: str, given: CommandOptions, report: CaptureReport
) -> Generator[Record, None, None]:
    """The rows for which the `--where` condition is true; all rows without one."""
    where = None if given.where is None else Where(table, given.where)
    with closing(where) if where else nullcontext():
        keep = where.kept if where else None
        source = records(given.captures, [table], given.options, report, given.live, keep)
        with closing(source):
            yield from source


def shared_rows(
    table: str,
    given: CommandOptions,
    layout: Layout,
    jobs: int,
    report: CaptureReport,
    order: SortOrder | None = None,
) -> Generator[RenderedRow, None, None]:
    """The same rows, rendered by `jobs` processes."""
    work = Work(
        paths=given.captures,
        table=table,
        options=given.options,
        renderer=partial(renderer, table, given.format, layout, order),
        where=given.where,
    )
    if not given.separate:
        yield from sharded(work, jobs, report)
        return
    for timeline in timelines(given.captures, given.options, report):
        alone = CaptureReport()
        options = replace(work.options, separate=False)
        yield from sharded(replace(work, paths=tuple(timeline), options=options), jobs, alone)
        report.files += alone.files


def messages_of(row: Record) -> int:
    """The number of NATS messages in a session; 0 for rows of other tables."""
    if isinstance(row, SessionRecord):
        return row.messages_originator + row.messages_responder
    return 0


def renderer(
    table: str, format: str, layout: Layout, order: SortOrder | None
) -> Callable[[Record], RenderedRow]:
    """The function that renders a record, by arguments that another process can be sent."""
    render = FORMATS[format].table(table, layout).render
    if order is None:
        return lambda row: (render(row), messages_of(row), ())
    key = order.key()
    return lambda row: (render(row), messages_of(row), key(row))
