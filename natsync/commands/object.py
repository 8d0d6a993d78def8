"""`natsync object`: lists, creates and changes object stores; puts, gets, links, deletes and watches
objects."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import replace

from .._json import format_time
from ..client import Client
from ..errors import OptionError
from ..object_store import (
    ObjectInfo,
    ObjectMeta,
    ObjectStore,
    ObjectStoreConfig,
    ObjectStoreStatus,
)
from ..object_store.naming import check_object_name, check_store_name
from .arguments import Commands, add_headers, add_json, chunk_size, with_count
from .bucket_options import add_bucket_options, checked, read_bucket_options
from .jetstream_options import DONE, add_force, add_jetstream, jetstream, need_force
from .jetstream_output import print_fields
from .output import flush, print_json, print_line, print_raw, print_table
from .reporting import Reporter

__all__ = ["add_commands"]

_STORE, _NAME = checked(check_store_name), checked(check_object_name)


def add_commands(command: Commands) -> None:
    """Adds the commands of the group."""
    listing = add_jetstream(command("ls", ls, "list stores, or the objects of a store"))
    listing.add_argument(
        "store", nargs="?", type=_STORE, help="list its objects; without it, all stores"
    )
    listing.add_argument("--names", action="store_true", help="print only names")
    for name, run, text in (
        ("info", info, "show a store, or an object"),
        ("add", add, "create a store"),
        ("edit", edit, "change a store; settings without an option stay as they are"),
        ("rm", rm, "delete a store with its contents"),
        ("seal", seal, "make a store read-only, for ever"),
        ("put", put, "store a file, or standard input, as an object"),
        ("get", get, "write an object to a file, or to standard output"),
        ("del", delete, "delete an object"),
        ("link", link, "create a link to an object, or to a whole store"),
    ):
        added = add_jetstream(command(name, run, text))
        added.add_argument("store", type=_STORE)
        if name in ("add", "edit"):
            add_bucket_options(added, ObjectStoreConfig)
        elif name in ("rm", "seal"):
            add_force(added)
        elif name == "put":
            _add_put(added)
        elif name == "info":
            added.add_argument(
                "name", nargs="?", type=_NAME, help="an object; without it, the store"
            )
        else:
            added.add_argument("name", type=_NAME)
        if name == "get":
            add_json(added)
            added.add_argument(
                "-o",
                "--output",
                metavar="FILE",
                help="the file to write (the name of the object); - writes standard output",
            )
        elif name == "link":
            added.add_argument(
                "target",
                nargs="?",
                type=_NAME,
                help="the object that the link names; without it, the whole store",
            )
            added.add_argument(
                "--to",
                type=_STORE,
                metavar="STORE",
                help="the store of the target, if it is another one",
            )
    watcher = add_jetstream(command("watch", watch, "print objects as they change", None, True))
    watcher.add_argument("store", type=_STORE)
    watcher.add_argument(
        "--updates-only", action="store_true", help="print only changes from now on"
    )
    watcher.add_argument("--ignore-deletes", action="store_true", help="leave out deleted objects")
    with_count(watcher, "exit after N objects")


def _add_put(added: argparse.ArgumentParser) -> None:
    added.add_argument("file", help="the file; - reads standard input")
    added.add_argument(
        "--name", type=_NAME, help="the name of the object; by default, the name of the file"
    )
    added.add_argument("--description", default="", metavar="TEXT", help="information for people")
    add_headers(added)
    added.add_argument(
        "--chunk-size", type=chunk_size, metavar="BYTES", help="the size of a chunk (131072)"
    )


def ls(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Lists stores or objects."""
    js = jetstream(nc, args)
    if args.store is None:
        if args.names:
            for name in js.object_store_names():
                print_line(name)
        elif args.json:
            for status in js.object_stores():
                print_fields(**_facts(status))
        else:
            stores = [(status.bucket, status.size, status.sealed) for status in js.object_stores()]
            print_table(("STORE", "BYTES", "SEALED"), stores)
        return DONE
    objects = js.object_store(args.store).list()
    if args.names or args.json:
        for info in objects:
            print_line(info.name) if args.names else print_json(_fields(info))
        return DONE
    rows = [(info.name, info.size, info.mtime and format_time(info.mtime)) for info in objects]
    print_table(("NAME", "BYTES", "STORED"), rows)
    return DONE


