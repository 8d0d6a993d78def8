"""Options and arguments as the commands declare them, and those that several commands share.

The help shows options in groups, those that are not `common` only with `--help-all`, and explains arguments.
Of options with the same `one_of`, one may be given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from ..errors import OptionError
from .values import count, header

__all__ = [
    "JETSTREAM",
    "Argument",
    "Decorator",
    "Function",
    "Option",
    "argument",
    "count_option",
    "force_option",
    "header_option",
    "option",
]

Function = Callable[..., object]
Decorator = Callable[[Function], Function]
Type = Callable[[str], object] | None


class Option(click.Option):
    """An option, declared as the help shows it: `-o --output FILE`; without a value or a type, a flag."""

    def __init__(
        self,
        declared: Sequence[str],
        *,
        name: str = "",
        group: str = "Options",
        one_of: str = "",
        common: bool = True,
        **more: object,
    ) -> None:
        words = declared[0].split()
        more["metavar"] = None if words[-1][0] == "-" else words.pop()
        more["is_flag"] = not (more["metavar"] or more.get("type")) or None  # None: click decides
        super().__init__([*words, *filter(None, [name])], **more)  # type: ignore[arg-type]  # passed on
        self.group = group
        self.one_of = one_of
        self.common = common

    @property
    def flag(self) -> str:
        """The long form."""
        return max(self.opts, key=len)

    @property
    def brief(self) -> str:
        """The option with its value, for a line of many options."""
        if self.secondary_opts:
            return f"--[no-]{self.flag[2:]}"
        kind = self.type
        choices = f"[{'|'.join(kind.choices)}]" if isinstance(kind, click.Choice) else ""
        return f"{self.flag} {self.metavar or choices}"


class Argument(click.Argument):
    """An argument that the help explains."""

    def __init__(self, declared: Sequence[str], *, help: str = "", **more: object) -> None:
        super().__init__(declared, **more)  # type: ignore[arg-type]  # passed on unchanged
        self.explanation = help


def option(declared: str, help: str = "", type: Type = None, **more: object) -> Decorator:
    """Adds an option to a command."""
    return click.option(declared, cls=Option, help=help, type=type, **more)


def argument(name: str, help: str = "", type: Type = None, **more: object) -> Decorator:
    """Adds an argument to a command."""

    def decorate(function: Function) -> Function:  # that of click 8.1 cannot be used twice
        return click.argument(name, cls=Argument, help=help, type=type, **more)(function)

    return decorate


def count_option(text: str, default: int | None = None) -> Decorator:
    """Adds `--count`."""
    return option("--count N", text, count, default=default)


header_option = option(
    "-H --header NAME:VALUE", "A header; repeat it for more.", header, name="headers", multiple=True
)


def force_option(doing: str) -> Decorator:
    """Adds `--force`, without which the command refuses."""

    def check(context: click.Context, option: click.Parameter, force: bool) -> None:
        if not force and not context.resilient_parsing:
            raise OptionError("force", f"{doing} cannot be undone: repeat it with --force")

    return option(
        "-f --force",
        "Do it; without this option, the command refuses, because it cannot be undone.",
        expose_value=False,
        callback=check,
    )


JETSTREAM = (
    Option(["--domain NAME"], one_of="JetStream", common=False, help="The JetStream domain."),
    Option(
        ["--api-prefix SUBJECT"],
        one_of="JetStream",
        common=False,
        help="The subject prefix of an API of another account.",
    ),
)
"""The options that select another JetStream."""
