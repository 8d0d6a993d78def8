"""The help: `--help` shows on one screen the options that are used most, `--help-all` all."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import click

from .options import Argument, Option

__all__ = ["HelpfulCommand", "shows_all"]

_ALL = "natsync.help_all"


def _show_all(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ALL] = True
        click.echo(context.get_help(), color=context.color)
        context.exit()


def shows_all(ctx: click.Context) -> bool:
    """Whether the help that is written is that of `--help-all`."""
    return bool(ctx.meta.get(_ALL))


class HelpfulCommand(click.Command):
    """A command with `--help-all`; its `--help` leaves out the options that are not common."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Its parameters, with those that show a help."""
        help_all = click.Option(
            ["--help-all"],
            is_flag=True,
            is_eager=True,
            expose_value=False,
            callback=_show_all,
            help="Show all options and exit.",
        )
        return [*super().get_params(ctx), help_all]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the arguments, then the options in groups. The fields of a configuration, which need no
        explanation, share lines."""
        arguments = {
            each.human_readable_name: each.explanation
            for each in self.params
            if isinstance(each, Argument) and each.explanation
        }
        if arguments:
            with formatter.section("Arguments"):
                formatter.write_dl([*arguments.items()])
        options = [*self._shown(ctx)]
        fields = [each for each in options if isinstance(each, Option) and not each.help]
        if fields:
            with formatter.section("Configuration"):
                words = " ".join(each.brief.replace(" ", "\0") for each in fields)
                lines = textwrap.wrap(words, formatter.width - 2, break_on_hyphens=False)
                formatter.write("".join(f"  {line}\n".replace("\0", " ") for line in lines))
        groups: dict[str, list[tuple[str, str]]] = {"Options": [], "Connection": []}
        for option in options:
            record = option.get_help_record(ctx)
            if record and record[1]:
                groups[getattr(option, "group", "Options")].append(record)
        for group, records in groups.items():
            with formatter.section(group):
                formatter.write_dl(records)

    def _shown(self, ctx: click.Context) -> Iterator[click.Option]:
        for each in self.get_params(ctx):
            if isinstance(each, click.Option) and (shows_all(ctx) or getattr(each, "common", True)):
                yield each
