"""`nats-dissect report`: captures or Parquet tables -> a report as one HTML file.

Exit status: 0 done, also if there is no NATS (the page names the other protocols); 2 if an input is
not a capture, the folder has no tables or the output cannot be written; 3 done, but a capture was cut short
or damaged, which the page says, too.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Generator, Sequence

from ..audit.engines.duckdb import over_folder, over_records
from ..audit.loading import loaded_records
from ..capture import CaptureReport
from ..capture.sources import STDIN
from ..capture.time_range import TimeRange
from ..commands.command_options import ReportOptions
from ..commands.processes import processes
from ..commands.run import leave, progress_bar
from ..commands.signals import ends_input
from ..errors import MissingLibrary, reason_of
from ..number_formats import copies_text, count_text
from ..output.arrow.types import leave_pandas_out
from ..output.duckdb import Loadable
from ..output.folders import has_table, is_folder, lacking_text
from ..output.sink import Fault, Sink, say, sink_of, writing
from ..output.text.lines import undecoded_text
from .answers import Answers, answers_of
from .figures.charts import plotly
from .findings import Findings, findings_in, rules, wanted
from .page.page import page


def write_report(options: ReportOptions) -> None:
    """Writes the page. Exits unless everything was read."""
    try:
        plotly()  # a missing library is reported before a capture is read
    except MissingLibrary as error:
        raise Fault(str(error)) from None
    leave_pandas_out()
    tables = options.tables
    if tables is not None and options.captures:
        raise Fault("--tables is in place of captures: name one or the other")
    if tables is None and not options.captures:
        raise Fault("no capture is named, and no folder with --tables")
    if tables is not None:
        options.refuse_reading()
    read = options.other_inputs if tables is None else [tables]
    sink = sink_of(options.path, options.captures, binary=True, others=read)
    if tables is None:
        _from_captures(sink, options)
    else:
        _from_tables(sink, tables, options.between)


def _from_captures(sink: Sink, options: ReportOptions) -> None:
    report, jobs = CaptureReport(), processes(options)
    with writing(sink), ends_input(options.live) as interrupted:
        queries = rules()
        columns = wanted(queries)

        def source(tables: Collection[str]) -> Generator[Loadable, None, None]:
            with progress_bar(options, report):
                yield from loaded_records(
                    options.captures, tables, options.dissection, report, jobs, columns
                )

        with over_records(columns, source, columns) as engine:
            findings, found = findings_in(queries, engine), answers_of(engine, engine.copies)
        masked = options.dissection.redact
        text = page(found, findings, report, _title(options.captures), masked)
        sink.writer(lambda stream: stream).write(text)
    _say_what_there_is(found, findings, sink, report)
    leave(report, interrupted.yes)


def _from_tables(sink: Sink, folder: str, between: TimeRange) -> None:
    with writing(sink):
        _check_folder(folder)
        queries = rules()
        with over_folder(wanted(queries), folder, True, between) as engine:
            if engine.lacking:
                say(lacking_text(folder, engine.lacking))
            findings, found = findings_in(queries, engine), answers_of(engine, engine.copies)
        title = f"NATS in {os.path.basename(os.path.normpath(folder))}"
        sink.writer(lambda stream: stream).write(page(found, findings, None, title))
    _say_what_there_is(found, findings, sink)


def _check_folder(folder: str) -> None:
    """Refuses a folder without the table `sessions`, or in which that cannot be read."""
    try:
        there = has_table(folder, "sessions")
    except OSError as error:
        raise Fault(f"{error.filename}: cannot be read: {reason_of(error)}") from None
    if not there:
        what = "has no table sessions" if is_folder(folder) else "is not a folder"
        raise Fault(
            f"{folder}: {what}; `nats-dissect spark CAPTURE... --out DIR --tables sessions,frames,...`"
            " writes tables"
        )


def _say_what_there_is(
    found: Answers, findings: Findings, sink: Sink, report: CaptureReport | None = None
) -> None:
    sessions = count_text(found.totals.sessions, "session")
    frames = count_text(found.totals.frames, "frame")
    undecoded = undecoded_text(report) if report else ""
    nothing = "" if found.totals.sessions else f"no NATS; {undecoded}{'; ' * bool(undecoded)}"
    audit = findings.why_not or count_text(findings.levels.total(), "finding")
    if found.copies:
        say(copies_text(found.copies))
    say(f"{nothing}{sessions}, {frames}, {audit} in {sink.name}")


def _title(paths: Sequence[str]) -> str:
    """A title with the name of the only capture, or their number."""
    if list(paths) == [STDIN]:
        return "NATS in a capture from standard input"
    names = [os.path.basename(os.path.normpath(path)) for path in paths]
    return f"NATS in {names[0]}" if len(names) == 1 else f"NATS in {len(names)} captures"
