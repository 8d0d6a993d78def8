"""The help of the program and of its commands: `--help` shows on one screen what is used most, `--help-all`
shows everything."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import click

from ..option_types import Opt, OptionGroup
from .examples import EXAMPLES

_WHOLE = 1000  # characters, more than any sentence
_ALL = f"{__name__}.all"
_NAME_WIDTH = 24  # of the names of options, beside which their help stands


class DeclaredOption(click.Option):
    """An option that is made from its declaration, `opt`."""

    opt: Opt


def _show_all(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


class HelpfulCommand(click.Command):
    """A command with `--help-all`, which shows all its options in groups; `--help` shows the common ones."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, with those that show a help."""
        shown = "commands" if isinstance(self, click.Group) else "options"
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help=f"Show all {shown}.",
        )
        return [*super().get_params(ctx), help_all]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the common options, or all, group after group."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        if ctx.meta.get(_ALL):
            self._format_groups(ctx, formatter, options)
        else:
            records = _records(ctx, filter(_is_common, options))
            with formatter.section("Common options"):
                records = [(name, _brief(text)) for name, text in records]
                formatter.write_dl(records, _NAME_WIDTH)

    def _format_groups(
        self, ctx: click.Context, formatter: click.HelpFormatter, options: list[click.Option]
    ) -> None:
        names = [group.value for group in OptionGroup]
        groups: dict[str, list[click.Option]] = {name: [] for name in (*names, "Other")}
        for option in options:
            group = option.opt.group.value if isinstance(option, DeclaredOption) else "Other"
            groups[group].append(option)
        for name, members in groups.items():
            if records := _records(ctx, members):
                with formatter.section(name):
                    formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples."""
        shown = EXAMPLES.get(self.name or "", ())
        if shown:
            with formatter.section("Examples" if len(shown) > 1 else "Example"):
                for each in shown:
                    formatter.write(f"{' ' * formatter.current_indent}{each}\n")


def _is_common(option: click.Option) -> bool:
    if isinstance(option, DeclaredOption):
        return option.opt.common or option.opt.required
    return "--help" not in option.opts


def _brief(text: str) -> str:
    """The help of an option up to the first semicolon or full stop, and its default value."""
    meaning, bracket, details = text.partition("  [")
    return f"{re.split('[.;] ', meaning)[0].removesuffix('.')}.{bracket}{details}"


def _records(ctx: click.Context, options: Iterable[click.Option]) -> list[tuple[str, str]]:
    return [record for option in options if (record := option.get_help_record(ctx))]


class HelpfulGroup(HelpfulCommand, click.Group):
    """The commands, each with its first sentence: with `--help` those in `first`, and the names of others."""

    first: Sequence[str] = ()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options and the commands."""
        options = [each for each in self.get_params(ctx) if isinstance(each, click.Option)]
        with formatter.section("Options"):
            formatter.write_dl(_records(ctx, filter(_is_common, options)))
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands with their first sentences."""
        names = self.list_commands(ctx)
        shown = names if ctx.meta.get(_ALL) else self.first
        commands = [(name, self.get_command(ctx, name)) for name in shown]
        with formatter.section("Commands"):
            formatter.write_dl(
                [(name, item.get_short_help_str(_WHOLE)) for name, item in commands if item]
            )
        others = [name for name in names if name not in shown]
        if others:
            with formatter.section("More commands"):
                formatter.write_text(", ".join(others))
