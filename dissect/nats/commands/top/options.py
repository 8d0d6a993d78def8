"""The options of `nats-dissect top`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ...option_types import Opt, OptionGroup, flag, one_of, seconds, text
from ..command_options import TABLES_OF, FactOptions
from .views import VIEWS

INTERVAL = 1.0
"""The default interval between refreshes, in seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopOptions(FactOptions):
    """The captures, or the interface, and the options of the live view."""

    interface: Annotated[
        str | None,
        "Capture on this network interface with dumpcap or tcpdump, in place of captures.",
        Opt(OptionGroup.SELECTION, text("NAME"), flags=("-i", "--interface"), common=True),
    ] = None
    tables: Annotated[str | None, TABLES_OF] = None
    once: Annotated[
        bool,
        "Print the tables once, after the end of the input, and exit.",
        Opt(OptionGroup.OUTPUT, flag(), common=True),
    ] = False
    view: Annotated[
        str | None,
        "The table to show first; with --once, the only one.",
        Opt(OptionGroup.OUTPUT, one_of([view.name for view in VIEWS]), common=True),
    ] = None
    filter: Annotated[
        str,
        "Only lines that contain this text, ignoring case.",
        Opt(OptionGroup.OUTPUT, text("TEXT"), common=True),
    ] = ""
    interval: Annotated[
        float, "Seconds between refreshes.", Opt(OptionGroup.OUTPUT, seconds(0.1, 3600))
    ] = INTERVAL
