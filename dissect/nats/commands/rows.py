"""The rows of one table, as records or rendered by several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from functools import partial

from ..capture import CaptureReport
from ..output.duckdb import Where
from ..output.formats import FORMATS
from ..output.writer import Layout, Rendered
from ..parallel import Work, sharded
from ..pipeline import records
from ..records import Record, SessionRecord
from .arguments import CommandOptions


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
    table: str, given: CommandOptions, layout: Layout, jobs: int, report: CaptureReport
) -> Generator[tuple[Rendered, int], None, None]:
    """The same rows, rendered by `jobs` processes; with each, the number of its NATS messages."""
    work = Work(
        paths=given.captures,
        table=table,
        options=given.options,
        renderer=partial(_renderer, table, given.format, layout),
        where=given.where,
    )
    return sharded(work, jobs, report)


def messages_of(row: Record) -> int:
    """The number of NATS messages in a session; 0 for rows of other tables."""
    if isinstance(row, SessionRecord):
        return row.messages_originator + row.messages_responder
    return 0


def _renderer(table: str, format: str, layout: Layout) -> Callable[[Record], tuple[Rendered, int]]:
    render = FORMATS[format].table(table, layout).render
    return lambda row: (render(row), messages_of(row))
