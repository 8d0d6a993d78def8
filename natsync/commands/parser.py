"""Arguments: every command with its options, and what they must be."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import TypeVar

from ..client import Client
from ..options import DEFAULT_URL, MAX_WAIT
from .bench import bench
from .pubsub import pub, reply, request, rtt, sub
from .reporting import ENVIRONMENT, Reporter

__all__ = ["make_parser"]

BENCH_COUNT = 100_000
BENCH_SIZE = 128
BENCH_SUBJECT = "natsync.bench"
EXIT_STATUS = """exit status:
  0    done
  1    failed: no connection, refused by the server, no responders, no reply, messages missing or dropped
  2    wrong usage
  130  interrupted

environment: """ + ", ".join(ENVIRONMENT.values())

Command = Callable[[Client, argparse.Namespace, Reporter], int]
_N = TypeVar("_N", int, float)


def make_parser(version: str) -> argparse.ArgumentParser:
    """The whole command line. Options of the connection may stand on either side of the command."""
    parser = argparse.ArgumentParser(
        prog="natsync",
        description="Talk to a NATS server.",
        epilog=EXIT_STATUS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        parents=[_connection(None)],
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"natsync {version}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str, run: Command, text: str, timeout: float | None = 5.0, listens: bool = False
    ) -> argparse.ArgumentParser:
        added: argparse.ArgumentParser = commands.add_parser(
            name,
            parents=[_connection(argparse.SUPPRESS)],
            help=text,
            description=text,
            allow_abbrev=False,
        )
        told = "end when no message came for so long" if listens else "for each wait"
        added.add_argument(
            "--timeout", type=_seconds, default=timeout, metavar="SECONDS", help=told
        )
        added.set_defaults(command=run, listens=listens, header=[], form="text")
        return added

    _add_talking(command)
    _add_listening(command)
    _add_json(_with_count(command("rtt", rtt, "measure the round trip to the server"), "so many"))
    _add_bench(command)
    return parser


def _connection(default: str | None) -> argparse.ArgumentParser:
    """The options of every command, for each parser anew: argparse keeps a default with the option."""
    shared = argparse.ArgumentParser(add_help=False, argument_default=default)
    group = shared.add_argument_group("connection")

    def add(flags: str, metavar: str, text: str) -> None:
        group.add_argument(*flags.split(), metavar=metavar, help=text)

    add("-s --server", "URL", f"or several with commas (NATS_URL; {DEFAULT_URL})")
    add("--user", "NAME", "(NATS_USER)")
    add("--password", "PASSWORD", "seen by all who list processes: rather NATS_PASSWORD")
    add("--token", "TOKEN", "seen by all who list processes: rather NATS_TOKEN")
    add("--creds", "FILE", "credentials, JWT and seed (NATS_CREDS)")
    add("--nkey", "FILE", "a seed (NATS_NKEY)")
    switch: bool | str = argparse.SUPPRESS if default else False
    group.add_argument("--tls", action="store_true", default=switch, help="demand TLS")
    group.add_argument(
        "--tls-first", action="store_true", default=switch, help="TLS before anything is said"
    )
    add("--tls-ca", "FILE", "authorities, instead of the system's (NATS_CA)")
    add("--tls-cert", "FILE", "client certificate (NATS_CERT)")
    add("--tls-key", "FILE", "its key (NATS_KEY; NATS_KEY_PASSWORD opens it)")
    return shared


def _add_talking(command: Callable[..., argparse.ArgumentParser]) -> None:
    publisher = command("pub", pub, "publish, and return when the server has taken it")
    requester = command("request", request, "send a request and print the reply, or several")
    for added in (publisher, requester):
        added.add_argument("subject")
        _add_data(added, "", "- reads standard input")
        _with_count(added, "so many times")
    publisher.add_argument("--reply", metavar="SUBJECT", help="where replies should go")
    _add_json(publisher)
    requester.add_argument(
        "--replies", type=_replies, metavar="N", help="wait for so many replies; 0: all that come"
    )
    requester.add_argument(
        "--stall", type=_seconds, metavar="SECONDS", help="with --replies: and no longer for each"
    )
    _add_form(requester)


def _add_listening(command: Callable[..., argparse.ArgumentParser]) -> None:
    subscriber = command("sub", sub, "print messages as they come", None, True)
    replier = command("reply", reply, "print requests and answer them", None, True)
    for added in (subscriber, replier):
        added.add_argument("subject")
        added.add_argument(
            "--queue", default="", metavar="GROUP", help="share the messages with others of it"
        )
        _with_count(added, "end after so many")
        _add_form(added)
    _add_data(replier, None, "the answer; without it, what the request brought")


def _add_bench(command: Callable[..., argparse.ArgumentParser]) -> None:
    added = command(
        "bench",
        bench,
        "measure: pub, sub (another one publishes), request (`natsync reply` answers)",
    )
    added.add_argument("what", choices=("pub", "sub", "request"))
    added.add_argument("subject", nargs="?", default=BENCH_SUBJECT)
    _with_count(added, "messages", BENCH_COUNT)
    added.add_argument("--size", type=_size, default=BENCH_SIZE, metavar="BYTES", help="of each")
    added.add_argument(
        "--at-once", type=_count, default=1, metavar="N", help="requests under way at a time"
    )
    _add_json(added)


def _add_data(added: argparse.ArgumentParser, default: str | None, text: str) -> None:
    added.add_argument("data", nargs="?", default=default, help=text)
    added.add_argument(
        "-H", "--header", type=_header, action="append", metavar="NAME:VALUE", help="repeatable"
    )


def _with_count(
    added: argparse.ArgumentParser, text: str, default: int | None = None
) -> argparse.ArgumentParser:
    added.add_argument("--count", type=_count, default=default, metavar="N", help=text)
    return added


def _add_json(added: argparse.ArgumentParser) -> None:
    added.add_argument("--json", action="store_true", help="print one JSON object a line")


def _add_form(added: argparse.ArgumentParser) -> None:
    forms = added.add_mutually_exclusive_group()
    for form, text in (
        ("json", "print one JSON object a line"),
        ("raw", "print the payload alone, and a line feed"),
    ):
        forms.add_argument(f"--{form}", action="store_const", dest="form", const=form, help=text)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError("a header is NAME:VALUE")
    return name, value.strip()


def _seconds(text: str) -> float:
    return _number(float, text)


def _count(text: str) -> int:
    return _number(int, text)


def _replies(text: str) -> int:
    return 0 if text == "0" else _number(int, text)


_size = _replies


def _number(kind: Callable[[str], _N], text: str) -> _N:
    try:
        number = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text}") from None
    if not 0 < number < MAX_WAIT:
        raise argparse.ArgumentTypeError(f"must be above 0 and below {MAX_WAIT:.0f}")
    return number
