"""The rows of one table, as records or rendered by several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import closing, nullcontext
from dataclasses import replace
from functools import partial

from ..capture import CaptureReport
from ..output.duckdb import Where
from ..output.formats import FORMATS
from ..output.writer import Layout, OutputFormat, Rendered
from ..parallel.pool import sharded
from ..parallel.worker import TableJob
from ..pipeline import record_lists, released, timelines
from ..schema.records import Record, SessionRecord
from .command_options import CommandOptions
from .sorting import RenderedRow, SortOrder


def rows_of(
    table: str, options: CommandOptions, report: CaptureReport
) -> Generator[Record, None, None]:
    """The rows that match `--where`; all rows without it."""
    with closing(lists_of(table, options, report)) as lists:
        for some in lists:
            yield from some


def lists_of(
    table: str, options: CommandOptions, report: CaptureReport
) -> Generator[Sequence[Record], None, None]:
    """The same rows, in lists."""
    where = None if options.where is None else Where(table, options.where)
    with closing(where) if where else nullcontext():
        keep = where.matching if where else None
        source = record_lists(
            options.captures, [table], options.dissection, report, options.live, keep
        )
        with closing(source):
            yield from source


def batches_of(
    table: str, form: OutputFormat, options: CommandOptions, report: CaptureReport
) -> Generator[Rendered, None, None]:
    """The same rows as batches of a format that stores columns."""
    if form.frames and options.where is None and not options.live:
        dissection = options.dissection
        for timeline in timelines(options.captures, dissection, report):
            source = released(timeline, [table], dissection, report, together=True, blocks=True)
            with closing(source):
                yield from form.frames(source)
    elif form.batches:
        with closing(lists_of(table, options, report)) as lists:
            yield from form.batches(lists)


def shared_rows(
    table: str,
    options: CommandOptions,
    layout: Layout,
    jobs: int,
    report: CaptureReport,
    order: SortOrder | None = None,
) -> Generator[RenderedRow, None, None]:
    """The same rows, rendered by `jobs` processes."""
    job = TableJob(
        paths=options.captures,
        table=table,
        options=options.dissection,
        renderer=partial(renderer, table, options.format, layout, order),
        where=options.where,
    )
    if not options.dissection.separate:
        with closing(sharded(job, jobs, report)) as rows:
            yield from rows
        return
    dissection = replace(job.options, separate=False)
    for timeline in timelines(options.captures, options.dissection, report):
        alone = CaptureReport()
        part = replace(job, paths=tuple(timeline), options=dissection)
        with closing(sharded(part, jobs, alone)) as rows:
            yield from rows
        report.files += alone.files
        report.protocols += alone.protocols


def messages_of(row: Record) -> int:
    """The number of NATS messages in a session; 0 for rows of other tables."""
    if isinstance(row, SessionRecord):
        return row.messages_originator + row.messages_responder
    return 0


def renderer(
    table: str, format: str, layout: Layout, order: SortOrder | None
) -> Callable[[Record], RenderedRow]:
    """The function that renders a record, from arguments that can be sent to another process."""
    render = FORMATS[format].table(table, layout).render
    if order is None:
        return lambda row: (render(row), messages_of(row), ())
    key = order.key()
    return lambda row: (render(row), messages_of(row), key(row))
