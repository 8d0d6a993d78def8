"""`natsync sub --stream`: prints the stored messages of a stream in order, and then new ones."""

from __future__ import annotations

import argparse
from datetime import datetime

from ..client import Client
from ..errors import ConnectionReconnectingError, Error, NextMsgTimeoutError, OptionError
from ..message import to_wire
from ..protocol import check_subscribe
from .output import Shown, show
from .reporting import Reporter

__all__ = ["STARTS", "start", "sub_stream"]

STARTS = ("all", "new", "last", "last-per-subject")


def start(text: str) -> str | int | datetime:
    """Reads where to begin: one of STARTS, a sequence, or a time (ISO 8601; local if it has no zone)."""
    if text in STARTS:
        return text
    if text.isascii() and text.isdigit() and len(text) <= 20 and 0 < int(text) < 1 << 64:
        return int(text)
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone()
    except ValueError:
        known = ", ".join(STARTS)
        raise argparse.ArgumentTypeError(f"not {known}, a sequence, or a time: {text}") from None


def sub_stream(nc: Client, args: argparse.Namespace, reporter: Reporter) -> bool:
    """Prints `--count` messages, or all until none arrives for `--timeout` seconds. Returns False if fewer
    than `--count` arrive."""
    from ..jetstream import ConsumerConfig, InvalidStreamNameError  # imported late: it takes long
    from ..jetstream.names import check_stream_name

    if args.queue:
        raise OptionError("--queue", "excludes --stream")
    try:
        check_stream_name(args.stream)
    except InvalidStreamNameError as error:
        raise OptionError("stream", str(error)) from None
    check_subscribe(to_wire(args.subject))
    begin = args.start
    config = ConsumerConfig(filter_subject=args.subject)
    if isinstance(begin, int):
        config = ConsumerConfig(
            filter_subject=args.subject, deliver_policy="by_start_sequence", opt_start_seq=begin
        )
    elif isinstance(begin, datetime):
        config = ConsumerConfig(
            filter_subject=args.subject, deliver_policy="by_start_time", opt_start_time=begin
        )
    elif begin not in (None, "all"):
        policy = begin.replace("-", "_")
        config = ConsumerConfig(filter_subject=args.subject, deliver_policy=policy)

    def tell(error: Error) -> None:
        if not isinstance(
            error, ConnectionReconnectingError
        ):  # the reporter has already written it
            reporter.tell(error)

    left: int | None = args.count
    with nc.jetstream().ordered_consumer(args.stream, config) as ordered:
        messages = ordered.messages(on_error=tell)
        try:
            while left is None or left > 0:
                msg = messages.next(args.timeout)
                found = msg.metadata
                more: dict[str, Shown] = {"stream": found.stream, "seq": found.stream_seq}
                more["time"] = found.timestamp.isoformat()
                show(msg, args.form, flushes=not found.num_pending, more=more)
                left = None if left is None else left - 1
        except NextMsgTimeoutError as error:
            if left is not None:
                reporter.error(error)
                return False
    return True
