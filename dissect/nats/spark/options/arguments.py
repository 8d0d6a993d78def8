"""The options and arguments of `nats-dissect spark`."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click

from ...commands.arguments import INPUT, Command, no_sort, option, with_captures
from ...commands.command_options import CommandOptions
from ...number_formats import size_of
from ...tables import TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class JobArguments(CommandOptions):
    """Captures and options of a job."""

    out: str
    tables: tuple[str, ...]
    chunk_bytes: int
    master: str | None
    conf: dict[str, str]
    summary: str | None


def _tables(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    """Parses names of tables, separated by commas."""
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    for name in names:
        if name not in TABLES:
            raise click.BadParameter(f"{name!r} is not a table; tables are {', '.join(TABLES)}")
    return names


def settings(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[str, str]:
    """Parses repeated `spark.NAME=VALUE` into values by name."""
    for value in values:
        if not re.match(r"spark\.[^=\s]+=", value):
            raise click.BadParameter(f"{value!r} is not a setting such as spark.executor.memory=4g")
    return {name: text for name, _, text in (value.partition("=") for value in values)}


def _size(context: click.Context, option: click.Parameter, value: str) -> int:
    try:
        size = size_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    if size < 1 << 12:
        raise click.BadParameter("4096 bytes are the least")
    return size


_TABLES = (
    option(
        "--out",
        group="Output",
        required=True,
        metavar="DIR",
        help="The output folder, with one folder per table; tables of an earlier job are replaced.",
    ),
    option(
        "--tables",
        group="Output",
        metavar="A,B",
        default="frames,sessions",
        show_default=True,
        callback=_tables,
        help=f"Which tables: {', '.join(TABLES)}.",
    ),
    option(
        "--progress/--no-progress",
        group="Output",
        default=None,
        help="Show the progress of each stage on stderr; by default at a terminal.",
    ),
    option(
        "--summary",
        group="Output",
        metavar="FILE",
        help="Also write the summary as JSON; - is standard output.",
    ),
)
CONF = option(
    "--conf",
    group="Spark",
    metavar="K=V",
    multiple=True,
    callback=settings,
    help="A setting of Spark; repeatable.",
)
_SPARK = (
    option(
        "--master",
        group="Spark",
        metavar="URL",
        help="The cluster: spark://HOST:PORT, yarn, local[4] ...; by default this machine.",
    ),
    CONF,
    option(
        "--chunk-size",
        "chunk_bytes",
        group="Spark",
        metavar="BYTES",
        default="128M",
        show_default=True,
        callback=_size,
        help="The approximate size of the part of a capture that one task reads.",
    ),
)
_NO_SORT = no_sort("the files of a table have no order; sort where you read them, as with ORDER BY")


def job_options(command: Command) -> Command:
    """Adds captures, and the options of a job that writes tables, to a command."""
    return with_captures((*_TABLES, *_SPARK, *INPUT, _NO_SORT), command)


def job_arguments(values: dict[str, object]) -> JobArguments:
    """The command line of a job, parsed by click, as one value."""
    return JobArguments(**values)  # type: ignore[arg-type]  # the options above declare the same types
