"""Access to capture files: local files, and files that a URI names (see `storage`)."""

from __future__ import annotations

import errno
import glob
import os
import posixpath
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from fnmatch import fnmatchcase

from ..errors import CaptureError, reason_of
from ..storage import elsewhere, is_uri
from .reader import Pieces

Path = str | bytes | os.PathLike[str]
Paths = Path | Iterable[Path]
"""One capture or several: files, folders, patterns, or `-` for standard input. Several are one timeline."""

OVERLAP = "put some of them together with mergecap first"

# A request to an object storage takes as long as reading this many bytes.
_READ_AHEAD = 1 << 22


def capture_names(paths: Paths) -> list[str]:
    """The captures that an argument `paths` names. Raises TypeError if it is no path and no list of paths,
    and ValueError if it names nothing."""
    names = [paths] if isinstance(paths, (str, bytes, os.PathLike)) else paths
    if hasattr(names, "read") or not isinstance(names, Iterable):  # an open file yields its lines
        raise TypeError(f"paths must be paths of captures, not {type(names).__name__}")
    found = [os.fsdecode(name) for name in names]
    if not found:  # such as a pattern that the caller expanded to nothing
        raise ValueError("no capture is named")
    return found


def capture_name(path: str) -> str:
    """The name of a capture in rows: its file name, in which bytes that are not UTF-8 are escaped."""
    base = posixpath.basename(path) if is_uri(path) else os.path.basename(path)
    return os.fsencode(base).decode("utf-8", "backslashreplace")


def identity(path: str) -> str:
    """A string that is the same for all paths to one file. Different URIs are different files."""
    return path if is_uri(path) else os.path.realpath(path)


def size_and_mtime(path: str) -> tuple[int, int]:
    """The size of a file in bytes, and the time of its last modification (ns). Raises CaptureError if the
    file does not exist or is not a regular file."""
    if is_uri(path):
        return _stat_elsewhere(path)
    try:
        found = os.stat(path)
    except FileNotFoundError as error:
        raise CaptureError(path, "no such file") from error
    except (OSError, ValueError) as error:
        raise CaptureError(path, f"cannot be opened ({reason_of(error)})") from error
    if not stat.S_ISREG(found.st_mode):
        raise CaptureError(path, "this is not a file", "write it to a file first")
    return found.st_size, found.st_mtime_ns


def opened(path: str, start: int = 0) -> AbstractContextManager[Pieces]:
    """Opens a file for reading, positioned at byte `start`. Raises CaptureError if that fails."""
    try:
        if is_uri(path):
            return _opened_elsewhere(path, start)
        file = open(path, "rb")
        if start:
            file.seek(start)
        return file
    except FileNotFoundError as error:
        raise CaptureError(path, "no such file") from error
    except (OSError, ValueError) as error:
        remedy = OVERLAP if getattr(error, "errno", None) == errno.EMFILE else ""
        raise CaptureError(path, f"cannot be opened ({reason_of(error)})", remedy) from error


def contents(folder: str) -> list[str] | None:
    """The files in a folder, in order of their names; None if it is not a folder."""
    if is_uri(folder):
        return _contents_elsewhere(folder)
    if not os.path.isdir(folder):
        return None
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CaptureError(folder, f"cannot be read ({error.strerror})") from error
    return [path for name in names if os.path.isfile(path := os.path.join(folder, name))]


def matches(pattern: str) -> list[str] | None:
    """The sorted paths that match a pattern; None if `pattern` has no wildcards or is itself the path of a
    local file. A URI may have wildcards only after its last slash. Raises CaptureError if its folder cannot
    be read."""
    if not glob.has_magic(pattern):
        return None
    if not is_uri(pattern):
        if os.path.exists(pattern):
            return None
        found = sorted(glob.glob(pattern))
        if not found:  # `glob` ignores a folder that it cannot read
            contents(os.path.dirname(pattern) or os.curdir)
        return found
    folder, name = posixpath.split(pattern)
    found = _contents_elsewhere(folder) or []
    return [path for path in found if fnmatchcase(posixpath.basename(path), name)]


def _stat_elsewhere(path: str) -> tuple[int, int]:
    system, name = elsewhere(path)
    from pyarrow import fs

    try:
        info = system.get_file_info(name)
    except OSError as error:
        raise CaptureError(path, f"cannot be reached ({reason_of(error)})") from error
    if info.type == fs.FileType.NotFound:
        raise CaptureError(path, "no such file")
    if info.type != fs.FileType.File:
        raise CaptureError(path, "this is not a file")
    return int(info.size), int(info.mtime_ns or 0)


def _opened_elsewhere(path: str, start: int) -> AbstractContextManager[Pieces]:
    system, name = elsewhere(path)
    import pyarrow

    file = system.open_input_file(name)
    file.seek(start)
    stream: AbstractContextManager[Pieces] = pyarrow.BufferedInputStream(file, _READ_AHEAD)
    return stream


def _contents_elsewhere(folder: str) -> list[str] | None:
    system, name = elsewhere(folder)
    from pyarrow import fs

    try:
        if system.get_file_info(name).type != fs.FileType.Directory:
            return None
        found = system.get_file_info(fs.FileSelector(name))
    except OSError as error:
        raise CaptureError(folder, f"cannot be read ({reason_of(error)})") from error
    return sorted(_inside(folder, [info.base_name for info in found if info.is_file]))


def _inside(folder: str, names: list[str]) -> Iterator[str]:
    yield from (f"{folder.rstrip('/')}/{name}" for name in names)
