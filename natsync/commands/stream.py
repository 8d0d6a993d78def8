"""`natsync stream`: lists, shows, creates, changes, purges, reads, copies and deletes JetStream streams; and
prints JetStream's objects."""

from __future__ import annotations

from dataclasses import fields, replace
from datetime import datetime
from pathlib import Path

from .._json import JSONObject, format_time
from ..errors import OptionError
from ..jetstream import StreamConfig, StreamInfo
from ..jetstream.names import check_stream_name
from ..message import Msg
from .command import Group, Run
from .config_options import config_options, read_config
from .options import JETSTREAM, argument, force_option, option
from .output import Shown, show
from .stream_backup import opened_archive, read_backup, write_backup
from .values import checked, sequence, whole

__all__ = ["names_option", "preferred_option", "show_object", "stream", "stream_argument"]

stream_argument = argument("stream", type=checked(check_stream_name))
names_option = option("--names", "Print only names.")
preferred_option = option("--preferred SERVER", "The server that should lead.", default="")

_EMPTY: tuple[object, ...] = (None, "", (), {}, -1, -1e-9)  # -1 ns: a mirror that was never active

stream = Group("stream", shared=JETSTREAM)


def show_object(run: Run, value: JSONObject, *, zeros: bool = True) -> None:
    """Prints the whole object with the server's names and units with `--json`, else its facts as text."""
    run.facts(value.to_json(complete=True) if run.json else _facts(value, zeros))


def _facts(value: JSONObject, zeros: bool) -> dict[str, object]:
    """Returns the fields that are not empty, false or -1 (no limit); and, unless `zeros` is true, not 0."""
    shown = {item.name: getattr(value, item.name) for item in fields(value)}
    shown |= shown.pop("extra")
    del shown["_exact"]
    facts: dict[str, object] = {}
    for name, field in shown.items():
        if isinstance(field, JSONObject):
            field = _facts(field, zeros and name != "config")
        elif isinstance(field, tuple) and field and isinstance(field[0], JSONObject):
            field = [_facts(part, zeros) for part in field]
        elif field in _EMPTY or field is False or not (field or zeros):
            continue
        else:
            field = _text(field)
        if field:
            facts[name] = field
    return facts


def _text(value: object) -> str:
    if isinstance(value, datetime):
        return format_time(value)
    if isinstance(value, tuple):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(item)}" for name, item in value.items())
    return f"{value:g} s" if isinstance(value, float) else str(value)


@stream.command("ls")
@option("--subject SUBJECT", "Only streams with a subject that overlaps this one.", default="")
@names_option
def ls(run: Run, subject: str, names: bool) -> None:
    """List streams."""
    if names:
        return run.names(run.js.stream_names(subject))
    run.table(
        ("NAME", "MESSAGES", "BYTES", "CONSUMERS", "SUBJECTS"),
        run.js.streams(subject),
        lambda info: (info.config.name, info.state.messages, info.state.bytes)
        + (info.state.consumer_count, ", ".join(info.config.subjects)),
        lambda info: info.to_json(complete=True),
    )


@stream.command("info")
@stream_argument
@option("--deleted", "List the deleted sequences.")
@option("--count SUBJECT", "Count the messages of each subject that matches.", default="")
def info(run: Run, stream: str, deleted: bool, count: str) -> None:
    """Show the configuration and state of a stream."""
    found = run.js.stream(stream)
    if deleted or count:
        found.info(deleted_details=deleted, subjects_filter=count)
    show_object(run, found.cached_info)


@stream.command("add")
@stream_argument
@config_options(StreamConfig)
def add(run: Run, stream: str, **options: object) -> None:
    """Create a stream."""
    config = read_config(options, StreamConfig(stream))
    show_object(run, run.js.create_stream(config).cached_info)


@stream.command("edit")
@stream_argument
@config_options(StreamConfig)
def edit(run: Run, stream: str, **options: object) -> None:
    """Change a stream; settings without an option stay as they are."""
    config = read_config(options, run.js.stream(stream).cached_info.config)
    show_object(run, run.js.update_stream(config).cached_info)


