"""`nats-dissect`: the command line. Each command is declared here; `commands`, `audit`, `report` and `spark`
implement them.

Exit status: 0 done; 2 wrong usage, or an input that is not a capture; 3 done, but a capture was cut short or
damaged; 130 interrupted; 143 terminated. A closed pipe ends quietly. Every problem is one line on stderr.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import click

from .archive.arguments import REFUSED as NOT_ARCHIVED
from .archive.arguments import ArchiveOptions
from .audit.arguments import AuditOptions
from .audit.libraries import check_libraries
from .commands.arguments import (
    FACTS,
    INPUT,
    QUERIED,
    ROWS,
    SOME_ROWS,
    UNMASKED_INPUT,
    GroupedCommand,
    takes,
)
from .commands.captures.slice import SliceOptions, slice_captures
from .commands.captures.split import SplitOptions, split
from .commands.command_options import (
    DOT,
    CommandOptions,
    FactOptions,
    ReportOptions,
    ServerOptions,
    SessionOptions,
    SqlOptions,
    own,
)
from .commands.help import HelpfulGroup
from .commands.ladder import print_ladder
from .commands.run import (
    Command,
    print_conversation,
    print_explanation,
    print_info,
    print_rows,
    print_session,
)
from .commands.sql import print_answer
from .commands.top.options import TopOptions
from .commands.topology import print_topology
from .errors import DissectError
from .kernel import load
from .output.sink import INTERRUPTED, Fault, StandardOutput, say, silence_output, unwritable
from .parallel.worker import tune_garbage_collector
from .schema.declaration import Table
from .spark.options.arguments import REFUSED, JobArguments
from .tables import TABLES
from .version import version


def _print_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"nats-dissect, version {version()}")
        click.echo(f"Large captures are read by {load.description()}")
        context.exit()


@contextmanager
def _quiet_endings() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:  # of a help text: all other output goes through a sink
        silence_output()
        sys.exit(0)


class _Program(HelpfulGroup):
    """The program. Wherever an interrupt comes, it ends with status 130 and prints nothing; click would print
    "Aborted!" and exit with 1, as it does for a closed pipe, which ends quietly here."""

    first = tuple("info sessions frames follow requests audit report top sql archive spark".split())

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: object,
    ) -> click.Context:
        """Reads the options of the program, of which some print a text."""
        with _quiet_endings():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> object:
        """Runs the command. Each error is one line."""
        with _quiet_endings():
            load.on_compile = say
            try:
                return super().invoke(ctx)
            except DissectError as error:
                raise Fault(str(error)) from None


@click.group("nats-dissect", cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Show the NATS conversations in packet captures.

    A CAPTURE is a pcap or pcapng file (also compressed), a folder, a pattern, or - for standard input.
    Several captures are one timeline.
    """


cli.command_class = GroupedCommand


@cli.command("sessions", help=TABLES["sessions"].summary)
@takes(SessionOptions, *ROWS, *own(SessionOptions), *INPUT)
def _sessions(options: SessionOptions) -> None:
    run = Command("sessions", options)
    if options.explain is not None:
        print_explanation(run, options.explain)
    elif options.session is None:
        print_rows(run)
    else:
        print_session(run, options.session)


@cli.command("frames", help=TABLES["frames"].summary)
@takes(CommandOptions, *ROWS, "payload", *INPUT)
def _frames(options: CommandOptions) -> None:
    print_rows(Command("frames", options))


@cli.command("servers", help=TABLES["servers"].summary)
@takes(ServerOptions, *ROWS, "graph", *INPUT)
def _servers(options: ServerOptions) -> None:
    dot = options.format == DOT
    run = Command("servers", replace(options, format="text") if dot else options)
    if options.graph or dot:
        print_topology(run, dot)
    else:
        print_rows(run)


@cli.command("paths", help=TABLES["paths"].summary)
@takes(CommandOptions, *ROWS, "message", *INPUT)
def _paths(options: CommandOptions) -> None:
    run = Command("paths", options)
    if options.message is None:
        print_rows(run)
    else:
        print_ladder(run, options.message)


def _table_command(table: Table) -> None:
    """Adds the command of a table without special options."""

    def rows(options: CommandOptions) -> None:
        print_rows(Command(table.name, options))

    payload = ("payload",) if table.shows_payloads else ()
    command = takes(CommandOptions, *ROWS, *payload, *INPUT)(rows)
    cli.command(table.name, help=table.summary)(command)


for _table in TABLES.values():
    if _table.name not in cli.commands:
        _table_command(_table)


