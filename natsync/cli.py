"""The command line: `natsync pub | sub | request | reply | rtt`.

Exit status: 0 done; 1 it failed (no connection, no responders, no reply, fewer messages than `--count`);
2 wrong usage; 130 interrupted. An error is one line on stderr, without a traceback or a secret.
"""

from __future__ import annotations

import argparse
import base64
import io
import json
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from . import __version__
from .client import Client
from .connecting import connect
from .errors import Error, NextMsgTimeoutError, OptionError, PermissionsViolationError
from .message import Msg
from .options import DEFAULT_URL
from .protocol import ProtocolError

__all__ = ["main"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130
CONNECT_TIMEOUT = 5.0

_N = TypeVar("_N", int, float)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status; wrong usage raises SystemExit(2)."""
    args = _parser().parse_args(argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # what a terminal's encoding lacks
    try:
        return _run(args)
    except (OptionError, ProtocolError) as error:  # the latter: a subject that cannot be sent
        return _complain(error, USAGE)
    except Error as error:
        return _complain(error, FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # nobody reads on
        _silence()
        return 0
    except OSError as error:  # standard input or output: a full disk
        _silence()
        return _complain(error, FAILED)


def _run(args: argparse.Namespace) -> int:
    command: Callable[[Client, argparse.Namespace], int] = args.command
    timeout = args.timeout or CONNECT_TIMEOUT
    reported: list[Error] = []  # they are logged, and so on stderr, already
    with connect(
        args.server,
        name="natsync-cli",
        timeout=timeout,
        reconnect=False,
        on_error=reported.append,
    ) as nc:
        status = command(nc, args)
    if sys.stdout:
        sys.stdout.flush()
    refused = any(isinstance(error, PermissionsViolationError) for error in reported)
    return status or (FAILED if refused else 0)


def _silence() -> None:
    """Python would complain when it flushes what is left at exit."""
    if sys.stdout:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _complain(error: Exception, status: int) -> int:
    print(f"natsync: {error}", file=sys.stderr)
    return status


def _pub(nc: Client, args: argparse.Namespace) -> int:
    data = _data(args.data)
    for _ in range(args.count or 1):
        nc.publish(args.subject, data, reply=args.reply or None, headers=_headers(args))
    nc.flush(args.timeout)
    return 0


def _sub(nc: Client, args: argparse.Namespace) -> int:
    return _listen(nc, args, lambda msg: _show(msg, args.json))


def _reply(nc: Client, args: argparse.Namespace) -> int:
    data = None if args.data is None else _data(args.data)

    def answer(msg: Msg) -> None:
        _show(msg, args.json)
        if msg.reply:
            msg.respond(msg.data if data is None else data, headers=_headers(args))

    return _listen(nc, args, answer)


def _listen(nc: Client, args: argparse.Namespace, act: Callable[[Msg], None]) -> int:
    """Acts on `--count` messages, or on all until none has come for `--timeout` seconds."""
    with nc.subscribe(args.subject, queue=args.queue, max_msgs=args.count) as sub:
        nc.flush()
        try:
            while args.count is None or sub.delivered < args.count:
                act(sub.next_msg(args.timeout))
        except NextMsgTimeoutError as error:
            return 0 if args.count is None else _complain(error, FAILED)
    return 0


def _request(nc: Client, args: argparse.Namespace) -> int:
    data = _data(args.data)
    for _ in range(args.count or 1):
        msg = nc.request(args.subject, data, timeout=args.timeout, headers=_headers(args))
        _show(msg, args.json)
    return 0


def _rtt(nc: Client, args: argparse.Namespace) -> int:
    for _ in range(args.count or 1):
        seconds = nc.rtt(args.timeout)
        print(
            json.dumps({"rtt_ns": int(seconds * 1e9)}) if args.json else f"{seconds * 1e3:.3f} ms"
        )
    return 0


def _data(given: str) -> bytes:
    if given != "-":
        return given.encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read() if sys.stdin else b""


def _headers(args: argparse.Namespace) -> dict[str, list[str]] | None:
    headers: dict[str, list[str]] = {}
    for name, value in args.header:
        headers.setdefault(name, []).append(value)
    return headers or None


def _show(msg: Msg, as_json: bool) -> None:
    """Invalid UTF-8 is shown as \\xNN; in JSON, data that is no UTF-8 is `data_base64`."""
    shown: dict[str, object] = {"subject": _readable(msg.subject)}
    if msg.reply:
        shown["reply"] = _readable(msg.reply)
    if headers := _readable_headers(msg):
        shown["headers"] = headers
    try:
        shown["data"] = msg.data.decode()
    except UnicodeDecodeError:
        shown["data_base64"] = base64.b64encode(msg.data).decode()
    if as_json:
        print(json.dumps(shown), flush=True)
        return
    print(f"[{shown['subject']}] {msg.data.decode('utf-8', 'backslashreplace')}", flush=True)


def _readable_headers(msg: Msg) -> dict[str, list[str]]:
    try:
        fields = msg.headers.to_dict().items()
    except ProtocolError:  # the message is good without them
        return {}
    return {_readable(name): [_readable(value) for value in values] for name, values in fields}


def _readable(text: str) -> str:
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name:
        raise argparse.ArgumentTypeError("a header is NAME:VALUE")
    return name, value.strip()


def _seconds(text: str) -> float:
    return _number(float, text)


def _count(text: str) -> int:
    return _number(int, text)


def _number(kind: Callable[[str], _N], text: str) -> _N:
    try:
        number = kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text}") from None
    if not 0 < number < threading.TIMEOUT_MAX:
        raise argparse.ArgumentTypeError("must be above 0")
    return number


def _shared(timeout: float | None) -> argparse.ArgumentParser:
    """The options of all commands. For each anew: argparse keeps a default with the option."""
    shared = argparse.ArgumentParser(add_help=False)
    url = os.environ.get("NATS_URL") or DEFAULT_URL
    shared.add_argument(
        "-s", "--server", default=url, metavar="URL", help="or several with commas (NATS_URL)"
    )
    shared.add_argument("--json", action="store_true", help="print one JSON object a line")
    shared.add_argument(
        "--timeout", type=_seconds, default=timeout, metavar="SECONDS", help="for each wait"
    )
    shared.add_argument("--count", type=_count, metavar="N", help="so many times, or messages")
    return shared


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="natsync", description="Talk to a NATS server.")
    parser.add_argument("--version", action="version", version=f"natsync {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(
        name: str,
        run: Callable[[Client, argparse.Namespace], int],
        text: str,
        timeout: float | None,
    ) -> argparse.ArgumentParser:
        added = commands.add_parser(name, parents=[_shared(timeout)], help=text, description=text)
        added.set_defaults(command=run, header=[])
        return added

    pub = command("pub", _pub, "publish a message", 5.0)
    sub = command("sub", _sub, "print messages as they come", None)
    request = command("request", _request, "send a request and print the reply", 5.0)
    reply = command("reply", _reply, "answer requests, with DATA or what they brought", None)
    command("rtt", _rtt, "measure the round trip to the server", 5.0)
    for added in (pub, sub, request, reply):
        added.add_argument("subject")
    for added, default in ((pub, ""), (request, ""), (reply, None)):
        added.add_argument("data", nargs="?", default=default, help="- reads standard input")
        added.add_argument("-H", "--header", type=_header, action="append", metavar="NAME:VALUE")
    pub.add_argument("--reply", metavar="SUBJECT", help="where replies should go")
    for added in (sub, reply):
        added.add_argument(
            "--queue", default="", help="share the messages with others of that group"
        )
    return parser
