"""The program: all commands. The modules that take long to import are imported when they are used."""

from __future__ import annotations

from importlib import import_module

import click

from .. import __version__
from .command import WHOLE, Group
from .connection import ENVIRONMENT
from .help import shows_all
from .pubsub import pub, reply, request, rtt, sub

__all__ = ["LATE", "program"]

LATE = {
    "bench": "Measure pub, sub (while pub runs) or request (while reply runs)",
    "stream": "JetStream streams: list, create, change, purge, read, back up",
    "consumer": "JetStream consumers: list, create, change, read, pause",
    "streaming": "NATS Streaming (STAN) channels: publish, subscribe",
    "kv": "Key-value buckets: create, change; get, put, delete, watch keys",
    "object": "Object stores: create, change; put, get, link, watch objects",
    "service": "Services: list, ping, show, measure",
}
"""Commands and groups in modules of the same name, and what they are for."""

_EXIT_STATUS = """\b
Exit status:
  0    done
  1    failed: no connection, refused by the server, no responders, no reply,
       messages missing or dropped
  2    wrong usage
  130  interrupted

Environment: """


class _Program(Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return [*(name for name in self.commands if name not in LATE), *LATE]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Returns a command or a group."""
        if cmd_name in LATE and cmd_name not in self.commands:
            for found in vars(import_module(f".{cmd_name}", __package__)).values():
                if isinstance(found, click.Command) and found.name == cmd_name:
                    found.help = f"{LATE[cmd_name]}."
                    self.add_command(found)
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands, without the import of any."""
        own = {name: each.get_short_help_str(WHOLE) for name, each in self.commands.items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, (own | LATE)[name]) for name in self.list_commands(ctx)])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the exit status and the environment, with `--help-all`."""
        if shows_all(ctx):
            super().format_epilog(ctx, formatter)


program = _Program(
    "natsync",
    help="Talk to a NATS server.",
    epilog=_EXIT_STATUS + ", ".join(ENVIRONMENT.values()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _print_version(context: click.Context, option: click.Parameter, wanted: bool) -> None:
    if wanted:
        click.echo(f"natsync {__version__}")
        context.exit()


program.params.insert(
    0,
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Show the version and exit.",
    ),
)
for _command in (pub, request, sub, reply, rtt):
    program.add_command(_command)
