"""`nats-dissect report`: captures or Parquet tables -> a report as one HTML file.

Exit status: 0 done, also if there is no NATS (the page names the other protocols); 2 if an input is
not a capture, the folder has no tables or the output cannot be written; 3 done, but a capture was cut short
or damaged, which the page says, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from ..audit.loading import loaded_records
from ..capture import CaptureReport
from ..capture.sources import STDIN
from ..commands.processes import processes
from ..commands.run import leave, progress_bar
from ..commands.signals import ends_input
from ..number_formats import count_text
from ..output.sink import Fault, Sink, say, sink_of, writing
from .aggregates.aggregate import TABLES, Aggregate
from .aggregates.findings import Findings, audited, audited_folder, rules, wanted_tables
from .arguments import ReportOptions
from .page.page import page
from .parquet_rows import rows_in, tables_in


def write_report(options: ReportOptions) -> None:
    """Writes the page. Exits unless everything was read."""
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
        _from_tables(sink, tables)


def _from_captures(sink: Sink, options: ReportOptions) -> None:
    found, report = Aggregate(), CaptureReport()
    with writing(sink), ends_input(options.live) as interrupted:
        queries = rules()
        with progress_bar(options, report):
            wanted = wanted_tables(queries)
            rows = loaded_records(
                options.captures, wanted, options.dissection, report, processes(options)
            )
            findings = audited(queries, found, rows)
        found.finish()
        masked = options.dissection.redact
        text = page(found, findings, report, _title(options.captures), masked)
        sink.writer(lambda stream: stream).write(text)
    _say_what_there_is(found, findings, sink)
    leave(report, interrupted.yes)


def _from_tables(sink: Sink, folder: str) -> None:
    found = Aggregate()
    with writing(sink):
        places = tables_in(folder, TABLES)
        for table, path in places.items():
            found.add_all(rows_in(table, path))
        found.finish()
        findings = audited_folder(rules(), folder)
        title = f"NATS in {os.path.basename(os.path.normpath(folder))}"
        sink.writer(lambda stream: stream).write(page(found, findings, None, title))
    _say_what_there_is(found, findings, sink)


def _say_what_there_is(found: Aggregate, findings: Findings, sink: Sink) -> None:
    sessions = count_text(found.rows["sessions"], "session")
    frames = count_text(found.rows["frames"], "frame")
    nothing = "" if found.rows["sessions"] else "no NATS; "
    audit = findings.why_not or count_text(findings.levels.total(), "finding")
    say(f"{nothing}{sessions}, {frames}, {audit} in {sink.name}")


def _title(paths: Sequence[str]) -> str:
    """A title with the name of the only capture, or their number."""
    if list(paths) == [STDIN]:
        return "NATS in a capture from standard input"
    names = [os.path.basename(os.path.normpath(path)) for path in paths]
    return f"NATS in {names[0]}" if len(names) == 1 else f"NATS in {len(names)} captures"
