"""Captures, or Parquet tables -> a report as one HTML file: what `nats-dissect report` does.

Exit status: 0 done, also where there is no NATS (the page says what there is instead); 2 where an input is
no capture, the folder has no tables or the output cannot be written; 3 done, but a capture was cut short or
damaged, which the page says, too.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from typing import TYPE_CHECKING

import click

from ..capture import CaptureReport
from ..capture.sources import STDIN
from ..errors import MissingLibrary
from ..number_formats import count_text
from ..output.sink import Fault, Sink, say, sink_of, writing
from ..pipeline import records
from .arguments import INPUT, PROGRESS, Command, Decorator, option, output_name
from .command_options import CommandOptions
from .run import leave, progress_bar
from .signals import ends_input

if TYPE_CHECKING:
    from ..report.aggregate import Aggregate


def report_options(command: Command) -> Command:
    """Captures or tables, and the output."""
    options = (
        option(
            "-o",
            "--output",
            group="Output",
            required=True,
            metavar="FILE",
            callback=output_name,
            help="Write the page to this file.",
        ),
        option(
            "--tables",
            group="Selection",
            metavar="DIR",
            help="Read Parquet tables, as `spark --out DIR` writes them, instead of captures.",
        ),
        PROGRESS,
    )
    listed: Decorator = click.argument("captures", nargs=-1, metavar="CAPTURE...")
    command = listed(command)
    for each in reversed((*options, *INPUT)):
        command = each(command)
    return command


def write_report(tables: str | None, options: CommandOptions) -> None:
    """Writes the page. Exits unless everything was read."""
    if tables is not None and options.captures:
        raise Fault("--tables is in place of captures: name one or the other")
    if tables is None and not options.captures:
        raise Fault("no capture is named, and no folder with --tables")
    sink = sink_of(options.path, options.captures, binary=True)
    try:
        from ..report import figures, page  # noqa: F401  # before a capture is read

        figures.plotly()
    except ImportError as error:
        raise Fault(str(MissingLibrary(str(error.name), "report"))) from None
    except MissingLibrary as error:
        raise Fault(str(error)) from None
    if tables is None:
        _from_captures(sink, options)
    else:
        _from_tables(sink, tables)


def _from_captures(sink: Sink, options: CommandOptions) -> None:
    from ..report.aggregate import TABLES, Aggregate
    from ..report.page import page

    found, report = Aggregate(), CaptureReport()
    with writing(sink), ends_input(options.live) as interrupted:
        with progress_bar(options, report):
            rows = records(options.captures, TABLES, options.dissection, report)
            with closing(rows):
                found.add_all(rows)
        found.finish()
        text = page(found, report, _title(options.captures), masked=not options.no_redact)
        sink.writer(lambda stream: stream).write(text)
    _say_what_there_is(found, sink)
    leave(report, interrupted.yes)


def _from_tables(sink: Sink, folder: str) -> None:
    from ..report.aggregate import TABLES, Aggregate
    from ..report.page import page
    from ..report.parquet_rows import rows_in, tables_in

    found = Aggregate()
    with writing(sink):
        for table, path in tables_in(folder, TABLES).items():
            found.add_all(rows_in(table, path))
        found.finish()
        text = page(found, None, f"NATS in {os.path.basename(os.path.normpath(folder))}")
        sink.writer(lambda stream: stream).write(text)
    _say_what_there_is(found, sink)


def _say_what_there_is(found: Aggregate, sink: Sink) -> None:
    sessions = count_text(found.rows["sessions"], "session")
    frames = count_text(found.rows["frames"], "frame")
    nothing = "" if found.rows["sessions"] else "no NATS; "
    say(f"{nothing}{sessions}, {frames} in {sink.name}")


def _title(paths: Sequence[str]) -> str:
    """A title with the name of the only capture, or their number."""
    if list(paths) == [STDIN]:
        return "NATS in a capture from standard input"
    names = [os.path.basename(os.path.normpath(path)) for path in paths]
    return f"NATS in {names[0]}" if len(names) == 1 else f"NATS in {len(names)} captures"
