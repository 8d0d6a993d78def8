"""The options of `nats-dissect report`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ..commands.command_options import CommandOptions, file_of, jobs_of
from ..option_types import Group, Opt, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions(CommandOptions):
    """The captures, or the folder of tables, and the options of a report."""

    output: Annotated[str | None, file_of("Write the page to this file.", required=True)] = None
    jobs: Annotated[int | None, jobs_of("1")] = None
    tables: Annotated[
        str | None,
        Opt(
            Group.SELECTION,
            "Read Parquet tables, as `spark --out DIR` writes them, instead of captures.",
            Text("DIR"),
        ),
    ] = None
