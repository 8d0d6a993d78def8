"""`natsync stream backup` and `restore`: a stream as a folder, in the format of `nats stream backup`.

The folder has the server's answer in backup.json, and the snapshot in stream.arc.s2, or in stream.tar.s2 if
a server before 2.15 made it (jsm.go: snapshots.go). backup.json is written last: a folder without it is
incomplete.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from .._json import decode_object
from ..client import Client
from ..errors import OptionError
from ..jetstream import InvalidResponseError, StreamInfo
from .arguments import Commands
from .config_options import stream_name
from .jetstream_options import DONE, add_jetstream, jetstream
from .jetstream_output import print_fields
from .output import print_line
from .reporting import Reporter

__all__ = ["add_commands"]

INFO, TAR, ARCHIVE = "backup.json", "stream.tar.s2", "stream.arc.s2"
_MAGIC = b"NATSARC1"
"""The first bytes of an archive that server 2.15 or later made. Compression puts its own header before them,
but leaves them unchanged."""
_BEGINNING = 64
_TYPE = "io.nats.jetstream.api.v1.stream_snapshot_response"


def add_commands(command: Commands) -> None:
    """Adds the commands to the group."""
    added = add_jetstream(command("backup", backup, "write a stream to a new folder"))
    added.add_argument("stream", type=stream_name)
    added.add_argument("folder", type=Path, help="a new folder")
    added.add_argument("--no-consumers", action="store_true", help="leave out the consumers")
    added.add_argument(
        "--check", action="store_true", help="let the server verify every message first"
    )
    added = add_jetstream(
        command("restore", restore, "create a stream from a folder that backup wrote")
    )
    added.add_argument("folder", type=Path)
    added.add_argument(
        "--replicas", type=int, metavar="N", help="how many copies; by default, as many as before"
    )


def backup(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Writes a stream to a folder."""
    stream = jetstream(nc, args).stream(args.stream)
    try:
        args.folder.mkdir(parents=True)
    except OSError as error:
        raise _unusable(args.folder, error) from error
    archive = args.folder / TAR
    with archive.open("w+b") as file:
        info = stream.snapshot(file, consumers=not args.no_consumers, check=args.check)
        file.seek(0)
        beginning = file.read(_BEGINNING)
    if _MAGIC in beginning:
        archive = archive.rename(args.folder / ARCHIVE)
    snapshot = {"type": _TYPE, "config": info.config.to_json(), "state": info.state.to_json()}
    (args.folder / INFO).write_text(json.dumps(snapshot, indent=2) + "\n", encoding="utf-8")
    return _show(args, info, archive)


def restore(nc: Client, args: argparse.Namespace, reporter: Reporter) -> int:
    """Creates a stream from a folder."""
    info = _read(args.folder / INFO)
    if args.replicas is not None:
        info = replace(info, config=replace(info.config, num_replicas=args.replicas))
    archive, older = args.folder / ARCHIVE, args.folder / TAR
    if older.exists():
        if archive.exists():
            raise OptionError("folder", f"{str(args.folder)!r}: has both {ARCHIVE} and {TAR}")
        archive = older
    try:
        file = archive.open("rb")
    except OSError as error:
        raise _unusable(archive, error) from error
    with file:
        restored = jetstream(nc, args).restore_stream(info, file)
    return _show(args, restored.cached_info, archive)


def _read(path: Path) -> StreamInfo:
    try:
        return StreamInfo.from_json(decode_object(path.read_bytes(), str(path)), str(path))
    except OSError as error:
        raise _unusable(path, error) from error
    except InvalidResponseError as error:
        raise OptionError("folder", f"file {str(path)!r}: {error.reason}") from error


def _unusable(path: Path, error: OSError) -> OptionError:
    return OptionError("folder", f"{str(path)!r}: {error.strerror}")


def _show(args: argparse.Namespace, info: StreamInfo, archive: Path) -> int:
    name, messages, size = info.config.name, info.state.messages, archive.stat().st_size
    if args.json:
        print_fields(stream=name, messages=messages, bytes=size)
    else:
        print_line(f"{name}: {messages} messages, {size} bytes in {archive}")
    return DONE
