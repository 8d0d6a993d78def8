"""Commands and groups, which add the options that all commands have; and the run of a command: its client,
and how it prints.

The modules of groups take long to import, so each is imported when a command of the group is used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

import click
from click.core import ParameterSource

from ..client import Client
from ..options import REQUEST_TIMEOUT
from .connection import CONNECTION, FLAGS, opened
from .help import HelpfulCommand
from .options import Option
from .output import print_facts, print_json, print_line, print_table
from .reporting import Reporter
from .values import seconds

if TYPE_CHECKING:
    from ..jetstream import JetStream

__all__ = ["DONE", "FAILED", "WHOLE", "Command", "Group", "Run"]

DONE, FAILED = 0, 1

WHOLE = 1000  # characters, more than any sentence
_NUMBER = re.compile(r"-(\d+|\d*\.\d+)")

_JSON = Option(["--json"], one_of="form", help="Print one JSON object per line.")
_RAW = Option(["--raw"], one_of="form", help="Print only payloads, each with a line feed.")

_T = TypeVar("_T")


@dataclass
class Run:
    """One run of a command: its client, and the options that all commands have."""

    nc: Client
    reporter: Reporter
    listens: bool
    timeout: float | None
    json: bool
    raw: bool = False
    domain: str | None = None
    api_prefix: str | None = None

    @property
    def form(self) -> str:
        """How to print messages: `text`, `json` or `raw`."""
        return "json" if self.json else "raw" if self.raw else "text"

    @cached_property
    def js(self) -> JetStream:
        """The JetStream context that the options select."""
        timeout = REQUEST_TIMEOUT if self.listens else self.timeout
        return self.nc.jetstream(self.domain, self.api_prefix, timeout)

    def done(self, text: str = "", /, **fields: object) -> None:
        """Prints what the command has done: `fields` with `--json`, else `text`, if there is one."""
        if self.json:
            print_json(fields)
        elif text:
            print_line(text)

    def facts(self, facts: Mapping[str, object]) -> None:
        """Prints one object."""
        if self.json:
            print_json(facts)
        else:
            print_facts(facts)

    def names(self, names: Iterable[str]) -> None:
        """Prints a line for each name."""
        for name in names:
            print_line(name)

    def table(
        self,
        titles: Sequence[str],
        found: Iterable[_T],
        row: Callable[[_T], Sequence[object]],
        fields: Callable[[_T], object],
    ) -> None:
        """Prints the fields of each of `found` with `--json`, else a table with its row."""
        if self.json:
            for each in found:
                print_json(fields(each))
        else:
            print_table(titles, map(row, found))


class Command(HelpfulCommand):
    """A command. Its function takes a Run, and then what the options and arguments say.

    `timeout` is the default for `--timeout`; a command with None listens, and waits so long for a message.
    With `raw`, it prints messages, of which `--raw` prints the payloads alone.
    """

    def __init__(
        self, *args: object, timeout: float | None = 5.0, raw: bool = False, **more: object
    ) -> None:
        super().__init__(*args, **more)  # type: ignore[arg-type]  # passed on unchanged
        self._listens = timeout is None
        assert self.callback
        self._run: Callable[..., int | None] = self.callback
        limit = f"Time limit of each operation ({timeout or 0:g})."
        text = "Exit when no message arrives for SECONDS." if timeout is None else limit
        self.params += [
            _JSON,
            *[_RAW] * raw,
            Option(["--timeout SECONDS"], type=seconds, default=timeout, help=text),
            *CONNECTION,
        ]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Reads the command line. A negative number is an argument, not an option."""
        options = [each for each in self.get_params(ctx) if isinstance(each, Option)]
        reporter_of(ctx).flags = {**FLAGS, **{each.name: each.flag for each in options}}
        if any(map(_NUMBER.fullmatch, args)):
            args = _arguments_last(args, options)
        rest = super().parse_args(ctx, args)
        given: dict[str, Option] = {}
        for each in options:
            if each.one_of and ctx.get_parameter_source(each.name) is ParameterSource.COMMANDLINE:
                other = given.setdefault(each.one_of, each)
                if other is not each:
                    raise click.UsageError(f"{other.flag} excludes {each.flag}.", ctx)
        return rest

    def invoke(self, ctx: click.Context) -> int:
        """Connects, and calls the function. Returns the exit status."""
        shared = {
            name: ctx.params.pop(name)
            for name in ("timeout", "json", "raw", "domain", "api_prefix")
            if name in ctx.params
        }
        reporter = reporter_of(ctx)
        timeout = None if self._listens else shared["timeout"]
        with reporter.heeding_interrupts(), opened(ctx, reporter, timeout) as nc:
            run = Run(nc, reporter, self._listens, **shared)
            status: int | None = ctx.invoke(self._run, run, **ctx.params)
        return status or (FAILED if reporter.refused else DONE)


def reporter_of(ctx: click.Context) -> Reporter:
    """The reporter of this run of the program."""
    reporter = ctx.find_object(Reporter)
    assert reporter
    return reporter


def _arguments_last(args: list[str], options: Iterable[Option]) -> list[str]:
    """Returns the words in an order in which no argument can be taken for an option."""
    valued = {name for each in options if not each.is_flag for name in each.opts}
    first: list[str] = []
    last: list[str] = []
    words = iter(args)
    for word in words:
        if word == "--":
            last += words
        elif word[:1] != "-" or word == "-" or _NUMBER.fullmatch(word):
            last.append(word)
        else:
            first += [word, *islice(words, word in valued)]
    return [*first, "--", *last]


class Group(HelpfulCommand, click.Group):
    """A group of commands, which also have the options in `shared`."""

    command_class = Command

    def __init__(self, *args: object, shared: Sequence[Option] = (), **more: object) -> None:
        more.setdefault("no_args_is_help", False)  # it is wrong usage, in one line
        super().__init__(*args, **more)  # type: ignore[arg-type]  # passed on unchanged
        self.params += CONNECTION
        self._shared = shared

    def add_command(self, cmd: click.Command, name: str | None = None) -> None:
        """Adds a command, with the shared options before the connection's."""
        cmd.params += self._shared
        super().add_command(cmd, name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands, in the order in which they were added."""
        return list(self.commands)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands with their first sentences."""
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, item.get_short_help_str(WHOLE)) for name, item in self.commands.items()]
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands, then the options in groups."""
        self.format_commands(ctx, formatter)
        super().format_options(ctx, formatter)
