"""How functions of the kernel are compiled. Only modules of compiled functions import this one, and with it
`numba`.

Indexes are checked: whatever a packet says, a wrong index raises IndexError. With `NUMBA_DISABLE_JIT=1`, the
functions run as Python, which is slow, for debuggers and coverage.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import sha256
from importlib import import_module
from pathlib import Path
from pkgutil import get_data
from secrets import token_hex
from tempfile import gettempdir
from types import FunctionType
from typing import Any, TypeVar, cast

import numba

_F = TypeVar("_F", bound=Callable[..., object])

_config: Any = numba.config  # its attributes come from the environment

Array = Any
"""An array of numpy, whose types a checker without numpy cannot know."""

Number = Any
"""A number of Python or numpy."""


_SOURCES = (
    "jit.py",
    "state.py",
    "hashes.py",
    "lines.py",
    "packets.py",
    "columns.py",
    "record_headers.py",
    "pieces.py",
    "frames.py",
    "walk.py",
)


def _folder() -> Path | None:
    """Where machine code is stored, with copies of the sources: in numba's folder, if the user has set one;
    beside this file; in the user's folder for such files; or in a temporary one. Its name depends on the
    processor, on the versions of numba and Python, and on all files with compiled functions: numba itself
    notices only changes in the file of a function, not in functions that it calls. Nearly all compiled code
    is part of `walk`, so a change in any of these files would compile most of it again anyway."""
    sources = {name: get_data(__package__, name) or b"" for name in _SOURCES}
    digest = sha256(f"{numba.__version__} {sys.version} {_processor()}".encode())
    for source in sources.values():
        digest.update(source)
    for place in _places():
        folder = place / f"kernel-{digest.hexdigest()[:16]}"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            for name, source in sources.items():
                _store(_copy(folder, name), source)
            _remove_empty(folder)
            return folder
    return None


def _processor() -> tuple[object, ...]:
    """What machine code depends on. A file system may be shared by different machines."""
    llvm: Any = import_module("llvmlite.binding")
    features = _config.CPU_FEATURES
    with suppress(RuntimeError):  # not every system tells
        features = features or llvm.get_host_cpu_features().flatten()
    return _config.CPU_NAME or llvm.get_host_cpu_name(), features


def _places() -> Iterator[Path]:
    if _config.CACHE_DIR:
        yield Path(_config.CACHE_DIR)
    yield Path(__file__).parent / "__pycache__"
    with suppress(RuntimeError):  # there is no home
        yield Path("~/.cache/nats-dissect").expanduser()
    with suppress(OSError):
        yield _temporary()


def _temporary() -> Path:
    """A folder that only this user can write: whoever writes there chooses what this process runs."""
    folder = Path(gettempdir(), f"nats-dissect-{os.getuid()}")
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise PermissionError
    return folder


def _copy(folder: Path, name: str) -> Path:
    """The copy of a source. It is no module, for tools that look for these."""
    return (folder / name).with_suffix(".txt")


def _store(path: Path, source: bytes) -> None:
    """Stores a source, which may be in a zip here, where numba looks whether it changed. Older versions of
    numba only look at the time, so that is always the same: installing it again compiles nothing.
    """
    part = path.with_name(f"{path.name}.{token_hex(4)}")
    part.write_bytes(source)
    os.utime(part, (0, 0))
    part.replace(path)


def _remove_empty(folder: Path) -> None:
    """Removes empty files, which is what a crash of the system may leave of new ones."""
    for path in folder.rglob("*.nb[ic]"):
        if not path.stat().st_size:
            path.unlink(missing_ok=True)


FOLDER = _folder()


def compiled(function: _F) -> _F:
    """Compiles a function when it is first called. The machine code is stored for the next process, unless
    there is no folder that can be written."""
    if FOLDER is None or _config.DISABLE_JIT:
        return cast(_F, numba.njit(nogil=True, boundscheck=True)(function))
    python = cast(FunctionType, function)
    name = Path(python.__code__.co_filename).name
    if name in _SOURCES:
        python.__code__ = python.__code__.replace(co_filename=str(_copy(FOLDER, name)))
    usual = _config.CACHE_DIR
    _config.CACHE_DIR = str(FOLDER)
    try:
        return cast(_F, numba.njit(cache=True, nogil=True, boundscheck=True)(function))
    finally:
        _config.CACHE_DIR = usual