@stream.command("copy")
@stream_argument
@argument("new", "The name of the copy.", checked(check_stream_name))
@config_options(StreamConfig)
def copy(run: Run, stream: str, new: str, **options: object) -> None:
    """Create a stream with the configuration of another one.

    Its subjects, which two streams cannot share, are left out.
    """
    config = replace(run.js.stream(stream).cached_info.config, name=new, subjects=())
    show_object(run, run.js.create_stream(read_config(options, config)).cached_info)


@stream.command("rm")
@stream_argument
@force_option("deleting a stream")
def rm(run: Run, stream: str) -> None:
    """Delete a stream with its messages and consumers."""
    run.js.delete_stream(stream)
    run.done(deleted=stream)


@stream.command("purge")
@stream_argument
@option("--subject SUBJECT", "Only messages on subjects that match.", default="")
@option("--seq N", "Only messages before this sequence.", sequence, one_of="purge")
@option("--keep N", "All but the last N messages.", whole, one_of="purge")
@force_option("purging a stream")
def purge(run: Run, stream: str, subject: str, seq: int | None, keep: int | None) -> None:
    """Delete messages of a stream, and print how many."""
    purged = run.js.stream(stream).purge(subject=subject, seq=seq or 0, keep=keep or 0)
    run.done(f"{purged} messages purged", stream=stream, purged=purged)


@stream.command("get", raw=True)
@stream_argument
@argument("seq", "The sequence of the message.", sequence, required=False)
@option("--last SUBJECT", "The last message on this subject, instead of a sequence.", default="")
@option("--direct", "Ask any server that has a copy, not the leader.")
def get(run: Run, stream: str, seq: int | None, last: str, direct: bool) -> None:
    """Print a message of a stream."""
    if (seq is None) == (not last):
        raise OptionError("seq", "name a sequence or --last SUBJECT")
    found = run.js.stream(stream)
    if seq is None:
        msg = found.get_last_msg(last, direct=direct)
    else:
        msg = found.get_msg(seq, direct=direct)
    place: dict[str, Shown] = {"stream": msg.stream, "seq": msg.seq, "time": format_time(msg.time)}
    show(Msg(msg.subject, msg.data, headers=msg.headers), run.form, more=place)


@stream.command("rm-msg")
@stream_argument
@argument("seq", "The sequence of the message.", sequence)
@option("--erase", "Overwrite its bytes on disk.")
@force_option("deleting a message")
def rm_msg(run: Run, stream: str, seq: int, erase: bool) -> None:
    """Delete a message of a stream."""
    run.js.stream(stream).delete_msg(seq, erase=erase)
    run.done(stream=stream, deleted=seq)


@stream.command("step-down")
@stream_argument
@preferred_option
def step_down(run: Run, stream: str, preferred: str) -> None:
    """Make the leader of a stream hand over."""
    run.js.stream(stream).step_down(preferred)
    run.done(stream=stream)


@stream.command("remove-peer")
@stream_argument
@argument("peer", "The name of the server.")
@force_option("removing a copy")
def remove_peer(run: Run, stream: str, peer: str) -> None:
    """Remove the copy of a stream from a server."""
    run.js.stream(stream).remove_peer(peer)
    run.done(stream=stream, removed=peer)


@stream.command("backup")
@stream_argument
@argument("folder", "A new folder.", Path)
@option("--no-consumers", "Leave out the consumers.")
@option("--check", "Let the server verify every message first.")
def backup(run: Run, stream: str, folder: Path, no_consumers: bool, check: bool) -> None:
    """Write a stream to a new folder."""
    found = run.js.stream(stream)
    _show_backup(run, *write_backup(found, folder, consumers=not no_consumers, check=check))


@stream.command("restore")
@argument("folder", "A folder that backup wrote.", Path)
@option("--replicas N", "How many copies; by default, as many as before.", int)
def restore(run: Run, folder: Path, replicas: int | None) -> None:
    """Create a stream from a folder that backup wrote."""
    info, archive = read_backup(folder)
    if replicas is not None:
        info = replace(info, config=replace(info.config, num_replicas=replicas))
    with opened_archive(archive) as file:
        restored = run.js.restore_stream(info, file)
    _show_backup(run, restored.cached_info, archive)


def _show_backup(run: Run, info: StreamInfo, archive: Path) -> None:
    name, messages, size = info.config.name, info.state.messages, archive.stat().st_size
    text = f"{name}: {messages} messages, {size} bytes in {archive}"
    run.done(text, stream=name, messages=messages, bytes=size)
