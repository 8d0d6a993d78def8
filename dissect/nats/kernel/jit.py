"""How functions of the kernel are compiled. Only modules of compiled functions import this one, and with it
`numba`.

Indexes are checked: whatever a packet says, a wrong index raises IndexError. With `NUMBA_DISABLE_JIT=1`, the
functions run as Python, which is slow, for debuggers and coverage.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
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
    """Where machine code is stored: numba's folder, if the user has set one; beside this file; or the user's
    folder for such files. Its name depends on all files with compiled functions: numba itself notices only
    changes in the file of a function, not in functions that it calls."""
    here = Path(__file__).parent
    digest = sha256(f"{numba.__version__} {sys.version}".encode())
    for name in _SOURCES:
        digest.update((here / name).read_bytes())
    places = [here / "__pycache__", Path("~/.cache/nats-dissect").expanduser()]
    if _config.CACHE_DIR:
        places.insert(0, Path(_config.CACHE_DIR))
    for place in places:
        folder = place / f"kernel-{digest.hexdigest()[:16]}"
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                return folder
    return None


FOLDER = _folder()


def compiled(function: _F) -> _F:
    """Compiles a function when it is first called. The machine code is stored for the next process, unless
    there is no folder that can be written."""
    if FOLDER is None:
        return cast(_F, numba.njit(nogil=True, boundscheck=True)(function))
    usual = _config.CACHE_DIR
    _config.CACHE_DIR = str(FOLDER)
    try:
        return cast(_F, numba.njit(cache=True, nogil=True, boundscheck=True)(function))
    finally:
        _config.CACHE_DIR = usual
