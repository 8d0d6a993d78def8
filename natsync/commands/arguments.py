"""Arguments that several commands share, and the functions that add commands and groups to the parser."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import import_module
from typing import TypeVar

from ..client import Client
from ..options import DEFAULT_URL, MAX_WAIT
from .reporting import Reporter

__all__ = [
    "Command",
    "Commands",
    "Help",
    "Parser",
    "add_data",
    "add_form",
    "add_headers",
    "add_json",
    "age",
    "chunk_size",
    "connection_options",
    "count",
    "header",
    "payload_size",
    "sequence",
    "seconds",
    "whole",
    "with_count",
]

Command = Callable[[Client, argparse.Namespace, Reporter], int]
_N = TypeVar("_N", int, float)


class Help(argparse.RawDescriptionHelpFormatter):
    """A help formatter whose usage line shows CONNECTION instead of the dozen connection options."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        listed = list(actions)
        shown = [each for each in listed if not (each.option_strings and each.dest in _dests())]
        if len(shown) < len(listed):
            at = next((n for n, each in enumerate(shown) if not each.option_strings), len(shown))
            shown.insert(at, argparse.Action([], "connection", nargs="?", metavar="CONNECTION"))
        super().add_usage(usage, shown, groups, prefix)


class Parser(argparse.ArgumentParser):
    """The parser of a command or of a group. The commands of a group are added only when the group is used,
    since their modules take long to import."""

    group = ""

    def parse_known_args(  # type: ignore[override]  # the overload that argparse itself calls
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        group, self.group = self.group, ""
        if group:
            import_module(f".{group}", __package__).add_commands(Commands(self))
        return super().parse_known_args(args, namespace)


class Commands:
    """Adds commands to a parser: a call adds a command and returns the command's parser."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._commands: argparse._SubParsersAction[Parser] = parser.add_subparsers(
            required=True, metavar="COMMAND", parser_class=Parser
        )

    def __call__(
        self, name: str, run: Command, text: str, timeout: float | None = 5.0, listens: bool = False
    ) -> argparse.ArgumentParser:
        """Adds a command that calls `run`. One that `listens` reconnects when the connection is lost."""
        added = self._add(name, text)
        meaning = (
            "exit when no message arrives for SECONDS"
            if listens
            else f"time limit of each operation ({timeout:g})"
        )
        added.add_argument(
            "--timeout", type=seconds, default=timeout, metavar="SECONDS", help=meaning
        )
        added.set_defaults(command=run, listens=listens, header=[], form="text")
        return added

    def group(self, name: str, text: str) -> None:
        """Adds a group. The function `add_commands` of the module `name` in this folder adds its commands."""
        self._add(name, text).group = name

    def _add(self, name: str, text: str) -> Parser:
        return self._commands.add_parser(
            name,
            parents=[connection_options(argparse.SUPPRESS)],
            help=text,
            description=text[0].upper() + text[1:] + ".",
            formatter_class=Help,
            allow_abbrev=False,
        )


def connection_options(default: str | None) -> Parser:
    """Returns a parser with the connection options. Each parser needs its own, since argparse stores
    defaults in the option objects."""
    shared = Parser(add_help=False, argument_default=default)
    group = shared.add_argument_group("connection")

    def add(flags: str, metavar: str, text: str) -> None:
        group.add_argument(*flags.split(), metavar=metavar, help=text)

    add("-s --server", "URL", f"server, or several separated by commas (NATS_URL; {DEFAULT_URL})")
    add("--http-proxy", "URL", "connect through this HTTP proxy (NATS_HTTP_PROXY)")
    add("--user", "NAME", "user name (NATS_USER)")
    add(
        "--password",
        "PASSWORD",
        "password; other users see it in the list of processes, so prefer NATS_PASSWORD",
    )
    add(
        "--token",
        "TOKEN",
        "token; other users see it in the list of processes, so prefer NATS_TOKEN",
    )
    add("--creds", "FILE", "credentials file with JWT and seed (NATS_CREDS)")
    add("--nkey", "FILE", "file with an nkey seed (NATS_NKEY)")
    switch: bool | str = argparse.SUPPRESS if default else False
    group.add_argument("--tls", action="store_true", default=switch, help="demand TLS")
    group.add_argument(
        "--tls-first",
        action="store_true",
        default=switch,
        help="start TLS before the server sends INFO",
    )
    add("--tls-ca", "FILE", "CA certificates, instead of the system's (NATS_CA)")
    add("--tls-cert", "FILE", "client certificate (NATS_CERT)")
    add(
        "--tls-key",
        "FILE",
        "key of the client certificate (NATS_KEY; password in NATS_KEY_PASSWORD)",
    )
    return shared


@cache
def _dests() -> frozenset[str]:
    """The names under which the parser keeps connection options."""
    return frozenset(each.dest for each in connection_options(None)._actions)


def add_data(added: argparse.ArgumentParser, default: str | None, text: str) -> None:
    """Adds a payload and headers."""
    added.add_argument("data", nargs="?", default=default, help=text)
    add_headers(added)


def add_headers(added: argparse.ArgumentParser) -> None:
    """Adds `--header`."""
    added.add_argument(
        "-H",
        "--header",
        type=header,
        action="append",
        metavar="NAME:VALUE",
        help="a header; repeat it for more",
    )


def with_count(
    added: argparse.ArgumentParser, text: str, default: int | None = None
) -> argparse.ArgumentParser:
    """Adds `--count`."""
    added.add_argument("--count", type=count, default=default, metavar="N", help=text)
    return added


def add_json(added: argparse.ArgumentParser) -> None:
    """Adds `--json`."""
    added.add_argument("--json", action="store_true", help="print one JSON object per line")


def add_form(added: argparse.ArgumentParser) -> None:
    """Adds `--json` and `--raw`."""
    forms = added.add_mutually_exclusive_group()
    for form, text in (
        ("json", "print one JSON object per line"),
        ("raw", "print only payloads, each with a line feed"),
    ):
        forms.add_argument(f"--{form}", action="store_const", dest="form", const=form, help=text)


def header(text: str) -> tuple[str, str]:
    """Returns the name and the value of a header."""
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError("a header has the form NAME:VALUE")
    return name, value.strip()


def seconds(text: str) -> float:
    """Seconds, above 0."""
    number = _number(float, text)
    if not 0 < number < MAX_WAIT:
        raise argparse.ArgumentTypeError(f"must be above 0 and below {MAX_WAIT:.0f}")
    return number


def age(text: str) -> float:
    """Seconds before now, above 0; a server counts at most 292 years of nanoseconds."""
    number = _number(float, text)
    if not 0 < number < 2**63 / 1e9:
        raise argparse.ArgumentTypeError("must be above 0 and below 292 years")
    return number


def count(text: str) -> int:
    """A whole number, above 0."""
    return _within(1, 1 << 63, text)


def whole(text: str) -> int:
    """A whole number, 0 or above."""
    return _within(0, 1 << 63, text)


def payload_size(text: str) -> int:
    """The bytes of a payload, 0 or above; the protocol has no longer ones."""
    return _within(0, 1 << 31, text)


def chunk_size(text: str) -> int:
    """The bytes of a payload, above 0."""
    return _within(1, 1 << 31, text)


def sequence(text: str) -> int:
    """The sequence of a stored message."""
    return _within(1, 1 << 64, text)


def _within(least: int, end: int, text: str) -> int:
    number = _number(int, text)
    if number < least:
        raise argparse.ArgumentTypeError(f"must be at least {least}")
    if number >= end:
        raise argparse.ArgumentTypeError(f"must be below {end}")
    return number


def _number(kind: Callable[[str], _N], text: str) -> _N:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text}") from None
