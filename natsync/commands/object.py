"""`natsync object`: lists, creates and changes object stores; puts, gets, links, deletes and watches
objects."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import replace

from .._json import format_time
from ..errors import OptionError
from ..object_store import ObjectInfo, ObjectMeta, ObjectStoreConfig, ObjectStoreStatus
from ..object_store.naming import check_object_name, check_store_name
from .command import Group, Run
from .config_options import config_options, read_bucket
from .options import JETSTREAM, argument, count_option, force_option, header_option, option
from .output import flush, print_raw
from .pubsub import grouped
from .values import checked, chunk_size

__all__ = ["objects"]

_STORE, _NAME = checked(check_store_name), checked(check_object_name)
_store_argument = argument("store", type=_STORE)
_name_argument = argument("name", type=_NAME)

objects = Group("object", shared=JETSTREAM)


@objects.command("ls")
@argument("store", "List its objects; without it, all stores.", _STORE, required=False)
@option("--names", "Print only names.")
def ls(run: Run, store: str | None, names: bool) -> None:
    """List stores, or the objects of a store."""
    if store is None:
        if names:
            return run.names(run.js.object_store_names())
        return run.table(
            ("STORE", "BYTES", "SEALED"),
            run.js.object_stores(),
            lambda status: (status.bucket, status.size, status.sealed),
            _facts,
        )
    found = run.js.object_store(store).list()
    if names:
        return run.names(info.name for info in found)
    run.table(
        ("NAME", "BYTES", "STORED"),
        found,
        lambda info: (info.name, info.size, info.mtime and format_time(info.mtime)),
        _fields,
    )


@objects.command("info")
@_store_argument
@argument("name", "An object; without it, the store.", _NAME, required=False)
def info(run: Run, store: str, name: str | None) -> None:
    """Show a store, or an object."""
    found = run.js.object_store(store)
    run.facts(_facts(found.status()) if name is None else _fields(found.info(name)))


@objects.command("add")
@_store_argument
@config_options(ObjectStoreConfig)
def add(run: Run, store: str, **options: object) -> None:
    """Create a store."""
    config = read_bucket(options, ObjectStoreConfig(store))
    run.facts(_facts(run.js.create_object_store(config).status()))


@objects.command("edit")
@_store_argument
@config_options(ObjectStoreConfig)
def edit(run: Run, store: str, **options: object) -> None:
    """Change a store; settings without an option stay as they are."""
    config = read_bucket(options, run.js.object_store(store).status().config)
    run.facts(_facts(run.js.update_object_store(config).status()))


@objects.command("rm")
@_store_argument
@force_option("deleting an object store")
def rm(run: Run, store: str) -> None:
    """Delete a store with its contents."""
    run.js.delete_object_store(store)
    run.done(deleted=store)


@objects.command("seal")
@_store_argument
@force_option("sealing an object store")
def seal(run: Run, store: str) -> None:
    """Make a store read-only, for ever."""
    found = run.js.object_store(store)
    found.seal()
    run.facts(_facts(found.status()))


@objects.command("put")
@_store_argument
@argument("file", "The file; - reads standard input.")
@option("--name NAME", "The name of the object; by default, the name of the file.", _NAME)
@option("--description TEXT", "Information for people.", default="")
@header_option
@option("--chunk-size BYTES", "The size of a chunk (131072).", chunk_size)
def put(
    run: Run,
    store: str,
    file: str,
    name: str | None,
    description: str,
    headers: Iterable[tuple[str, str]],
    chunk_size: int | None,
) -> None:
    """Store a file, or standard input, as an object."""
    from_stdin = file == "-"
    if from_stdin and not name:
        raise OptionError("name", "is needed for standard input")
    fields = grouped(headers) or {}
    meta = ObjectMeta(name or os.path.basename(file), description=description, headers=fields)
    if chunk_size:
        meta = replace(meta, max_chunk_size=chunk_size)
    found = run.js.object_store(store)
    if from_stdin:
        stored = found.put(meta, sys.stdin.buffer if sys.stdin else b"")
    else:
        stored = found.put_file(file, meta)
    run.facts(_fields(stored))


@objects.command("get")
@_store_argument
@_name_argument
@option("-o --output FILE", "The file to write (the name of the object); - writes standard output.")
def get(run: Run, store: str, name: str, output: str | None) -> None:
    """Write an object to a file, or to standard output.

    Without a right digest and every chunk, no file is written.
    """
    found = run.js.object_store(store)
    path = output or os.path.basename(name)
    if path == "-":
        if run.json:
            raise OptionError("json", "excludes --output -")
        with found.get(name) as reader:
            for chunk in reader.chunks():
                print_raw(chunk, b"")
        return
    if not path:
        raise OptionError("output", f"is needed: {name!r} ends with no file name")
    info = found.get_file(name, path)
    run.done(f"{info.size} bytes to {path}", **_fields(info))


@objects.command("del")
@_store_argument
@_name_argument
def delete(run: Run, store: str, name: str) -> None:
    """Delete an object."""
    gone = run.js.object_store(store).delete(name)
    run.done(store=store, deleted=gone.name)


@objects.command("link")
@_store_argument
@_name_argument
@argument(
    "target", "The object that the link names; without it, the whole store.", _NAME, required=False
)
@option("--to STORE", "The store of the target, if it is another one.", _STORE)
def link(run: Run, store: str, name: str, target: str | None, to: str | None) -> None:
    """Create a link to an object, or to a whole store."""
    if target is None and to is None:
        raise OptionError("to", "name a target, or --to STORE")
    found = run.js.object_store(store)
    other = run.js.object_store(to) if to else found
    if target is None:
        made = found.add_bucket_link(name, other)
    else:
        made = found.add_link(name, other.info(target))
    run.facts(_fields(made))


@objects.command("watch", timeout=None)
@_store_argument
@option("--updates-only", "Print only changes from now on.")
@option("--ignore-deletes", "Leave out deleted objects.")
@count_option("Exit after N objects.")
def watch(
    run: Run, store: str, updates_only: bool, ignore_deletes: bool, count: int | None
) -> None:
    """Print objects as they change."""
    found = run.js.object_store(store)
    with found.watch(updates_only=updates_only, ignore_deletes=ignore_deletes) as watcher:
        for number, info in enumerate(watcher.updates(run.timeout), 1):
            size = "deleted" if info.deleted else f"{info.size} bytes"
            run.done(f"[{info.name}] {size}", **_fields(info))
            flush()
            if number == count:
                break


def _fields(info: ObjectInfo) -> dict[str, object]:
    """Returns the fields in the store, and the time, which only the server knows."""
    fields: dict[str, object] = info.to_json()
    if info.mtime:
        fields["mtime"] = format_time(info.mtime)
    return fields


def _facts(status: ObjectStoreStatus) -> dict[str, object]:
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
