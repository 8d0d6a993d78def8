"""`natsync kv`: lists, creates and changes key-value buckets; reads, writes, deletes and watches keys."""

from __future__ import annotations

import argparse
import base64
import sys
from collections.abc import Iterable

from .._json import format_time
from ..client import Client
from ..errors import OptionError
from ..kv import Entry, KeyValue, KeyValueConfig, KeyValueStatus, Operation
from ..kv.naming import check_bucket, check_filter, check_key
from .arguments import Commands, add_form, add_json, with_count
from .bucket_options import add_bucket_options, checked, read_bucket_options
from .config_options import duration
from .jetstream_options import DONE, add_force, add_which, jetstream, need_force
from .jetstream_output import print_fields
from .output import flush, print_json, print_line, print_payload, print_raw, print_table
from .reporting import Reporter

__all__ = ["add_commands"]

_BUCKET, _KEY = checked(check_bucket), checked(check_key)


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    listing = add_which(command("ls", ls, "list buckets, or the keys of a bucket"))
    listing.add_argument(
        "bucket", nargs="?", type=_BUCKET, help="list its keys; without it, all buckets"
    )
    listing.add_argument("--names", action="store_true", help="print only names")
    add_json(listing)
    for name, run, text in (
        ("info", info, "show a bucket"),
        ("add", add, "create a bucket"),
        ("edit", edit, "change a bucket; settings without an option stay as they are"),
        ("rm", rm, "delete a bucket with its contents"),
        ("keys", keys, "list the keys that have a value"),
        ("compact", compact, "remove the markers of deleted keys"),
    ):
        added = add_which(command(name, run, text))
        added.add_argument("bucket", type=_BUCKET)
        add_json(added)
        if name in ("add", "edit"):
            add_bucket_options(added, KeyValueConfig)
        elif name == "rm":
            add_force(added)
        elif name == "keys":
            added.add_argument(
                "filter",
                nargs="*",
                type=checked(check_filter),
                help="only keys that match: a.*, a.>",
            )
        elif name == "compact":
            added.add_argument(
                "--older-than",
                type=duration,
                default=1800.0,
                metavar="TIME",
                help="spare younger markers (30m)",
            )
    _add_of_keys(command)
    watcher = add_which(
        command("watch", watch, "print values, and each change as it happens", None, True)
    )
    watcher.add_argument("bucket", type=_BUCKET)
    watcher.add_argument(
        "key",
        nargs="*",
        type=checked(check_filter),
        help="a key, or a filter such as a.*; without any, all keys",
    )
    _add_watch_options(watcher)


def _add_of_keys(command: Commands) -> None:
    for name, run, text in (
        ("get", get, "print the value of a key"),
        ("history", history, "print the values that a key had, deletes included"),
        ("put", put, "set the value of a key"),
        ("create", create, "set the value of a key that has none"),
        ("update", update, "set the value of a key, if its last revision is REVISION"),
        ("del", delete, "delete the value of a key; its history stays"),
        ("purge", purge, "delete the value of a key, and its history"),
    ):
        added = add_which(command(name, run, text))
        added.add_argument("bucket", type=_BUCKET)
        added.add_argument("key", type=_KEY)
        if name in ("put", "create", "update"):
            added.add_argument("value", help="the value; - reads standard input")
        if name == "update":
            added.add_argument("revision", type=int, help="the expected last revision")
        elif name in ("get", "del", "purge"):
            text = "get this revision" if name == "get" else "fail unless this is the last revision"
            added.add_argument("--revision", type=int, metavar="N", help=text)
        if name in ("create", "purge"):
            added.add_argument(
                "--ttl",
                type=duration,
                metavar="TIME",
                help="when the value, or the marker of a purge, expires",
            )
        if name in ("get", "history"):
            add_form(added)
        else:
            add_json(added)


def _add_watch_options(added: argparse.ArgumentParser) -> None:
    begins = added.add_mutually_exclusive_group()
    begins.add_argument(
        "--include-history", action="store_true", help="begin with all stored values"
    )
    begins.add_argument(
        "--updates-only", action="store_true", help="print only changes from now on"
    )
    begins.add_argument("--from-revision", type=int, metavar="N", help="begin with this revision")
    added.add_argument("--ignore-deletes", action="store_true", help="leave out deletes and purges")
    added.add_argument("--meta-only", action="store_true", help="leave out the values")
    with_count(added, "exit after N entries")
    add_form(added)


