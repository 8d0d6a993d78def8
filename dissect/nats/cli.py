"""`nats-dissect`: the commands. What they do is elsewhere; `run` says how.

Exit status: 0 done; 2 wrong usage, or an input that is no capture; 3 done, but a capture was cut short or
damaged; 130 interrupted. A closed pipe ends quietly. What is wrong is said on stderr, a line each.
"""

from __future__ import annotations

import sys
from importlib import metadata

import click

from .commands.arguments import (
    GroupedCommand,
    fact_options,
    given,
    payload_option,
    query_options,
    row_options,
    split_options,
    talk_options,
)
from .commands.run import Command, print_info, print_rows, print_session, print_talk
from .commands.split import split
from .commands.sql import print_answer
from .output.sink import INTERRUPTED, unwritable
from .parallel import calm_collector
from .spark.arguments import job_given, job_options


def _version() -> str:
    try:
        return metadata.version("natsync")
    except metadata.PackageNotFoundError:  # run from a checkout
        return "unknown"


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(_version(), prog_name="nats-dissect")
def cli() -> None:
    """Tell what NATS clients and servers said to each other, from packet captures.

    A CAPTURE is a pcap or pcapng file, a folder, a pattern, or - for standard input; several are one
    timeline.
    """


cli.command_class = GroupedCommand


@cli.command("sessions")
@row_options
@click.option(
    "--session", metavar="ID", help="Only this one, in full: the start of its id is enough."
)
def _sessions(session: str | None, **values: object) -> None:
    """One row a NATS connection."""
    run = Command("sessions", given(values))
    if session is None:
        print_rows(run)
    else:
        print_session(run, session)


@cli.command("frames")
@row_options
@payload_option("none")
def _frames(**values: object) -> None:
    """One row a protocol operation, in time order."""
    print_rows(Command("frames", given(values)))


@cli.command("subscriptions")
@row_options
def _subscriptions(**values: object) -> None:
    """One row a subscription: opened, closed, delivered."""
    print_rows(Command("subscriptions", given(values)))


@cli.command("requests")
@row_options
def _requests(**values: object) -> None:
    """One row a request: reply or none, latency."""
    print_rows(Command("requests", given(values)))


@cli.command("anomalies")
@row_options
def _anomalies(**values: object) -> None:
    """One row an oddity: what, where, how many bytes."""
    print_rows(Command("anomalies", given(values)))


@cli.command("flows")
@row_options
def _flows(**values: object) -> None:
    """One row a TCP connection, NATS or not."""
    print_rows(Command("flows", given(values)))


@cli.command("follow")
@click.argument("session", metavar="ID")
@talk_options
@payload_option("text")
@click.option("--full", is_flag=True, help="Show long payloads whole.")
def _follow(session: str, full: bool, **values: object) -> None:
    """The conversation of one session, both directions; the start of its ID is enough."""
    print_talk(Command("frames", given(values)), session, full)


@cli.command("info")
@fact_options
def _info(**values: object) -> None:
    """What is in the files: packets, time span, link types, losses, protocols."""
    print_info(Command("info", given(values)))


@cli.command("sql")
@click.argument("query")
@query_options
@payload_option("none")
def _sql(query: str, **values: object) -> None:
    """What a QUERY in SQL says about the tables: SELECT ... FROM frames, sessions, subscriptions,
    requests, flows, anomalies."""
    print_answer(query, given(values))


@cli.command("split")
@split_options
def _split(captures: tuple[str, ...], folder: str, size_bytes: int) -> None:
    """Rewrite captures, also compressed ones, as plain pieces that are captures of their own."""
    split(captures, folder, size_bytes)


@cli.command("spark")
@job_options
@payload_option("none")
def _spark(**values: object) -> None:
    """The same tables as Parquet files, from captures of any size, made by many tasks of Apache Spark."""
    from .spark.command import run_job

    run_job(job_given(values))


def main() -> None:
    """The console script."""
    calm_collector()
    try:
        cli(prog_name="nats-dissect")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except OSError as error:  # a help text; all else is behind an Outlet
        fault = unwritable(None, error)
        fault.show()
        sys.exit(fault.exit_code)
