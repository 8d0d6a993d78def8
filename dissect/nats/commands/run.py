"""Runs one command: rows are read, rendered in chunks and written; then the exit status is set.

    rows_of -> chunks_of -> print_chunks
    source     rendered     written, counted, limited

With `--jobs`, worker processes render the rows. A format's writer takes the rows that its own `render`
made.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, nullcontext
from itertools import chain, islice
from tempfile import SpooledTemporaryFile
from typing import ContextManager, NamedTuple

from ..capture import CaptureReport
from ..errors import DissectError
from ..output.arrow.types import leave_pandas_out
from ..output.formats import FORMATS
from ..output.sink import INTERRUPTED, Fault, say, sink_of, writing
from ..output.terminal import PLAIN, terminal_of
from ..output.text.lines import input_lines, story_text, totals, undecoded_text
from ..output.writer import (
    Layout,
    LineWriter,
    OutputFormat,
    Render,
    Rendered,
    chosen_columns,
    first_rendered,
    rendered_count,
)
from ..schema.records import FrameRecord, Record, SessionRecord
from ..tables import TABLES
from ..temporary import storing
from .captures.info import CaptureTraffic, file_order, files_sorted, info_text, json_text, traffic
from .command_options import CommandOptions
from .processes import processes_for_rows
from .rows import batches_of, messages_of, renderer, rows_of, shared_rows
from .session.detail import is_whole, only, session_story, timeline_entries
from .session.explanation import explanation
from .session.follow import Conversation
from .signals import ends_input
from .sorting import RenderedRow, SortOrder, sort_order, sorted_rows

_DAMAGED = 3
_CHUNK_ROWS = 256
_SPOOLED = 16 << 20  # bytes in memory
_ROW_OPTIONS = "format columns where sort limit jobs csv_safe session kind payload redact".split()
_CONVERSATION = (
    "a conversation as text, which is in order of time: choose --columns or another --format"
)


class RenderedRows(NamedTuple):
    """Rendered rows, and the number of NATS messages in them."""

    rows: list[Rendered]
    messages: int = 0


class Command:
    """One command: its options, its table, its output, and the report of the captures it reads."""

    def __init__(self, table: str, options: CommandOptions) -> None:
        self.table = table
        self.options = options
        self.report = CaptureReport()
        binary = FORMATS[options.format].binary
        self.sink = sink_of(options.path, options.captures, binary, options.other_inputs)

    @property
    def layout(self) -> Layout:
        """The layout options of the command line. Raises Fault for unknown columns."""
        options = self.options
        options.refuse_formulas()
        try:
            columns = chosen_columns(self.table, options.columns) if self.table in TABLES else None
        except ValueError as error:
            raise Fault(f"--columns: {error}") from None
        terminal = terminal_of(sys.stdout) if options.path is None and sys.stdout else PLAIN
        return Layout(columns, terminal, options.live, options.csv_safe)

    @property
    def format(self) -> OutputFormat:
        """The format in which the table's rows are rendered and written."""
        try:
            return FORMATS[self.options.format].table(self.table, self.layout)
        except DissectError as error:
            raise Fault(str(error)) from None

    @property
    def order(self) -> SortOrder | None:
        """The order of the rows, if `--sort` asks for one."""
        try:
            return None if self.options.sort is None else sort_order(self.table, self.options.sort)
        except ValueError as error:
            raise Fault(f"--sort: {error}") from None

    def bar(self) -> ContextManager[Callable[[], None]]:
        """The progress bar; the block gets a function that clears it."""
        return progress_bar(self.options, self.report)


def progress_bar(
    options: CommandOptions, report: CaptureReport
) -> ContextManager[Callable[[], None]]:
    """The progress bar, if the user wants one or, by default, if stderr is a terminal; the block gets a
    function that clears it."""
    wanted = options.progress
    if wanted or (wanted is None and sys.stderr is not None and sys.stderr.isatty()):
        from ..output.progress import QUIET, bar

        return bar(report, 0 if wanted else QUIET)
    return nullcontext(lambda: None)