def ls(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists buckets or keys."""
    if args.bucket is not None:
        return _list_keys(_open(nc, args).keys(), args)
    js = jetstream(nc, args)
    if args.names:
        for name in js.key_value_names():
            print_line(name)
    elif args.json:
        for status in js.key_values():
            print_fields(**_facts(status))
    else:
        rows = [
            (status.bucket, status.values, status.bytes, status.history)
            for status in js.key_values()
        ]
        print_table(("BUCKET", "VALUES", "BYTES", "HISTORY"), rows)
    return DONE


def info(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows a bucket."""
    return _show(_open(nc, args), args)


def add(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a bucket."""
    config = read_bucket_options(args, KeyValueConfig(args.bucket))
    return _show(jetstream(nc, args).create_key_value(config), args)


def edit(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Changes a bucket."""
    js = jetstream(nc, args)
    config = read_bucket_options(args, js.key_value(args.bucket).status().config)
    return _show(js.update_key_value(config), args)


def rm(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a bucket."""
    need_force(args, "deleting a bucket")
    jetstream(nc, args).delete_key_value(args.bucket)
    if args.json:
        print_fields(deleted=args.bucket)
    return DONE


def keys(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists keys."""
    return _list_keys(_open(nc, args).keys(*args.filter), args)


def _list_keys(found: Iterable[str], args: argparse.Namespace) -> int:
    for key in found:
        if args.json:
            print_fields(key=key)
        else:
            print_line(key)
    return DONE


def compact(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Removes the markers of deleted keys, and prints the number of these keys."""
    count = _open(nc, args).purge_deletes(older_than=args.older_than)
    if args.json:
        print_fields(bucket=args.bucket, keys=count)
    else:
        print_line(f"{count} deleted keys compacted")
    return DONE


def get(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints a value."""
    _print([_open(nc, args).get(args.key, revision=args.revision)], args.form)
    return DONE


def history(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints the values of a key."""
    _print(_open(nc, args).history(args.key), args.form)
    return DONE


def put(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Sets a value."""
    return _print_revision(args, _open(nc, args).put(args.key, _value(args)))


def create(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Sets the value of a key that has none."""
    return _print_revision(args, _open(nc, args).create(args.key, _value(args), ttl=args.ttl))


def update(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Sets a value, if the last revision of the key is the expected one."""
    return _print_revision(args, _open(nc, args).update(args.key, _value(args), args.revision))


def delete(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a value."""
    _open(nc, args).delete(args.key, revision=args.revision)
    return _print_deleted(args)


def purge(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a value and its history."""
    _open(nc, args).purge(args.key, revision=args.revision, ttl=args.ttl)
    return _print_deleted(args)


def watch(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints entries as they arrive: `--count` of them, or until none arrives for `--timeout` seconds."""
    if args.meta_only and args.form == "raw":
        raise OptionError("raw", "excludes --meta-only")
    bucket = nc.jetstream(args.domain, args.api_prefix).key_value(args.bucket)
    left = args.count
    with bucket.watch(
        *args.key,
        include_history=args.include_history,
        updates_only=args.updates_only,
        ignore_deletes=args.ignore_deletes,
        meta_only=args.meta_only,
        resume_from_revision=args.from_revision,
    ) as watcher:
        for entry in watcher.updates(args.timeout):
            _print([entry], args.form)
            left = left and left - 1
            if left == 0:
                return DONE
    return DONE


def _open(nc: Client, args: argparse.Namespace) -> KeyValue:
    return jetstream(nc, args).key_value(args.bucket)


def _value(args: argparse.Namespace) -> bytes:
    text: str = args.value
    if text == "-":
        return sys.stdin.buffer.read() if sys.stdin else b""
    return text.encode("utf-8", "surrogateescape")


def _print_revision(args: argparse.Namespace, revision: int) -> int:
    if args.json:
        print_fields(bucket=args.bucket, key=args.key, revision=revision)
    return DONE


def _print_deleted(args: argparse.Namespace) -> int:
    if args.json:
        print_fields(bucket=args.bucket, deleted=args.key)
    return DONE


def _print(entries: Iterable[Entry], form: str) -> None:
    """Prints entries: as text with key, revision, and value or operation; as JSON with all fields; or only
    the values."""
    for entry in entries:
        if form == "raw":
            if entry.operation is Operation.PUT:
                print_raw(entry.value)
        elif form == "json":
            print_json(_fields(entry))
        elif entry.operation is Operation.PUT:
            print_payload(f"{entry.key} {entry.revision}", entry.value)
        else:
            print_line(f"[{entry.key} {entry.revision} {entry.operation.value}]")
        flush()


def _fields(entry: Entry) -> dict[str, str | int]:
    fields: dict[str, str | int] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "operation": entry.operation.value,
        "revision": entry.revision,
        "created": format_time(entry.created),
        "size": entry.size,
    }
    try:
        fields["value"] = entry.value.decode()
    except UnicodeDecodeError:
        fields["value_base64"] = base64.b64encode(entry.value).decode()
    return fields


def _facts(status: KeyValueStatus) -> dict[str, str | int]:
    return {
        "bucket": status.bucket,
        "values": status.values,
        "bytes": status.bytes,
        "history": status.history,
        "ttl": int(status.ttl),
        "limit_marker_ttl": int(status.limit_marker_ttl),
        "compressed": status.compressed,
        "storage": status.info.config.storage,
        "replicas": status.info.config.num_replicas,
        "description": status.info.config.description,
    }


def _show(bucket: KeyValue, args: argparse.Namespace) -> int:
    facts = _facts(bucket.status())
    if args.json:
        print_fields(**facts)
        return DONE
    for name, fact in facts.items():
        print_line(f"{name + ':':18}{fact}".rstrip())
    return DONE
