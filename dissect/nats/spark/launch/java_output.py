"""The output of the Java that a program starts for Spark: kept in a file, and shown only in part.

A process starts Java once, for all its sessions. Lines of this package in it come from processes that Java
has started: those of a stream, for example, say which files came late, and cannot tell the driver.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from tempfile import NamedTemporaryFile, TemporaryFile
from threading import Event, Thread
from typing import IO

from ...output.sink import say

_OURS = "nats-dissect: "
_LOOK_S = 0.5


@cache
def java_log() -> IO[bytes]:
    """The file that Java writes to, until the process ends."""
    file = TemporaryFile()
    atexit.register(file.close)
    return file


def log_bytes(log: IO[bytes], first: int = 0) -> bytes:
    """The output so far, from a byte on. Reading it does not move the file position, which Java
    shares."""
    return os.pread(log.fileno(), os.fstat(log.fileno()).st_size - first, first)


@contextmanager
def lines_shown(log: IO[bytes]) -> Iterator[None]:
    """Shows the lines of this package that come in the block."""
    over = Event()
    first = os.fstat(log.fileno()).st_size

    def show() -> None:
        at = first
        is_over = False
        while not is_over:
            is_over = over.wait(_LOOK_S)
            new, newline, _ = log_bytes(log, at).rpartition(b"\n")
            at += len(new) + len(newline)
            for line in new.decode(errors="replace").splitlines():
                if line.startswith(_OURS):
                    say(line.removeprefix(_OURS))

    thread = Thread(target=show, name="lines in the output of Java", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def save_log(log: IO[bytes]) -> str:
    """Saves the output so far to a file that stays; returns its name."""
    with NamedTemporaryFile(prefix="nats-dissect-spark-", suffix=".log", delete=False) as file:
        file.write(log_bytes(log))
    return file.name