def print_rows(run: Command) -> None:
    """Prints the rows of the command's table."""
    options, form, order = run.options, run.format, run.order
    if form.batches:
        leave_pandas_out()
    jobs = processes_for_rows(run.table, form, options)
    if jobs > 1:
        with closing(
            shared_rows(run.table, options, run.layout, jobs, run.report, order)
        ) as shared:
            print_chunks(run, form, rendered_chunks(shared, options, order))
        return
    if form.batches and order is None:
        with closing(batches_of(run.table, form, options, run.report)) as batches:
            print_chunks(run, form, (RenderedRows([batch]) for batch in batches))
        return
    with closing(rows_of(run.table, options, run.report)) as rows:
        print_chunks(run, form, _ordered_chunks(run, form, rows, order))


def _ordered_chunks(
    run: Command, form: OutputFormat, rows: Iterator[Record], order: SortOrder | None
) -> Iterator[RenderedRows]:
    """Rendered rows, in the order of `--sort` if there is one."""
    options = run.options
    if order is None:
        return chunks_of(rows, form.render, options)
    render = renderer(run.table, options.format, run.layout, order)
    return rendered_chunks(map(render, rows), options, order)


def chunks_of(
    rows: Iterator[Record], render: Render, options: CommandOptions
) -> Iterator[RenderedRows]:
    """Rendered rows in chunks. While packets arrive, each chunk has one row."""
    size = 1 if options.live else max(1, min(_CHUNK_ROWS, options.limit or _CHUNK_ROWS))
    while some := list(islice(rows, size)):
        yield RenderedRows(list(map(render, some)), sum(map(messages_of, some)))


def rendered_chunks(
    rows: Iterator[RenderedRow], options: CommandOptions, order: SortOrder | None
) -> Iterator[RenderedRows]:
    """Chunks of rows that are already rendered, in the order of `--sort` if there is one."""
    if order is not None:
        rows = sorted_rows(rows, order.descending)
    while some := list(islice(rows, max(1, min(_CHUNK_ROWS, options.limit or _CHUNK_ROWS)))):
        yield RenderedRows([row for row, _, _ in some], sum(messages for _, messages, _ in some))


def print_chunks(
    run: Command, form: OutputFormat, chunks: Iterator[RenderedRows], silent: bool = False
) -> None:
    """Writes chunks, reports on the inputs, and exits with a status other than 0 unless everything was read.
    With `silent`, no totals are printed."""
    limit, live = run.options.limit, run.options.live
    count = messages = 0
    with writing(run.sink) as output, ends_input(live) as interrupted, run.bar() as clear:
        first = list(islice(chunks, 1))
        if output.isatty():
            clear()
        writer = run.sink.writer(form.writer)
        for chunk in chain(first, chunks) if limit != 0 else ():
            rows = chunk.rows if limit is None else first_rendered(chunk.rows, limit - count)
            writer.write(rows)
            if live:
                output.flush()
            count += rendered_count(rows)
            messages += chunk.messages
            if count == limit:
                break
        writer.close()
    for line in input_lines(run.report, interrupted.yes):
        say(line)
    stopped = limit is not None and count >= limit
    if not silent and not stopped and (run.options.format == "text" or not count):
        text = totals(run.table, count, messages, run.report, run.options.filters)
        say(text if count or interrupted.yes else text + _other_protocols(run))
    _exit(run.report, interrupted.yes)


def _other_protocols(run: Command) -> str:
    """The protocols of the TCP connections, and the packets without TCP, if no NATS was found."""
    if run.options.filters or run.table not in ("sessions", "frames"):
        return ""
    protocols, undecoded = run.report.protocols, undecoded_text(run.report)
    undecoded = f"; {undecoded}" if undecoded else ""
    if not protocols:
        return f"; no TCP connections{undecoded}"
    counts = ", ".join(f"{name} {count}" for name, count in protocols.most_common())
    wants_keys = "tls" in protocols and not run.options.dissection.keylog
    secrets = "; TLS needs a key log: --keylog" if wants_keys else ""
    return f"; TCP connections: {counts} (`flows` lists them{secrets}){undecoded}"


