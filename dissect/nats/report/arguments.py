"""The options and arguments of `nats-dissect report`."""

from __future__ import annotations

import click

from ..commands.arguments import (
    INPUT,
    JOBS,
    PROGRESS,
    Command,
    Decorator,
    no_sort,
    option,
    output_file,
)


def report_options(command: Command) -> Command:
    """Adds the captures argument and the options of a report to a command."""
    options = (
        output_file("Write the page to this file."),
        option(
            "--tables",
            group="Selection",
            metavar="DIR",
            help="Read Parquet tables, as `spark --out DIR` writes them, instead of captures.",
        ),
        PROGRESS,
        JOBS,
        no_sort("a click on a heading of the page sorts its table"),
    )
    listed: Decorator = click.argument("captures", nargs=-1, metavar="[CAPTURE...]")
    command = listed(command)
    for each in reversed((*options, *INPUT)):
        command = each(command)
    return command
