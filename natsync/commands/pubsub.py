"""The commands `pub`, `request`, `rtt`, `sub` and `reply`.

Each takes the client, the parsed arguments and the reporter of errors, and returns the exit status.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from ..client import Client
from ..errors import Error, NextMsgTimeoutError, OptionError
from ..message import Msg
from ..micro import raise_for_error
from .output import flush, print_json, print_line, show
from .reporting import Reporter
from .stream_sub import sub_stream

__all__ = ["DONE", "FAILED", "pub", "read_data", "reply", "request", "rtt", "sub"]

DONE, FAILED = 0, 1


def pub(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Publishes, and waits until the server has processed all messages. A refusal of any of them makes the
    last one raise."""
    data, headers = read_data(args.data), _headers(args)
    count = args.count or 1
    for _ in range(count - 1):
        nc.publish(args.subject, data, reply=args.reply or None, headers=headers)
    nc.publish_confirmed(
        args.subject, data, reply=args.reply or None, headers=headers, timeout=args.timeout
    )
    if args.json:
        print_json({"subject": args.subject, "published": count, "data_bytes": len(data)})
    return DONE


def request(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Sends `--count` requests, and prints one reply to each, or up to `--replies`. An error of a service is
    a failure."""
    if args.stall and args.replies is None:
        raise OptionError("stall", "needs --replies")
    data, headers = read_data(args.data), _headers(args)
    for _ in range(args.count or 1):
        if args.replies is None:
            msg = nc.request(args.subject, data, timeout=args.timeout, headers=headers)
            _show_reply(msg, args, reporter)
            continue
        came = 0
        for msg in nc.request_many(
            args.subject,
            data,
            timeout=args.timeout,
            max_msgs=args.replies or None,
            stall=args.stall,
            headers=headers,
        ):
            came += 1
            _show_reply(msg, args, reporter)
        if came < max(1, args.replies):
            wanted = f" of {args.replies}" if args.replies else ""
            stalled = f", or {args.stall:g} s after the last one" if args.stall else ""
            reporter.tell(
                f"{came}{wanted} replies on {args.subject} within {args.timeout:g} s{stalled}"
            )
            return FAILED
    return FAILED if reporter.failed else DONE


def _show_reply(msg: Msg, args: argparse.Namespace, reporter: Reporter) -> None:
    """Prints a reply, and reports an error that a service put into its headers: most have no body."""
    show(msg, args.form)
    try:
        raise_for_error(msg)
    except Error as error:  # a service's error, or headers that cannot be read
        reporter.error(error)


def rtt(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints `--count` round trips."""
    for _ in range(args.count or 1):
        seconds = nc.rtt(args.timeout)
        if args.json:
            print_json({"rtt_ns": int(seconds * 1e9)})
        else:
            print_line(f"{seconds * 1e3:.3f} ms")
        flush()
    return DONE


def sub(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints messages: those that are published from now on, or those of a stream."""
    if args.stream is not None:
        return DONE if sub_stream(nc, args, reporter) and not reporter.failed else FAILED
    if args.start:
        raise OptionError("start", "needs --stream")
    return _listen(nc, args, reporter, lambda msg: None)


def reply(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints requests and answers each; goes on after one that cannot be answered."""
    data, headers = None if args.data is None else read_data(args.data), _headers(args)

    def answer(msg: Msg) -> None:
        try:
            if msg.reply:
                msg.respond(msg.data if data is None else data, headers=headers)
        except Error as error:
            reporter.error(error)

    return _listen(nc, args, reporter, answer)


def _listen(
    nc: Client, args: argparse.Namespace, reporter: Reporter, act: Callable[[Msg], None]
) -> int:
    """Prints messages and calls `act` for each: `--count` of them, or until none arrives for `--timeout`
    seconds."""
    count: int | None = args.count
    with nc.subscribe(args.subject, queue=args.queue, max_msgs=count) as sub:
        nc.flush()
        try:
            while count is None or sub.delivered < count:
                msg = sub.next_msg(args.timeout)
                show(msg, args.form, flushes=not sub.pending_msgs)
                act(msg)
        except NextMsgTimeoutError as error:
            if count is not None:
                reporter.error(error)
                return FAILED
        finally:
            lost = (
                sub.dropped
            )  # before the subscription ends, which drops the pending messages, too
            if lost:
                reporter.tell(f"{lost} of {sub.received} messages dropped: they came too fast")
    return FAILED if lost or reporter.failed else DONE


def read_data(argument: str) -> bytes:
    """Returns the payload that the command line gives: the bytes of `argument`, or standard input for `-`."""
    if argument != "-":
        return argument.encode("utf-8", "surrogateescape")
    return sys.stdin.buffer.read() if sys.stdin else b""


def _headers(args: argparse.Namespace) -> dict[str, list[str]] | None:
    headers: dict[str, list[str]] = {}
    for name, value in args.header:
        headers.setdefault(name, []).append(value)
    return headers or None