def leave(report: CaptureReport, interrupted: bool) -> None:
    """Prints what is wrong with the inputs, and exits unless everything was read."""
    for line in input_lines(report, interrupted):
        say(line)
    _exit(report, interrupted)


def _exit(report: CaptureReport, interrupted: bool) -> None:
    """Exits with the status for an interrupt or for incomplete input; returns if everything was read."""
    if interrupted:
        sys.exit(INTERRUPTED)
    if report.damaged or report.unreadable:
        sys.exit(_DAMAGED)


def print_session(run: Command, start: str) -> None:
    """Prints the session whose id begins with `start`: its row, or, as text, its facts with a timeline."""
    options, form = run.options, run.format
    options.refuse(("where", "sort", "limit", "jobs"), "--session, which names the one row")
    if options.format == "text" and options.columns is None:
        print_chunks(run, OutputFormat(form.render, LineWriter), _story(run, start), silent=True)
        return
    with closing(rows_of(run.table, options, run.report)) as rows:
        chosen = only((row for row in rows if isinstance(row, SessionRecord)), start)
        chunks = _settled(chunks_of(chosen, form.render, options), start)
        print_chunks(run, form, chunks, silent=True)


def print_explanation(run: Command, start: str) -> None:
    """Prints the decisions about the connection whose id begins with `start`."""
    options = run.options
    options.refuse(_ROW_OPTIONS, "--explain, which prints lines")
    lines = explanation(options.captures, start, options.dissection, run.report)
    chunks = _settled((RenderedRows([line]) for line in lines), start)
    print_chunks(run, OutputFormat(str, LineWriter), chunks, silent=True)


def print_conversation(run: Command, start: str) -> None:
    """Prints the conversation of the session whose id begins with `start`."""
    options, form, order = run.options, run.format, run.order
    as_text = options.format == "text" and options.columns is None
    if as_text:
        options.refuse(("sort",), _CONVERSATION)
    with closing(
        timeline_entries(options.captures, start, options.dissection, run.report)
    ) as entries:
        if as_text:
            text = Conversation(run.layout.terminal.colour, options.full).text
            form = OutputFormat(form.render, LineWriter)
            chunks: Iterator[RenderedRows] = (RenderedRows([text(entry)]) for entry in entries)
        else:
            frames = (entry for entry in entries if isinstance(entry, FrameRecord))
            chunks = _ordered_chunks(run, form, frames, order)
        print_chunks(run, form, _settled(chunks, start), silent=True)


def print_info(run: Command) -> None:
    """Prints the facts of the captures."""
    text = json_text if run.options.format == "jsonl" else info_text
    sort = run.options.sort
    try:
        order = None if sort is None else file_order(sort)
    except ValueError as error:
        raise Fault(f"--sort: {error}") from None
    print_chunks(run, OutputFormat(str, LineWriter), _info(run, text, order), silent=True)


def _info(
    run: Command,
    text: Callable[[CaptureReport, CaptureTraffic], Iterator[str]],
    order: SortOrder | None,
) -> Iterator[RenderedRows]:
    options, report = run.options, run.report
    found = traffic(options.captures, options.dissection, report)
    if order is not None:
        report.files = files_sorted(report.files, order)
    yield RenderedRows([*text(report, found)])


def _story(run: Command, start: str) -> Iterator[RenderedRows]:
    options = run.options
    yield RenderedRows(
        [story_text(*session_story(options.captures, start, options.dissection, run.report))]
    )


def _settled(chunks: Iterator[RenderedRows], start: str) -> Iterator[RenderedRows]:
    """The chunks of the session whose id begins with `start`. They are held back until it is certain that no
    other id begins with it."""
    if is_whole(start):
        yield from chunks
        return
    with storing(), SpooledTemporaryFile(_SPOOLED) as spool:
        count = 0
        for chunk in chunks:
            pickle.dump(chunk, spool)
            count += 1
        spool.seek(0)
        for _ in range(count):
            yield pickle.load(spool)  # what this function wrote