def info(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Shows a store or an object."""
    store = _open(nc, args)
    return _show_store(store, args) if args.name is None else _show(store.info(args.name), args)


def add(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a store."""
    config = read_bucket_options(args, ObjectStoreConfig(args.store))
    return _show_store(jetstream(nc, args).create_object_store(config), args)


def edit(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Changes a store."""
    config = read_bucket_options(args, _open(nc, args).status().config)
    return _show_store(jetstream(nc, args).update_object_store(config), args)


def rm(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes a store."""
    need_force(args, "deleting an object store")
    jetstream(nc, args).delete_object_store(args.store)
    if args.json:
        print_fields(deleted=args.store)
    return DONE


def seal(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Makes a store read-only."""
    need_force(args, "sealing an object store")
    store = _open(nc, args)
    store.seal()
    return _show_store(store, args)


def put(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Stores an object."""
    from_stdin = args.file == "-"
    if from_stdin and not args.name:
        raise OptionError("name", "is needed for standard input")
    headers: dict[str, list[str]] = {}
    for name, value in args.header or []:
        headers.setdefault(name, []).append(value)
    meta = ObjectMeta(
        args.name or os.path.basename(args.file), description=args.description, headers=headers
    )
    if args.chunk_size:
        meta = replace(meta, max_chunk_size=args.chunk_size)
    store = _open(nc, args)
    if from_stdin:
        return _show(store.put(meta, sys.stdin.buffer if sys.stdin else b""), args)
    return _show(store.put_file(args.file, meta), args)


def get(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Writes an object to a file. Writes none if the digest is wrong or a chunk is missing."""
    store = _open(nc, args)
    path = args.output or os.path.basename(args.name)
    if path == "-":
        if args.json:
            raise OptionError("json", "excludes --output -")
        with store.get(args.name) as reader:
            for chunk in reader.chunks():
                print_raw(chunk, b"")
        return DONE
    if not path:
        raise OptionError("output", f"is needed: {args.name!r} ends with no file name")
    info = store.get_file(args.name, path)
    if args.json:
        print_json(_fields(info))
    else:
        print_line(f"{info.size} bytes to {path}")
    return DONE


def delete(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Deletes an object."""
    gone = _open(nc, args).delete(args.name)
    if args.json:
        print_fields(store=args.store, deleted=gone.name)
    return DONE


def link(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a link."""
    store = _open(nc, args)
    if args.target is None and args.to is None:
        raise OptionError("to", "name a target, or --to STORE")
    target = jetstream(nc, args).object_store(args.to) if args.to else store
    if args.target is None:
        return _show(store.add_bucket_link(args.name, target), args)
    return _show(store.add_link(args.name, target.info(args.target)), args)


def watch(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Prints objects as they arrive: `--count` of them, or until none arrives for `--timeout` seconds."""
    store = nc.jetstream(args.domain, args.api_prefix).object_store(args.store)
    left = args.count
    with store.watch(updates_only=args.updates_only, ignore_deletes=args.ignore_deletes) as watcher:
        for info in watcher.updates(args.timeout):
            if args.json:
                print_json(_fields(info))
            else:
                size = "deleted" if info.deleted else f"{info.size} bytes"
                print_line(f"[{info.name}] {size}")
            flush()
            left = left and left - 1
            if left == 0:
                return DONE
    return DONE


def _open(nc: Client, args: argparse.Namespace) -> ObjectStore:
    return jetstream(nc, args).object_store(args.store)


def _fields(info: ObjectInfo) -> dict[str, object]:
    """Returns the fields in the store, and the time, which only the server knows."""
    fields: dict[str, object] = info.to_json()
    if info.mtime:
        fields["mtime"] = format_time(info.mtime)
    return fields


def _show(info: ObjectInfo, args: argparse.Namespace) -> int:
    return _print(_fields(info), args)


def _show_store(store: ObjectStore, args: argparse.Namespace) -> int:
    return _print({**_facts(store.status())}, args)


def _print(facts: dict[str, object], args: argparse.Namespace) -> int:
    if args.json:
        print_json(facts)
        return DONE
    _print_text(facts, "")
    return DONE


def _print_text(facts: dict[str, object], indent: str) -> None:
    for name, fact in facts.items():
        if isinstance(fact, dict):
            print_line(f"{indent}{name}:")
            _print_text(fact, f"{indent}  ")
        else:
            shown = ", ".join(map(str, fact)) if isinstance(fact, list) else fact
            print_line(f"{indent}{name + ':':12} {shown}".rstrip())


def _facts(status: ObjectStoreStatus) -> dict[str, str | int]:
    config = status.config
    return {
        "store": status.bucket,
        "bytes": status.size,
        "sealed": status.sealed,
        "ttl": int(config.ttl),
        "max_bytes": config.max_bytes,
        "storage": config.storage,
        "replicas": config.replicas,
        "compression": config.compression,
        "description": config.description,
    }
