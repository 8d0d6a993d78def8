"""The options and arguments of commands for click, made from their declarations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial, wraps
from types import MappingProxyType
from typing import TypeVar

import click
from click.shell_completion import CompletionItem

from ..option_types import Form, Opt, declared
from ..options import Options
from ..output.sink import Fault, say
from ..secrets.key_log import without_secrets
from .command_options import CommandOptions, command_options, options_of
from .help import DeclaredOption, HelpfulCommand

UNMASKED_INPUT = tuple(name for name in declared(Options) if name not in ("payload", "redact"))
"""For commands that show no text that may contain secrets, or that do not mask secrets."""
INPUT = (*UNMASKED_INPUT, "redact")
FACTS = ("format", "sort", "output", "progress")
QUERIED = (*FACTS, "limit", "csv_safe")
SOME_ROWS = (*QUERIED, "columns")
ROWS = (*SOME_ROWS, "where", "jobs")

_NAMED = 4

CommandFunction = Callable[..., None]
_O = TypeVar("_O", bound=CommandOptions)


class GroupedCommand(HelpfulCommand):
    """A command that knows the options of other commands."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parses the arguments. An option that only other commands have is refused with their names."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            program = ctx.parent.command if ctx.parent else None
            others = [
                name
                for name, command in getattr(program, "commands", {}).items()
                if any(error.option_name in param.opts for param in command.params)
            ]
            if others:
                text = f"{ctx.info_name} has no option {error.option_name}; {_listed(others)}"
                raise Fault(text) from None
            raise


def _listed(commands: list[str]) -> str:
    more = len(commands) - _NAMED
    names = commands[:_NAMED] + ([f"{more} others"] if more > 0 else [])
    *first, last = names
    return f"{', '.join(first)} and {last} have it" if first else f"{last} has it"


class _Option(DeclaredOption):
    """An option that is made from its declaration. `reason` says why the command does not take it."""

    def __init__(self, flags: Sequence[str], *, opt: Opt, default: str | None, reason: str) -> None:
        form, shown = opt.form, default or opt.default
        details = "; ".join([f"default: {shown}"] * bool(shown) + [form.range] * bool(form.range))
        self.opt = opt
        is_flag = not form.metavar
        super().__init__(
            flags,
            help=f"{opt.help}  [{details}]" if details else opt.help,
            metavar=form.metavar or None,
            multiple=form.repeated,
            hidden=bool(reason),
            **({"required": True} if opt.required and not reason else {"default": default}),
            is_flag=is_flag,
            callback=partial(_value, form, reason, is_flag and flags[0].startswith("--no-")),
            shell_complete=partial(_completions, form.choices),
        )


def _value(
    form: Form,
    reason: str,
    negated: bool,
    context: click.Context,
    parameter: click.Parameter,
    value: object,
) -> object:
    """The value of an option; None if it is not given."""
    if value is None or value == ():
        return None
    if reason:
        raise Fault(f"{parameter.opts[-1]}: {reason}")
    if isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    try:
        return form.read(not value if negated else value)
    except (TypeError, ValueError) as error:
        raise click.BadParameter(str(error)) from None


def _completions(
    choices: Sequence[str], context: click.Context, parameter: click.Parameter, begin: str
) -> list[CompletionItem]:
    return [CompletionItem(each) for each in choices if each.startswith(begin)]


def takes(
    kind: type[_O],
    *names: str,
    arguments: str = "CAPTURE...",
    refused: Mapping[str, str] = MappingProxyType({}),
    **defaults: str,
) -> Callable[[Callable[..., None]], CommandFunction]:
    """Gives a command captures and these options. It is called with them as one value. `defaults` are texts
    in place of default values; `refused` are options that it does not take, with the reason, which says what
    to do instead."""
    options = {name: opt for name, opt in options_of(kind).items() if name in (*names, *refused)}

    def decorator(command: Callable[..., None]) -> CommandFunction:
        @wraps(command)
        def run(**values: object) -> None:
            own = {name: values.pop(name) for name in ("captures", *options)}
            given = command_options(kind, own)
            for path in without_secrets(given.key_logs):
                say(f"{path}: the key log has no TLS secret{' yet' * given.live}")
            command(given, **values)

        made: CommandFunction = run
        needed = not arguments.startswith("[")
        made = click.argument("captures", nargs=-1, required=needed, metavar=arguments)(made)
        for name, opt in reversed(options.items()):
            flags = (*(opt.flags or (opt.flag(name),)), name)
            settings = {"opt": opt, "default": defaults.get(name), "reason": refused.get(name, "")}
            made = click.option(*flags, cls=_Option, **settings)(made)
        return made

    return decorator
