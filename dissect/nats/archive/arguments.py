"""The options of `nats-dissect archive`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

from ..commands.command_options import CommandOptions
from ..option_types import Opt, OptionGroup, flag, one_of, seconds, several, text, whole
from ..tables import TABLES

ARCHIVED = tuple(name for name, table in TABLES.items() if not (table.layer and table.layer.across))
"""The tables whose rows need one session. Others compare all sessions, and an archive never has all."""

REFUSED = {
    "from_time": "an archive has all packets; choose some where you read it",
    "until_time": "an archive has all packets; choose some where you read it",
    "separate": "each folder is a timeline, in which connections go on from file to file",
    "columns": "an archive has all columns; choose some where you read them",
    "where": "an archive has all rows; choose some where you read them, as with WHERE",
    "sort": "the rows are in order of time",
    "limit": "an archive has all rows",
    "format": "an archive is Parquet",
    "output": "an archive is a folder: --out DIR",
    "jobs": "one process reads each packet once; run one archive for each sensor",
}
"""Options of other commands, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveOptions(CommandOptions):
    """The folders of captures, and the options of an archive."""

    out: Annotated[
        str,
        "The folder of the archive, with one folder per table.",
        Opt(OptionGroup.OUTPUT, text("DIR"), required=True),
    ] = ""
    tables: Annotated[
        tuple[str, ...],
        f"Which tables to write. There are {', '.join(ARCHIVED)}.",
        Opt(OptionGroup.OUTPUT, several(one_of(TABLES), "A,B"), default="all", common=True),
    ] = ARCHIVED
    settle: Annotated[
        float,
        "Seconds after which the newest file, if it did not grow, is complete.",
        Opt(OptionGroup.SELECTION, seconds(), common=True),
    ] = 60.0
    every: Annotated[
        float,
        "Seconds between two looks into the folders, or between two commits of standard input.",
        Opt(OptionGroup.OUTPUT, seconds(positive=True), common=True),
    ] = 60.0
    once: Annotated[
        bool,
        "Add what is complete now, and stop; the next run goes on from there.",
        Opt(OptionGroup.OUTPUT, flag(), common=True),
    ] = False
    finish: Annotated[
        bool,
        "Add all files as they are, end all open connections, and stop.",
        Opt(OptionGroup.OUTPUT, flag()),
    ] = False

    keep: Annotated[
        int | None,
        "Remove what is older than this many days from the archive; captures are never removed.",
        Opt(
            OptionGroup.OUTPUT,
            replace(whole(1, 36_500), metavar="DAYS"),
            default="all are kept",
            common=True,
        ),
    ] = None
    metrics: Annotated[
        str | None,
        "Write counters for Prometheus to this file, whose name ends with .prom.",
        Opt(OptionGroup.OUTPUT, text("FILE"), common=True),
    ] = None

    @property
    def settle_ns(self) -> int:
        """`settle` in nanoseconds; nothing more comes with `finish`."""
        return 0 if self.finish else round(self.settle * 1e9)
