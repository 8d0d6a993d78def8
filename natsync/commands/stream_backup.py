"""The backup of a stream: a folder in the format of `nats stream backup`.

The folder has the server's answer in backup.json, and the snapshot in stream.arc.s2, or in stream.tar.s2 if
a server before 2.15 made it (jsm.go: snapshots.go). backup.json is written last: a folder without it is
incomplete.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

from .._json import decode_object
from ..errors import OptionError
from ..jetstream import InvalidResponseError, Stream, StreamInfo

__all__ = ["opened_archive", "read_backup", "write_backup"]

INFO, TAR, ARCHIVE = "backup.json", "stream.tar.s2", "stream.arc.s2"
_MAGIC = b"NATSARC1"
"""The first bytes of an archive that server 2.15 or later made. Compression puts its own header before them,
but leaves them unchanged."""
_BEGINNING = 64
_TYPE = "io.nats.jetstream.api.v1.stream_snapshot_response"


def write_backup(
    stream: Stream, folder: Path, *, consumers: bool, check: bool
) -> tuple[StreamInfo, Path]:
    """Writes a stream to a new folder. Returns its info and the path of the snapshot."""
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise _unusable(folder, error) from error
    archive = folder / TAR
    with archive.open("w+b") as file:
        info = stream.snapshot(file, consumers=consumers, check=check)
        file.seek(0)
        beginning = file.read(_BEGINNING)
    if _MAGIC in beginning:
        archive = archive.rename(folder / ARCHIVE)
    snapshot = {"type": _TYPE, "config": info.config.to_json(), "state": info.state.to_json()}
    (folder / INFO).write_text(json.dumps(snapshot, indent=2) + "\n", encoding="utf-8")
    return info, archive


def read_backup(folder: Path) -> tuple[StreamInfo, Path]:
    """Returns the info of the stream in a folder, and the path of the snapshot."""
    path = folder / INFO
    try:
        info = StreamInfo.from_json(decode_object(path.read_bytes(), str(path)), str(path))
    except OSError as error:
        raise _unusable(path, error) from error
    except InvalidResponseError as error:
        raise OptionError("folder", f"file {str(path)!r}: {error.reason}") from error
    archive, older = folder / ARCHIVE, folder / TAR
    if older.exists():
        if archive.exists():
            raise OptionError("folder", f"{str(folder)!r}: has both {ARCHIVE} and {TAR}")
        archive = older
    return info, archive


def opened_archive(path: Path) -> BinaryIO:
    """Opens a snapshot."""
    try:
        return path.open("rb")
    except OSError as error:
        raise _unusable(path, error) from error


def _unusable(path: Path, error: OSError) -> OptionError:
    return OptionError("folder", f"{str(path)!r}: {error.strerror}")