@cli.command("follow")
@click.argument("start", metavar="ID")
@takes(CommandOptions, *SOME_ROWS, "payload", "full", *INPUT, payload="text")
def _follow(options: CommandOptions, start: str) -> None:
    """Print the conversation of one session as text, both directions.

    The start of the session's ID is enough.
    """
    print_conversation(Command("frames", options), start)


@cli.command("info")
@takes(FactOptions, *FACTS, *UNMASKED_INPUT)
def _info(options: FactOptions) -> None:
    """Summarize the files: packets, time span, losses, protocols."""
    print_info(Command("info", options))


@cli.command("sql")
@click.argument("query")
@takes(SqlOptions, *own(SqlOptions), *QUERIED, "payload", *INPUT, arguments="[CAPTURE...]")
def _sql(options: SqlOptions, query: str) -> None:
    """Run a SQL query over the tables.

    The tables are named like the commands that list them: SELECT kind, count(*) FROM sessions GROUP BY kind.
    """
    print_answer(query, options)


@cli.command("top")
@takes(TopOptions, *own(TopOptions), *FACTS, "limit", *INPUT, arguments="[CAPTURE...]")
def _top(options: TopOptions) -> None:
    """Show the traffic while it arrives, refreshed each second.

    A file is followed while it grows. Keys: c s r p or Tab choose the table, < and > the column that sorts, i
    inverts, / filters, space pauses, q leaves.
    """
    from .commands.top.command import show_top

    show_top(options)


@cli.command("split")
@takes(SplitOptions, "output", *own(SplitOptions), refused={"sort": "packets keep their order"})
def _split(options: SplitOptions) -> None:
    """Cut captures into plain pieces, each a capture of its own."""
    split(options)


@cli.command("slice")
@takes(
    SliceOptions,
    *(*own(SliceOptions), "where", "output", *UNMASKED_INPUT),
    arguments="[ID...] CAPTURE...",
    refused={
        "sort": "packets keep their order",
        "redact": "packets are written as they are; nothing in them is masked",
    },
)
def _slice(options: SliceOptions) -> None:
    """Write the packets of some sessions as a capture of their own.

    An argument of 4 to 16 hexadecimal digits that names no file is the start of a session's ID. Packets are
    written as they are: nothing in them is masked.
    """
    slice_captures(options)


@cli.command("audit")
@takes(
    AuditOptions,
    *(*own(AuditOptions), *SOME_ROWS, "jobs", *UNMASKED_INPUT),
    arguments="[CAPTURE...]",
    refused={"redact": "findings never show secrets"},
)
def _audit(options: AuditOptions) -> None:
    """Print what rules in Sigma's format find in captures."""
    check_libraries()
    from .audit.command import audit

    audit(options)


@cli.command("report")
@takes(
    ReportOptions,
    *(*own(ReportOptions), "output", "progress", "jobs", *INPUT),
    arguments="[CAPTURE...]",
    refused={"sort": "a click on a heading of the page sorts its table"},
)
def _report(options: ReportOptions) -> None:
    """Write a report as one HTML page, which puts problems first.

    It also shows topology, traffic, latency, JetStream and ladder diagrams. The page opens from disk and
    reads nothing from a network.
    """
    check_libraries("report")
    from .report.command import write_report

    write_report(options)


@cli.command("spark")
@takes(JobArguments, *own(JobArguments), "progress", "payload", *INPUT, refused=REFUSED)
def _spark(options: JobArguments) -> None:
    """Write tables as Parquet files with Apache Spark, at any size."""
    from .spark.command import run_job

    run_job(options)


@cli.command("archive")
@takes(
    ArchiveOptions,
    *(*own(ArchiveOptions), "payload", *INPUT),
    arguments="FOLDER...",
    refused=NOT_ARCHIVED,
)
def _archive(options: ArchiveOptions) -> None:
    """Add what a sensor captures to tables on disk, without Spark.

    A FOLDER gets new captures all the time, as from tcpdump -G or a ring of dumpcap. It can be a pattern, or
    - for standard input. However the process ends, even by kill -9, the next run goes on, and no row is lost
    or there twice.
    """
    from .archive.command import archive

    archive(options)


def _terminated(number: int, frame: object) -> None:
    sys.exit(128 + number)


def main() -> None:
    """The console script."""
    tune_garbage_collector()
    # Signals raise SystemExit, so that temporary folders and unfinished files are removed.
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # nohup ignores SIGHUP
            signal.signal(number, _terminated)
    try:
        cli(prog_name="nats-dissect")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # while printing a help text; all other output goes through a sink
        fault = unwritable(StandardOutput.name, error)
        fault.show()
        sys.exit(fault.exit_code)
