"""The rows of a table that the user wants, as they are or rendered by several processes."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext
from functools import partial

from ..capture import CaptureReport
from ..output.duckdb import Where
from ..output.formats import render_of
from ..output.lines import Rendered
from ..output.terminal import Terminal
from ..parallel import Work, sharded
from ..pipeline import records
from ..records import Record, SessionRecord
from .arguments import CommandOptions


def rows_of(
    table: str, given: CommandOptions, report: CaptureReport
) -> Generator[Record, None, None]:
    """The rows for which the condition is true, if there is one."""
    where = None if given.where is None else Where(table, given.where)
    with closing(where) if where else nullcontext():
        keep = where.kept if where else None
        source = records(given.captures, [table], given.options, report, given.live, keep)
        with closing(source):
            yield from source


def shared_rows(
    table: str, given: CommandOptions, look: Terminal, jobs: int, report: CaptureReport
) -> Generator[tuple[Rendered, int], None, None]:
    """The same rows, rendered by `jobs` processes; with each, how many NATS messages it stands for."""
    work = Work(
        paths=given.captures,
        table=table,
        options=given.options,
        renderer=partial(_renderer, table, given.form, given.columns, look),
        where=given.where,
    )
    return sharded(work, jobs, report)


def messages_of(row: Record) -> int:
    """How many NATS messages a row stands for."""
    if isinstance(row, SessionRecord):
        return row.messages_originator + row.messages_responder
    return 0


def _renderer(
    table: str, form: str, columns: str | None, look: Terminal
) -> Callable[[Record], tuple[Rendered, int]]:
    render = render_of(table, form, columns, look)
    return lambda row: (render(row), messages_of(row))
