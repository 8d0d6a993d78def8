"""`natsync streaming`: publishes to and subscribes to channels of a NATS Streaming server."""

from __future__ import annotations

import argparse
import os
from datetime import datetime

from .. import streaming
from ..client import Client
from ..errors import NextMsgTimeoutError, OptionError
from ..message import Msg
from ..streaming import StartPosition, StreamingConnection, Subscription
from ..streaming.session import check_channel
from .arguments import Commands, add_form, add_json, age, count, seconds, sequence, with_count
from .output import Shown, print_json, show
from .pubsub import DONE, FAILED, read_data
from .reporting import Reporter

__all__ = ["add_commands"]

CLUSTER = "test-cluster"
_STARTS = {
    "new": StartPosition.NEW_ONLY,
    "last": StartPosition.LAST_RECEIVED,
    "first": StartPosition.FIRST,
}


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    publisher = command("pub", pub, "publish a message and wait until the server has stored it")
    subscriber = command("sub", sub, "print messages as they arrive", None, True)
    for added in (publisher, subscriber):
        added.add_argument("channel", type=_channel)
        added.add_argument(
            "--cluster", metavar="ID", default=CLUSTER, help=f"the id of the cluster ({CLUSTER})"
        )
        added.add_argument(
            "--client",
            metavar="ID",
            help="the client's id, which only one client may use at a time",
        )
    publisher.add_argument(
        "data", nargs="?", default="", help="the payload; - reads standard input"
    )
    with_count(publisher, "publish it N times (1)")
    add_json(publisher)
    _add_subscription(subscriber)


def _add_subscription(added: argparse.ArgumentParser) -> None:
    added.add_argument(
        "--queue",
        default="",
        metavar="GROUP",
        help="share the messages among the members of this group",
    )
    added.add_argument(
        "--durable",
        default="",
        metavar="NAME",
        help="continue where this durable subscription ended; needs --client",
    )
    added.add_argument(
        "--unsubscribe",
        action="store_true",
        help="at the end, let the server forget the durable subscription",
    )
    start = added.add_mutually_exclusive_group()
    start.add_argument("--start", choices=_STARTS, help="where to begin (new)")
    start.add_argument(
        "--start-sequence", type=sequence, metavar="N", help="begin with this sequence"
    )
    start.add_argument(
        "--start-time", type=_time, metavar="TIME", help="begin at this time (ISO 8601)"
    )
    start.add_argument(
        "--since",
        type=age,
        metavar="SECONDS",
        help="begin with what was stored in the last SECONDS",
    )
    added.add_argument(
        "--max-in-flight",
        type=count,
        default=1024,
        metavar="N",
        help="messages without an ack that the server may send (1024)",
    )
    added.add_argument(
        "--ack-wait",
        type=seconds,
        default=30.0,
        metavar="SECONDS",
        help="when the server sends a message without an ack again (30)",
    )
    with_count(added, "exit after N messages")
    add_form(added)


def pub(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Publishes `--count` messages, many of them in flight at once."""
    data, number = read_data(args.data), args.count or 1
    with _connect(nc, args) as sc:
        sent = [sc.publish_async(args.channel, data) for _ in range(number)]
        for each in sent:
            each.result()
    if args.json:
        print_json({"channel": args.channel, "published": number, "data_bytes": len(data)})
    return DONE


def sub(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints `--count` messages, or all until none arrives for `--timeout` seconds. Acknowledges each after
    it is printed."""
    if args.durable and args.client is None and not args.queue:
        raise OptionError("client_id", "is needed: a durable belongs to a client")
    with _connect(nc, args) as sc:
        subscription = sc.subscribe(
            args.channel,
            queue=args.queue,
            durable=args.durable,
            start=_STARTS.get(args.start),
            start_sequence=args.start_sequence,
            start_time=args.start_time,
            start_time_delta=args.since,
            max_in_flight=args.max_in_flight,
            ack_wait=args.ack_wait,
            manual_acks=True,
        )
        status = _listen(subscription, args, reporter)
        if args.unsubscribe:
            subscription.unsubscribe()
    return status


def _listen(subscription: Subscription, args: argparse.Namespace, reporter: Reporter) -> int:
    printed = 0
    while args.count is None or printed < args.count:
        try:
            msg = subscription.next_msg(args.timeout)
        except NextMsgTimeoutError as error:
            if args.count is None:
                return DONE
            reporter.error(error)
            return FAILED
        printed += 1
        place: dict[str, Shown] = {"sequence": msg.sequence, "time": msg.time.isoformat()}
        if msg.redelivered:
            place["redelivery_count"] = msg.redelivery_count
        core = Msg(msg.channel, msg.data, reply=msg.reply)
        show(core, args.form, not subscription.pending_msgs, place)
        msg.ack()
    return DONE


def _connect(nc: Client, args: argparse.Namespace) -> StreamingConnection:
    client_id = f"natsync-{os.getpid()}" if args.client is None else args.client
    return streaming.connect(args.cluster, client_id, nc=nc)


def _channel(text: str) -> str:
    try:
        check_channel(text)
    except streaming.InvalidChannelError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _time(text: str) -> datetime:
    """A time; local time if it has no zone."""
    try:
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a time as in 2024-05-01T12:00: {text}") from None
