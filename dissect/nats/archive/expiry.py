"""Removes old files of an archive: its own, never those of others in its folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import date, datetime, timedelta, timezone

from ..tables import TABLES

_DAY = re.compile(r"date=(\d{4}-\d\d-\d\d)")
OWN_FILE = re.compile(r"(?P<hour>\d\d)-(?P<batch>\d{9,})(-\d+)?\.parquet")
"""The name of a file of an archive in the folder of its day."""


def expire(out: str, keep_days: int, now_ns: int) -> int:
    """Removes the files of days that ended more than `keep_days` ago, in UTC; returns their number. Rows
    without a time are removed that long after they were written."""
    today = datetime.fromtimestamp(now_ns / 1e9, timezone.utc).date()
    count = 0
    for folder in _folders(out):
        day = _DAY.fullmatch(os.path.basename(folder))
        if day and _is_kept(day[1], today, keep_days):
            continue
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if OWN_FILE.fullmatch(name) and (day or _is_old(path, keep_days, now_ns)):
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


def _is_kept(day: str, today: date, keep_days: int) -> bool:
    try:
        return date.fromisoformat(day) >= today - timedelta(keep_days)
    except (ValueError, OverflowError):
        return True


def _is_old(path: str, keep_days: int, now_ns: int) -> bool:
    return now_ns - os.stat(path).st_mtime_ns > keep_days * 86_400 * 10**9
