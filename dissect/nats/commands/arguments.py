"""The options and arguments of all commands, declared with click; the help shows options in groups.

Every command that prints rows has the same options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

from natsync.protocol import Kind

from ..capture.decompress import ALWAYS_EXPANDED, LARGEST_RATIO
from ..capture.time_range import TimeBound, time_bound
from ..number_formats import size_of
from ..options import Payload
from ..output.formats import FORMATS
from ..tcp.limits import FlowLimits, Limits
from .ranges import FloatRange

DOT = "dot"
"""The Graphviz format, which only `servers` has, besides the formats of every table."""

_WHOLE = 1000  # characters, more than any sentence

_FLOWS = FlowLimits()
_STREAMS = Limits()


class _GroupedOption(click.Option):
    """An option with the group in which `help` shows it."""

    def __init__(self, declared: Sequence[str], *, group: str, **settings: object) -> None:
        super().__init__(declared, **settings)  # type: ignore[arg-type]  # passed on unchanged
        self.group = group


class FullHelpGroup(click.Group):
    """A command group whose help shows the first sentence of each command in full."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands with their first sentences."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, item.get_short_help_str(_WHOLE)) for name, item in commands if item]
            )


class GroupedCommand(click.Command):
    """A command whose `help` shows its options in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, group after group."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for option in self.get_params(ctx):
            shown = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if shown:
                groups.setdefault(getattr(option, "group", "Other"), []).append(shown)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)


def _hints(
    context: click.Context, option: click.Parameter, values: tuple[str, ...]
) -> dict[int, Kind]:
    """Parses repeated `N=KIND` into kinds by port."""
    kinds = {item.value: item for item in Kind}
    hints = {}
    for value in values:
        port, _, kind = value.partition("=")
        is_port = port.isascii() and port.isdigit() and len(port) < 6 and 0 < int(port) < 65536
        if not (is_port and kind in kinds):
            raise click.BadParameter(f"{value!r} is not port=kind; kinds are {', '.join(kinds)}")
        hints[int(port)] = kinds[kind]
    return hints


def _bound(context: click.Context, option: click.Parameter, value: str | None) -> TimeBound | None:
    try:
        return None if value is None else time_bound(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _output_name(context: click.Context, option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("an empty text names no file; - is standard output")
    return value


def _size(context: click.Context, option: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else size_of(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _limit(context: click.Context, option: click.Parameter, value: int | None) -> int | None:
    return None if value is None else min(value, sys.maxsize)


Command = Callable[..., None]
Decorator = Callable[[Command], Command]


def option(*declared: str, group: str, help: str, **settings: object) -> Decorator:
    """A click option in a group of the help."""
    made: Callable[..., Decorator] = click.option
    return made(*declared, cls=_GroupedOption, group=group, help=help, **settings)


def output_file(help: str, required: bool = True) -> Decorator:
    """The option `-o`, for a command that must or can write to a file."""
    settings: dict[str, object] = {"metavar": "FILE", "callback": _output_name}
    return option("-o", "--output", group="Output", help=help, required=required, **settings)


_CAPTURES: Decorator = click.argument("captures", nargs=-1, required=True, metavar="CAPTURE...")
PROGRESS = option(
    "--progress/--no-progress",
    group="Output",
    default=None,
    help="Show a progress bar on stderr; by default at a terminal, if the command takes long.",
)
OUTPUT = (
    output_file("Write to this file instead of standard output.", required=False),
    PROGRESS,
)
COLUMNS = option(
    "--columns", group="Output", metavar="A,B", help="Only these columns, in this order."
)
CSV_SAFE = option(
    "--csv-safe",
    group="Output",
    is_flag=True,
    help="CSV: put an apostrophe before texts that spreadsheets take for formulas (= + - @).",
)
LIMIT = option(
    "--limit",
    group="Output",
    type=click.IntRange(min=0),
    metavar="N",
    callback=_limit,
    help="Stop after N rows.",
)
_WHERE = option(
    "--where",
    group="Output",
    metavar="EXPR",
    help="Only rows that match this SQL condition on the table's columns.",
)


def _jobs(default: str) -> Decorator:
    return option(
        "--jobs",
        group="Output",
        type=click.IntRange(min=0, max=512),
        metavar="N",
        help="Share the work among N processes, 0 for all cores; the rows are the same."
        f"  [default: {default}]",
    )


JOBS = _jobs("1")
_JOBS_OF_ROWS = _jobs("1; up to 4 for captures of 256 MiB or more")
_SELECTION = (
    option(
        "--from",
        "from_time",
        group="Selection",
        metavar="TIME",
        callback=_bound,
        help="Only packets from this time on: 2026-11-21T02:01:43Z or a part of it, or seconds after the"
        " first packet.",
    ),
    option(
        "--until",
        "until_time",
        group="Selection",
        metavar="TIME",
        callback=_bound,
        help="Only packets before this time.",
    ),
    option(
        "--kind",
        "kinds",
        group="Selection",
        metavar="KIND",
        multiple=True,
        type=click.Choice([kind.value for kind in Kind]),
        help="Only connections of this kind: client, route, gateway or leafnode. Repeatable.",
    ),
)
_SEPARATE = option(
    "--separate",
    group="Selection",
    is_flag=True,
    help="Treat each capture as its own timeline: connections do not continue in the next file.",
)
SORT = option(
    "--sort",
    group="Output",
    metavar="COLUMN[:desc]",
    help="Order the rows by this column; absent values come last.",
)


def no_sort(reason: str) -> Decorator:
    """A hidden `--sort` that fails and says why the command cannot sort."""

    def refuse(context: click.Context, option: click.Parameter, value: str | None) -> None:
        if value is not None:
            raise click.BadParameter(reason)

    made: Callable[..., Decorator] = click.option
    return made("--sort", hidden=True, expose_value=False, callback=refuse)


NO_REDACT = option(
    "--no-redact",
    group="Dissection",
    is_flag=True,
    help="Show passwords, tokens and signatures.",
)
_DISSECTION = (
    option(
        "--port",
        "hints",
        group="Dissection",
        metavar="N=KIND",
        multiple=True,
        callback=_hints,
        help="Set the kind of the connections on a port, if it cannot be detected. Repeatable.",
    ),
    option(
        "--keylog",
        "key_logs",
        group="Dissection",
        metavar="FILE",
        multiple=True,
        help="Decrypt TLS with the secrets in FILE (NSS key log format, as of SSLKEYLOGFILE). "
        "Repeatable. Secrets in a pcapng file are always used.",
    ),
)
_BOUNDS = "Limits of time and memory: what they drop is counted"
_LIMITS = (
    option(
        "--gap-seconds",
        group=_BOUNDS,
        type=FloatRange(min=0, max=1e9),
        metavar="S",
        default=_STREAMS.patience_ns / 1e9,
        show_default=True,
        help="Seconds to wait for bytes that were acknowledged but not captured.",
    ),
    option(
        "--max-stream-bytes",
        group=_BOUNDS,
        type=click.IntRange(min=1 << 10),
        metavar="BYTES",
        default=_STREAMS.held_bytes,
        show_default=True,
        help="Bytes that may wait after a gap, in one direction of a connection.",
    ),
    option(
        "--max-held-bytes",
        group=_BOUNDS,
        type=click.IntRange(min=1 << 10),
        metavar="BYTES",
        default=_FLOWS.held_bytes,
        show_default=True,
        help="Bytes that may wait after gaps, in all connections together.",
    ),
    option(
        "--max-flows",
        group=_BOUNDS,
        type=click.IntRange(min=1),
        metavar="N",
        default=_FLOWS.max_flows,
        show_default=True,
        help="TCP connections at a time.",
    ),
    option(
        "--idle-seconds",
        group=_BOUNDS,
        type=FloatRange(min=0, min_open=True, max=1e9),
        metavar="S",
        default=_FLOWS.idle_ns // 10**9,
        show_default=True,
        help="Seconds of silence after which a connection counts as closed.",
    ),
)
_READING = (
    *_LIMITS,
    option(
        "--max-expanded",
        group=_BOUNDS,
        metavar="SIZE",
        default=None,
        callback=_size,
        help="How many bytes of a decompressed capture to read, such as 8G.  "
        f"[default: {LARGEST_RATIO} times its size, at least {ALWAYS_EXPANDED >> 20} MiB]",
    ),
)
UNMASKED_INPUT = (*_SELECTION, _SEPARATE, *_DISSECTION, *_READING)
"""For commands that show no text that may contain secrets, or that do not mask secrets."""
INPUT = (*UNMASKED_INPUT, NO_REDACT)


def _meaning(name: str) -> str:
    return FORMATS[name].meaning if name in FORMATS else "a graph for Graphviz"


def format_option(names: Sequence[str]) -> Decorator:
    """`--format`, with these formats."""
    return option(
        "--format",
        group="Output",
        type=click.Choice(names),
        default="text",
        show_default=True,
        help="; ".join(f"{name}: {_meaning(name)}" for name in names) + ".",
    )


def payload_option(default: str) -> Decorator:
    """`--payload`, for commands that can show payloads."""
    return option(
        "--payload",
        group="Output",
        type=click.Choice([item.value for item in Payload]),
        default=default,
        show_default=True,
        help="How to show payloads.",
    )


def row_options(command: Command) -> Command:
    """Adds captures, and the options of every command that prints a table."""
    return _row_options(tuple(FORMATS), command)


def _row_options(formats: Sequence[str], command: Command) -> Command:
    options = (
        format_option(formats),
        COLUMNS,
        _WHERE,
        SORT,
        LIMIT,
        CSV_SAFE,
        *OUTPUT,
        _JOBS_OF_ROWS,
    )
    return with_captures((*options, *INPUT), command)


def server_options(command: Command) -> Command:
    """Adds captures, and the options of the command that lists servers or draws them."""
    graph = option(
        "--graph", group="Output", is_flag=True, help="Show clusters, servers and links as text."
    )
    return _row_options((*FORMATS, DOT), graph(command))


def conversation_options(command: Command) -> Command:
    """Adds captures, and the options of a command that prints some rows of a table."""
    options = (format_option(tuple(FORMATS)), COLUMNS, SORT, LIMIT, CSV_SAFE, *OUTPUT)
    return with_captures((*options, *INPUT), command)


def query_options(command: Command) -> Command:
    """Adds captures, and the options of a command that prints rows of a query."""
    options = (format_option(tuple(FORMATS)), SORT, LIMIT, CSV_SAFE, *OUTPUT)
    return with_captures((*options, *INPUT), command)


def fact_options(command: Command) -> Command:
    """Adds captures, and the options of a command that prints facts about captures."""
    options = (format_option(("text", "jsonl")), SORT, *OUTPUT)
    return with_captures((*options, *UNMASKED_INPUT), command)


def with_captures(options: tuple[Decorator, ...], command: Command) -> Command:
    """Adds captures and these options to a command."""
    for option in (_CAPTURES, *reversed(options)):
        command = option(command)
    return command
