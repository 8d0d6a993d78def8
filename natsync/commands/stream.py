"""`natsync stream`: lists, shows, creates, changes, purges, reads, copies and deletes JetStream streams."""

from __future__ import annotations

import argparse
from dataclasses import replace

from ..client import Client
from ..errors import OptionError
from ..jetstream import Stream, StreamConfig
from . import stream_backup
from .arguments import Commands, add_form, sequence, whole
from .config_options import add_config_options, read_config, stream_name
from .jetstream_options import DONE, add_force, add_jetstream, jetstream, need_force
from .jetstream_output import print_fields, print_info, print_object, show_stored
from .output import print_line, print_table
from .reporting import Reporter

__all__ = ["add_commands"]


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    listing = add_jetstream(command("ls", ls, "list streams"))
    listing.add_argument(
        "--subject", default="", help="only streams with a subject that overlaps this one"
    )
    listing.add_argument("--names", action="store_true", help="print only names")
    for name, run, text in (
        ("info", info, "show the configuration and state of a stream"),
        ("add", add, "create a stream"),
        ("edit", edit, "change a stream; settings without an option stay as they are"),
        ("copy", copy, "create a stream with the configuration of another one"),
        ("rm", rm, "delete a stream with its messages and consumers"),
        ("purge", purge, "delete messages of a stream"),
        ("get", get, "print a message of a stream"),
        ("rm-msg", rm_msg, "delete a message of a stream"),
        ("step-down", step_down, "make the leader of a stream hand over"),
        ("remove-peer", remove_peer, "remove the copy of a stream from a server"),
    ):
        added = add_jetstream(command(name, run, text))
        added.add_argument("stream", type=stream_name)
        if name in ("add", "edit", "copy"):
            if name == "copy":
                added.add_argument("new", type=stream_name, help="the name of the copy")
            add_config_options(added, StreamConfig)
        elif name == "info":
            added.add_argument("--deleted", action="store_true", help="list the deleted sequences")
            added.add_argument(
                "--count",
                metavar="SUBJECT",
                default="",
                help="count the messages of each subject that matches",
            )
        elif name == "get":
            _add_get(added)
        elif name == "rm-msg":
            added.add_argument("seq", type=sequence, help="the sequence of the message")
            added.add_argument("--erase", action="store_true", help="overwrite its bytes on disk")
            add_force(added)
        elif name == "purge":
            _add_purge(added)
        elif name == "step-down":
            added.add_argument(
                "--preferred", metavar="SERVER", default="", help="the server that should lead"
            )
        elif name == "remove-peer":
            added.add_argument("peer", help="the name of the server")
            add_force(added)
        elif name == "rm":
            add_force(added)
    stream_backup.add_commands(command)


def _add_purge(added: argparse.ArgumentParser) -> None:
    added.add_argument("--subject", default="", help="only messages on subjects that match")
    some = added.add_mutually_exclusive_group()
    some.add_argument(
        "--seq", type=sequence, default=0, metavar="N", help="only messages before this sequence"
    )
    some.add_argument(
        "--keep", type=whole, default=0, metavar="N", help="all but the last N messages"
    )
    add_force(added)


def _add_get(added: argparse.ArgumentParser) -> None:
    added.add_argument("seq", nargs="?", type=sequence, help="the sequence of the message")
    added.add_argument(
        "--last",
        metavar="SUBJECT",
        default="",
        help="the last message on this subject, instead of a sequence",
    )
    added.add_argument(
        "--direct", action="store_true", help="ask any server that has a copy, not the leader"
    )
    add_form(added)


def ls(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists streams."""
    js = jetstream(nc, args)
    if args.names:
        for name in js.stream_names(args.subject):
            print_line(name)
    elif args.json:
        for info in js.streams(args.subject):
            print_info(info)
    else:
        rows = [
            (info.config.name, info.state.messages, info.state.bytes, info.state.consumer_count)
            + (", ".join(info.config.subjects),)
            for info in js.streams(args.subject)
        ]
        print_table(("NAME", "MESSAGES", "BYTES", "CONSUMERS", "SUBJECTS"), rows)
    return DONE


def info(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows a stream."""
    stream = jetstream(nc, args).stream(args.stream)
    if args.deleted or args.count:
        stream.info(deleted_details=args.deleted, subjects_filter=args.count)
    return _show(stream, args)


def add(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a stream."""
    config = read_config(args, StreamConfig(args.stream))
    return _show(jetstream(nc, args).create_stream(config), args)


def edit(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Changes a stream."""
    js = jetstream(nc, args)
    config = read_config(args, js.stream(args.stream).cached_info.config)
    return _show(js.update_stream(config), args)


def copy(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a stream with the configuration of another one, except its subjects, which cannot be shared."""
    js = jetstream(nc, args)
    config = replace(js.stream(args.stream).cached_info.config, name=args.new, subjects=())
    return _show(js.create_stream(read_config(args, config)), args)


def rm(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a stream."""
    need_force(args, "deleting a stream")
    jetstream(nc, args).delete_stream(args.stream)
    if args.json:
        print_fields(deleted=args.stream)
    return DONE


def purge(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes messages, and prints how many."""
    need_force(args, "purging a stream")
    stream = jetstream(nc, args).stream(args.stream)
    purged = stream.purge(subject=args.subject, seq=args.seq, keep=args.keep)
    if args.json:
        print_fields(stream=args.stream, purged=purged)
    else:
        print_line(f"{purged} messages purged")
    return DONE


def get(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints a message."""
    if (args.seq is None) == (not args.last):
        raise OptionError("seq", "name a sequence or --last SUBJECT")
    stream = jetstream(nc, args).stream(args.stream)
    if args.last:
        msg = stream.get_last_msg(args.last, direct=args.direct)
    else:
        msg = stream.get_msg(args.seq, direct=args.direct)
    show_stored(msg, args.form)
    return DONE


def rm_msg(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a message."""
    need_force(args, "deleting a message")
    jetstream(nc, args).stream(args.stream).delete_msg(args.seq, erase=args.erase)
    if args.json:
        print_fields(stream=args.stream, deleted=args.seq)
    return DONE


def step_down(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Makes the leader of a stream hand over."""
    jetstream(nc, args).stream(args.stream).step_down(args.preferred)
    if args.json:
        print_fields(stream=args.stream)
    return DONE


def remove_peer(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Removes the copy of a stream from a server."""
    need_force(args, "removing a copy")
    jetstream(nc, args).stream(args.stream).remove_peer(args.peer)
    if args.json:
        print_fields(stream=args.stream, removed=args.peer)
    return DONE


def _show(stream: Stream, args: argparse.Namespace) -> int:
    if args.json:
        print_info(stream.cached_info)
    else:
        print_object(stream.cached_info, zeros=True)
    return DONE
