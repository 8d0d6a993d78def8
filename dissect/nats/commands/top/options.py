"""The options of `nats-dissect top`."""

from __future__ import annotations

import click

from ..arguments import INPUT, LIMIT, OUTPUT, SORT, Command, Decorator, format_option, option
from ..ranges import FloatRange
from .views import VIEWS

INTERVAL = 1.0
"""The default interval between refreshes, in seconds."""


def top_options(command: Command) -> Command:
    """Adds captures, and the options of the live view, to a command."""
    own = (
        option(
            "-i",
            "--interface",
            group="Selection",
            metavar="NAME",
            help="Capture on this network interface with dumpcap or tcpdump, in place of captures.",
        ),
        option(
            "--once",
            group="Output",
            is_flag=True,
            help="Print the tables once, after the end of the input, and exit.",
        ),
        option(
            "--view",
            group="Output",
            type=click.Choice([view.name for view in VIEWS]),
            help="The table to show first; with --once, the only one.",
        ),
        option(
            "--filter",
            "wanted",
            group="Output",
            metavar="TEXT",
            default="",
            help="Only lines that contain this text, ignoring case.",
        ),
        option(
            "--interval",
            group="Output",
            type=FloatRange(min=0.1, max=3600),
            metavar="S",
            default=INTERVAL,
            show_default=True,
            help="Seconds between refreshes.",
        ),
    )
    options = (*own, SORT, LIMIT, format_option(("text", "jsonl")), *OUTPUT)
    listed: Decorator = click.argument("captures", nargs=-1, metavar="[CAPTURE...]")
    for each in (listed, *reversed((*options, *INPUT))):
        command = each(command)
    return command
