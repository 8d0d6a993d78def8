"""`natsync consumer`: lists, shows, creates, reads, changes, copies, pauses, deletes JetStream consumers."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from .._json import format_time
from ..client import Client
from ..jetstream import Consumer, ConsumerConfig
from .arguments import Commands, add_form, with_count
from .config_options import (
    add_config_options,
    consumer_name,
    duration,
    read_config,
    stream_name,
    time,
)
from .jetstream_options import DONE, add_force, add_jetstream, jetstream, need_force
from .jetstream_output import print_fields, print_info, print_object
from .output import Shown, print_line, print_table, show
from .reporting import Reporter

__all__ = ["add_commands"]


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    listing = add_jetstream(command("ls", ls, "list the consumers of a stream"))
    listing.add_argument("stream", type=stream_name)
    listing.add_argument("--names", action="store_true", help="print only names")
    for name, run, text in (
        ("info", info, "show the configuration and state of a consumer"),
        ("add", add, "create a durable consumer"),
        ("next", take_next, "print the next messages of a consumer and acknowledge them"),
        ("edit", edit, "change a consumer; settings without an option stay as they are"),
        ("copy", copy, "create a consumer with the configuration of another one"),
        ("rm", rm, "delete a consumer"),
        ("pause", pause, "stop the deliveries of a consumer for a time"),
        ("resume", resume, "end the pause of a consumer"),
        ("step-down", step_down, "make the leader of a consumer hand over"),
    ):
        added = add_jetstream(command(name, run, text))
        added.add_argument("stream", type=stream_name)
        added.add_argument("consumer", type=consumer_name)
        if name == "copy":
            added.add_argument("new", type=consumer_name, help="the name of the copy")
        if name in ("add", "edit", "copy"):
            add_config_options(added, ConsumerConfig)
        elif name == "next":
            with_count(added, "print N messages (1)", 1)
            added.add_argument(
                "--no-ack", action="store_true", help="acknowledge none: they are delivered again"
            )
            add_form(added)
        elif name == "pause":
            added.add_argument("until", type=_until, help="a time, or a duration: 90s, 1h30m")
        elif name == "step-down":
            added.add_argument(
                "--preferred", metavar="SERVER", default="", help="the server that should lead"
            )
        elif name == "rm":
            add_force(added)


def _until(text: str) -> datetime:
    try:
        return datetime.now(timezone.utc) + timedelta(seconds=duration(text))
    except (argparse.ArgumentTypeError, OverflowError):
        return time(text)


def ls(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists the consumers of a stream."""
    stream = jetstream(nc, args).stream(args.stream)
    if args.names:
        for name in stream.consumer_names():
            print_line(name)
    elif args.json:
        for info in stream.consumers():
            print_info(info)
    else:
        rows = [
            (info.name, info.num_pending, info.num_ack_pending, info.num_redelivered)
            + (info.config.filter_subject or ", ".join(info.config.filter_subjects),)
            for info in stream.consumers()
        ]
        print_table(("NAME", "PENDING", "ACK PENDING", "REDELIVERED", "FILTER"), rows)
    return DONE


def info(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows a consumer."""
    return _show(jetstream(nc, args).consumer(args.stream, args.consumer), args)


def add(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a consumer."""
    config = read_config(args, ConsumerConfig(durable_name=args.consumer))
    return _show(jetstream(nc, args).stream(args.stream).create_consumer(config), args)


def take_next(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints the next messages, and acknowledges each after it is printed."""
    consumer = jetstream(nc, args).consumer(args.stream, args.consumer)
    acknowledges = not args.no_ack and consumer.cached_info.config.ack_policy != "none"
    for _ in range(args.count):
        msg = consumer.next(args.timeout)
        found = msg.metadata
        more: dict[str, Shown] = {
            "stream": found.stream,
            "seq": found.stream_seq,
            "time": format_time(found.timestamp),
            "consumer": found.consumer,
            "deliveries": found.num_delivered,
            "pending": found.num_pending,
        }
        show(msg, args.form, more=more)
        if acknowledges:
            msg.ack_sync(args.timeout)
    return DONE


def edit(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Changes a consumer."""
    stream = jetstream(nc, args).stream(args.stream)
    config = read_config(args, stream.consumer(args.consumer).cached_info.config)
    return _show(stream.update_consumer(config), args)


def copy(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a consumer with the configuration of another one."""
    stream = jetstream(nc, args).stream(args.stream)
    config = stream.consumer(args.consumer).cached_info.config
    named = replace(config, name=args.new, durable_name=args.new if config.durable_name else "")
    return _show(stream.create_consumer(read_config(args, named)), args)


def rm(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a consumer."""
    need_force(args, "deleting a consumer")
    jetstream(nc, args).stream(args.stream).delete_consumer(args.consumer)
    if args.json:
        print_fields(stream=args.stream, deleted=args.consumer)
    return DONE


def pause(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Pauses a consumer."""
    stream = jetstream(nc, args).stream(args.stream)
    state = stream.pause_consumer(args.consumer, args.until)
    if args.json:
        print_info(state)
    else:
        print_object(state)
    return DONE


def resume(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Ends a pause."""
    state = jetstream(nc, args).stream(args.stream).resume_consumer(args.consumer)
    if args.json:
        print_info(state)
    return DONE


def step_down(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Makes the leader of a consumer hand over."""
    stream = jetstream(nc, args).stream(args.stream)
    stream.step_down_consumer(args.consumer, args.preferred)
    if args.json:
        print_fields(stream=args.stream, consumer=args.consumer)
    return DONE


def _show(consumer: Consumer, args: argparse.Namespace) -> int:
    if args.json:
        print_info(consumer.cached_info)
    else:
        print_object(consumer.cached_info, zeros=True)
    return DONE
