"""Removes old files of an archive: its own, never those of others in its folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

from ..output.day_files import DAY_NS, HOUR_FILE, NO_DAY, begin_of
from ..tables import TABLES


def expire(out: str, keep_days: int, now_ns: int) -> int:
    """Removes the files of days that ended more than `keep_days` ago, in UTC; returns their number. Rows
    without a time are removed that long after they were written."""
    first_ns = (now_ns // DAY_NS - keep_days) * DAY_NS
    count = 0
    for folder in _folders(out):
        day = os.path.basename(folder)
        begin_ns, untimed = begin_of(day), day == f"date={NO_DAY}"
        if not untimed and (begin_ns is None or begin_ns >= first_ns):
            continue
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if HOUR_FILE.fullmatch(name) and (not untimed or os.stat(path).st_mtime_ns < first_ns):
                os.unlink(path)
                count += 1
        with suppress(OSError):  # it has other files
            os.rmdir(folder)
    return count


def _folders(out: str) -> Iterator[str]:
    """The folders of days."""
    for table in TABLES:
        with suppress(FileNotFoundError):
            for name in sorted(os.listdir(os.path.join(out, table))):
                if name.startswith("date="):
                    yield os.path.join(out, table, name)
