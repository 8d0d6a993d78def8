"""Times that servers write into JSON, and the difference between the server's clock and the capture's."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_LONGEST_NS = (1 << 63) - 1


def time_ns(text: str) -> int | None:
    """Parses a time of RFC 3339, as Go writes it, into ns since the epoch; None if it is not such a time."""
    found = _RFC_3339.fullmatch(text)
    if not found:
        return None
    try:
        seconds = (datetime.fromisoformat(found[1]) - _EPOCH) // _SECOND
    except ValueError:
        return None
    if found[3]:
        shift = timezone(timedelta(hours=int(found[4]) % 24, minutes=int(found[5]) % 60))
        offset = shift.utcoffset(None) // _SECOND
        seconds -= offset if found[3] == "+" else -offset
    return seconds * 10**9 + int((found[2] or "").ljust(9, "0"))


def clock_ns(written: str, seen_ns: int) -> int | None:
    """How far a server's clock is ahead of the capture's, by a time that the server wrote into a message
    captured at `seen_ns`. The time from writing to capture makes the result smaller."""
    time = time_ns(written)
    if time is None or time <= 0 or abs(time - seen_ns) > _LONGEST_NS:
        return None  # Go writes the year 1 for no time
    return time - seen_ns
