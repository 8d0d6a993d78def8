"""`natsync kv`: lists, creates and changes key-value buckets; reads, writes, deletes and watches keys."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from .._json import format_time
from ..errors import OptionError
from ..kv import Entry, KeyValueConfig, KeyValueStatus, Operation
from ..kv.naming import check_bucket, check_filter, check_key
from .command import DONE, Group, Run
from .config_options import config_options, read_bucket
from .options import JETSTREAM, Function, argument, count_option, force_option, option
from .output import flush, print_json, print_line, print_payload, print_raw
from .pubsub import read_data
from .values import checked, duration

__all__ = ["kv"]

_bucket_argument = argument("bucket", type=checked(check_bucket))
_key_argument = argument("key", type=checked(check_key))
_value_argument = argument("value", "The value; - reads standard input.")
_revision_option = option("--revision N", "Fail unless this is the last revision.", int)
_ttl_option = option("--ttl TIME", "When the value, or the marker of a purge, expires.", duration)

kv = Group("kv", shared=JETSTREAM)


def _of_a_key(function: Function) -> Function:
    return _bucket_argument(_key_argument(function))


@kv.command("ls")
@argument(
    "bucket", "List its keys; without it, all buckets.", checked(check_bucket), required=False
)
@option("--names", "Print only names.")
def ls(run: Run, bucket: str | None, names: bool) -> None:
    """List buckets, or the keys of a bucket."""
    if bucket is not None:
        return _list_keys(run, run.js.key_value(bucket).keys())
    if names:
        return run.names(run.js.key_value_names())
    run.table(
        ("BUCKET", "VALUES", "BYTES", "HISTORY"),
        run.js.key_values(),
        lambda status: (status.bucket, status.values, status.bytes, status.history),
        _facts,
    )


@kv.command("info")
@_bucket_argument
def info(run: Run, bucket: str) -> None:
    """Show a bucket."""
    run.facts(_facts(run.js.key_value(bucket).status()))


@kv.command("add")
@_bucket_argument
@config_options(KeyValueConfig)
def add(run: Run, bucket: str, **options: object) -> None:
    """Create a bucket."""
    config = read_bucket(options, KeyValueConfig(bucket))
    run.facts(_facts(run.js.create_key_value(config).status()))


@kv.command("edit")
@_bucket_argument
@config_options(KeyValueConfig)
def edit(run: Run, bucket: str, **options: object) -> None:
    """Change a bucket; settings without an option stay as they are."""
    config = read_bucket(options, run.js.key_value(bucket).status().config)
    run.facts(_facts(run.js.update_key_value(config).status()))


@kv.command("rm")
@_bucket_argument
@force_option("deleting a bucket")
def rm(run: Run, bucket: str) -> None:
    """Delete a bucket with its contents."""
    run.js.delete_key_value(bucket)
    run.done(deleted=bucket)


@kv.command("keys")
@_bucket_argument
@argument("filter", "Only keys that match: a.*, a.>", checked(check_filter), nargs=-1)
def keys(run: Run, bucket: str, filter: Sequence[str]) -> None:
    """List the keys that have a value."""
    _list_keys(run, run.js.key_value(bucket).keys(*filter))


def _list_keys(run: Run, found: Iterable[str]) -> None:
    for key in found:
        run.done(key, key=key)


@kv.command("compact")
@_bucket_argument
@option("--older-than TIME", "Spare younger markers (30m).", duration, default="30m")
def compact(run: Run, bucket: str, older_than: float) -> None:
    """Remove the markers of deleted keys, and print the number of these keys."""
    number = run.js.key_value(bucket).purge_deletes(older_than=older_than)
    run.done(f"{number} deleted keys compacted", bucket=bucket, keys=number)


@kv.command("get", raw=True)
@_of_a_key
@option("--revision N", "Get this revision.", int)
def get(run: Run, bucket: str, key: str, revision: int | None) -> None:
    """Print the value of a key."""
    _print(run, run.js.key_value(bucket).get(key, revision=revision))


@kv.command("history", raw=True)
@_of_a_key
def history(run: Run, bucket: str, key: str) -> None:
    """Print the values that a key had, deletes included."""
    for entry in run.js.key_value(bucket).history(key):
        _print(run, entry)


@kv.command("put")
@_of_a_key
@_value_argument
def put(run: Run, bucket: str, key: str, value: str) -> None:
    """Set the value of a key."""
    revision = run.js.key_value(bucket).put(key, read_data(value))
    run.done(bucket=bucket, key=key, revision=revision)


@kv.command("create")
@_of_a_key
@_value_argument
@_ttl_option
def create(run: Run, bucket: str, key: str, value: str, ttl: float | None) -> None:
    """Set the value of a key that has none."""
    revision = run.js.key_value(bucket).create(key, read_data(value), ttl=ttl)
    run.done(bucket=bucket, key=key, revision=revision)


@kv.command("update")
@_of_a_key
@_value_argument
@argument("revision", "The expected last revision.", int)
def update(run: Run, bucket: str, key: str, value: str, revision: int) -> None:
    """Set the value of a key, if its last revision is REVISION."""
    revision = run.js.key_value(bucket).update(key, read_data(value), revision)
    run.done(bucket=bucket, key=key, revision=revision)


@kv.command("del")
@_of_a_key
@_revision_option
def delete(run: Run, bucket: str, key: str, revision: int | None) -> None:
    """Delete the value of a key; its history stays."""
    run.js.key_value(bucket).delete(key, revision=revision)
    run.done(bucket=bucket, deleted=key)


@kv.command("purge")
@_of_a_key
@_revision_option
@_ttl_option
def purge(run: Run, bucket: str, key: str, revision: int | None, ttl: float | None) -> None:
    """Delete the value of a key, and its history."""
    run.js.key_value(bucket).purge(key, revision=revision, ttl=ttl)
    run.done(bucket=bucket, deleted=key)


@kv.command("watch", timeout=None, raw=True)
@_bucket_argument
@argument(
    "key", "A key, or a filter such as a.*; without any, all keys.", checked(check_filter), nargs=-1
)
@option("--include-history", "Begin with all stored values.", one_of="begin")
@option("--updates-only", "Print only changes from now on.", one_of="begin")
@option(
    "--from-revision N",
    "Begin with this revision.",
    int,
    name="resume_from_revision",
    one_of="begin",
)
@option("--ignore-deletes", "Leave out deletes and purges.")
@option("--meta-only", "Leave out the values.")
@count_option("Exit after N entries.")
def watch(
    run: Run, bucket: str, key: Sequence[str], count: int | None, meta_only: bool, **options: object
) -> int:
    """Print values, and each change as it happens."""
    if meta_only and run.raw:
        raise OptionError("raw", "excludes --meta-only")
    found = run.js.key_value(bucket)
    with found.watch(
        *key, meta_only=meta_only, **options  # type: ignore[arg-type]  # as they are declared
    ) as watcher:
        for number, entry in enumerate(watcher.updates(run.timeout), 1):
            _print(run, entry)
            if number == count:
                break
    return DONE


def _print(run: Run, entry: Entry) -> None:
    """Prints an entry: as text with key, revision, and value or operation; as JSON with all fields; or only
    the value."""
    put = entry.operation is Operation.PUT
    if run.json:
        print_json(_fields(entry))
    elif run.raw:
        if put:
            print_raw(entry.value)
    elif put:
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


def _facts(status: KeyValueStatus) -> dict[str, object]:
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
