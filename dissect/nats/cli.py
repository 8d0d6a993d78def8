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

import click

from .audit.arguments import audit_arguments, audit_options
from .audit.libraries import check_libraries
from .commands.arguments import (
    DOT,
    FullHelpGroup,
    GroupedCommand,
    conversation_options,
    fact_options,
    payload_option,
    query_options,
    row_options,
    server_options,
)
from .commands.captures.slice import ids_and_captures, slice_captures, slice_options
from .commands.captures.split import split, split_options
from .commands.command_options import command_options
from .commands.ladder import print_ladder
from .commands.run import Command, print_conversation, print_info, print_rows, print_session
from .commands.sql import print_answer
from .commands.top.options import top_options
from .commands.topology import print_topology
from .errors import DissectError, MissingLibrary
from .output.sink import INTERRUPTED, Fault, StandardOutput, silence_output, unwritable
from .parallel.worker import tune_garbage_collector
from .report.arguments import report_options
from .schema.declaration import Table
from .spark.options.arguments import job_arguments, job_options
from .tables import TABLES
from .version import version


def _print_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"nats-dissect, version {version()}")
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


class _Program(FullHelpGroup):
    """The program. Wherever an interrupt comes, it ends with status 130 and prints nothing; click would print
    "Aborted!" and exit with 1, as it does for a closed pipe, which ends quietly here."""

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
        """Runs the command."""
        with _quiet_endings():
            return super().invoke(ctx)


@click.group(cls=_Program, context_settings={"help_option_names": ["-h", "--help"]})
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
@row_options
@click.option(
    "--session", metavar="ID", help="Show one session in full; the start of its id is enough."
)
def _sessions(session: str | None, **values: object) -> None:
    run = Command("sessions", command_options(values))
    if session is None:
        print_rows(run)
    else:
        print_session(run, session)


@cli.command("frames", help=TABLES["frames"].summary)
@row_options
@payload_option("none")
def _frames(**values: object) -> None:
    print_rows(Command("frames", command_options(values)))


@cli.command("servers", help=TABLES["servers"].summary)
@server_options
def _servers(graph: bool, **values: object) -> None:
    dot = values["format"] == DOT
    if dot:
        values["format"] = "text"
    run = Command("servers", command_options(values))
    if graph or dot:
        print_topology(run, dot)
    else:
        print_rows(run)


@cli.command("paths", help=TABLES["paths"].summary)
@row_options
@click.option(
    "--message",
    metavar="SESSION:NUMBER",
    help="Show the way of one message as a ladder; the start of its session's id is enough.",
)
def _paths(message: str | None, **values: object) -> None:
    run = Command("paths", command_options(values))
    if message is None:
        print_rows(run)
    else:
        print_ladder(run, message)


def _table_command(table: Table) -> None:
    """Adds the command of a table without special options."""

    def rows(**values: object) -> None:
        print_rows(Command(table.name, command_options(values)))

    command = payload_option("none")(rows) if table.shows_payloads else rows
    cli.command(table.name, help=table.summary)(row_options(command))


for _table in TABLES.values():
    if _table.name not in cli.commands:
        _table_command(_table)


@cli.command("follow")
@click.argument("session", metavar="ID")
@conversation_options
@payload_option("text")
@click.option("--full", is_flag=True, help="Show long payloads whole.")
def _follow(session: str, full: bool, **values: object) -> None:
    """Print the conversation of one session as text, both directions.

    The start of the session's ID is enough.
    """
    print_conversation(Command("frames", command_options(values)), session, full)


@cli.command("info")
@fact_options
def _info(**values: object) -> None:
    """Summarize the files: packets, time span, link types, losses, protocols."""
    print_info(Command("info", command_options(values)))


@cli.command("sql")
@click.argument("query")
@query_options
@payload_option("none")
def _sql(query: str, **values: object) -> None:
    """Run a SQL query over the tables.

    The tables are named like the commands that list them: SELECT kind, count(*) FROM sessions GROUP BY kind.
    """
    print_answer(query, command_options(values))


@cli.command("top")
@top_options
def _top(
    once: bool,
    view: str | None,
    wanted: str,
    interval: float,
    interface: str | None,
    **values: object,
) -> None:
    """Show the traffic while it arrives, refreshed each second: connections, subjects, requests, problems.

    A file is followed while it grows. Keys: c s r p or Tab choose the table, < and > the column that sorts, i
    inverts, / filters, space pauses, q leaves.
    """
    from .commands.top.command import show_top

    show_top(command_options(values), once, view, wanted, interval, interface)


@cli.command("split")
@split_options
def _split(captures: tuple[str, ...], folder: str, size_bytes: int) -> None:
    """Cut captures into plain pieces, each a capture of its own."""
    split(captures, folder, size_bytes)


@cli.command("slice")
@slice_options
def _slice(arguments: tuple[str, ...], sessions: tuple[str, ...], **values: object) -> None:
    """Write the packets of some sessions as a capture of their own.

    An argument of 4 to 16 hexadecimal digits that names no file is the start of a session's ID. Packets are
    written as they are: nothing in them is masked.
    """
    ids, captures = ids_and_captures(arguments)
    slice_captures([*ids, *sessions], command_options({"captures": tuple(captures), **values}))


@cli.command("audit")
@audit_options
def _audit(**values: object) -> None:
    """Check captures against rules in Sigma's format, and print findings."""
    try:
        check_libraries()
    except DissectError as error:
        raise Fault(str(error)) from None
    from .audit.command import audit

    audit(audit_arguments(values))


@cli.command("report")
@report_options
def _report(tables: str | None, **values: object) -> None:
    """Write a report as one HTML page: problems, topology, traffic, latency, JetStream, ladder diagrams.

    The page opens from disk and reads nothing from a network.
    """
    try:
        check_libraries("report")
        from .report.command import write_report
    except DissectError as error:
        raise Fault(str(error)) from None
    except ImportError as error:
        raise Fault(str(MissingLibrary(str(error.name), "report"))) from None

    write_report(tables, command_options(values))


@cli.command("spark")
@job_options
@payload_option("none")
def _spark(**values: object) -> None:
    """Write the tables as Parquet files, with Apache Spark, from captures of any size."""
    from .spark.command import run_job

    run_job(job_arguments(values))


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
