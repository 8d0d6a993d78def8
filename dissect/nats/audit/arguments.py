"""The options and arguments of `nats-dissect audit`."""

from __future__ import annotations

from dataclasses import dataclass, field

import click

from ..commands.arguments import (
    COLUMNS,
    CSV_SAFE,
    JOBS,
    LIMIT,
    OUTPUT,
    SORT,
    UNMASKED_INPUT,
    Command,
    Decorator,
    option,
)
from ..commands.command_options import CommandOptions
from ..spark.options.arguments import CONF
from .output.formats import OUTPUTS
from .sigma.levels import Level

NEVER = "never"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions(CommandOptions):
    """Captures or tables, rules, and how to show findings."""

    rules: tuple[str, ...] = ()
    listed: bool = False
    explain: str | None = None
    fail_on: str = Level.high.name
    tables: str | None = None
    suppress: str | None = None
    master: str | None = None
    conf: dict[str, str] = field(default_factory=dict)
    variables: dict[str, list[str]] = field(default_factory=dict)

    @property
    def other_inputs(self) -> tuple[str, ...]:
        """Key logs, rules, suppressions and tables."""
        named = (path for path in (self.suppress, self.tables) if path is not None)
        return (*self.key_logs, *self.rules, *named)


def _values(
    context: click.Context, parameter: click.Parameter, values: tuple[str, ...]
) -> dict[str, list[str]]:
    """Parses repeated `NAME=VALUE` into lists of values by name."""
    found: dict[str, list[str]] = {}
    for each in values:
        name, equals, value = each.partition("=")
        if not (name and equals and value):
            raise click.BadParameter(f"{each!r} is not NAME=VALUE, such as known_clusters=east")
        found.setdefault(name, []).append(value)
    return found


_RULES = (
    option(
        "--rules",
        group="Rules",
        metavar="PATH",
        multiple=True,
        help="Add the rules in this folder or file, in Sigma's format; a rule replaces one with its id or"
        " name. Repeatable.",
    ),
    option(
        "--var",
        "variables",
        group="Rules",
        metavar="NAME=VALUE",
        multiple=True,
        callback=_values,
        help="Set a value of the placeholder %NAME% in rules, such as known_clusters=east. Repeatable, also"
        " for more values of one name. A rule with a placeholder that has no value does not run.",
    ),
    option("--list", "listed", group="Rules", is_flag=True, help="List the rules."),
    option(
        "--explain", group="Rules", metavar="NAME", help="Show a rule, and the SQL that it becomes."
    ),
    option(
        "--suppress",
        group="Rules",
        metavar="FILE",
        help="A YAML file of known findings, each with a rule, the columns to match and a reason. They are"
        " shown with the reason, counted, and do not change the exit status.",
    ),
    option(
        "--fail-on",
        group="Rules",
        type=click.Choice([*Level.__members__, NEVER]),
        default=Level.high.name,
        show_default=True,
        help="Exit with status 1 if there is a finding of this level or a worse one.",
    ),
)
_TABLES = (
    option(
        "--tables",
        group="Selection",
        metavar="DIR",
        help="Read the Parquet tables in this folder instead of captures: the folders that `nats-dissect"
        " spark` writes, or files such as frames.parquet.",
    ),
    option(
        "--master",
        group="Spark",
        metavar="URL",
        help="Run the rules over the tables on this Spark cluster: spark://HOST:PORT, yarn, local[4] ...",
    ),
    CONF,
)
_NO_REDACT = option(
    "--no-redact",
    group="Dissection",
    is_flag=True,
    hidden=True,
    help="Refused with the reason: findings never show secrets.",
)
_OUTPUTS = (
    option(
        "--format",
        group="Output",
        type=click.Choice(tuple(OUTPUTS)),
        default="text",
        show_default=True,
        help="; ".join(f"{name}: {form.meaning}" for name, form in OUTPUTS.items()) + ".",
    ),
    COLUMNS,
    SORT,
    LIMIT,
    CSV_SAFE,
    *OUTPUT,
    JOBS,
)


def audit_options(command: Command) -> Command:
    """Adds the captures argument and the options of an audit to a command."""
    captures: Decorator = click.argument("captures", nargs=-1, metavar="[CAPTURE...]")
    for each in (captures, *reversed((*_RULES, *_OUTPUTS, *_TABLES, *UNMASKED_INPUT, _NO_REDACT))):
        command = each(command)
    return command


def audit_arguments(values: dict[str, object]) -> AuditOptions:
    """The command line, parsed by click, as one value."""
    return AuditOptions(**values)  # type: ignore[arg-type]  # the options above declare the same types
