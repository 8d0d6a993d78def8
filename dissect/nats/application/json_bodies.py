"""JSON in the payloads of JetStream, services and objects: read without ever raising, shown without secrets.

A payload may be cut, invalid, nested a thousand levels deep, or contain numbers of a million digits. A
readable object is a dict; anything else is None, and an anomaly in the row gives the reason.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from functools import cache
from typing import NamedTuple, cast

from ..outcomes import api_error
from ..schema.anomalies import Anomaly
from ..schema.declaration import LayerFrame, Type, declared
from ..schema.records import Record, printable_json
from ..secrets.redact import MASK, Secrets, masked_values

Object = dict[str, object]

# Rows wait in memory until they are sorted, so a row shows at most this many characters of a body. A stream's
# whole configuration and state takes about 2000 characters; lists of streams and subjects take megabytes.
_SHOWN = 8192
_PIECE = 512
_TEXTS = 256  # items of a list of texts that a row shows
_RFC_3339 = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|([+-])(\d\d):(\d\d))", re.ASCII
)
_EPOCH = datetime(1970, 1, 1)
_SECOND = timedelta(seconds=1)
_LONGEST_NS = (1 << 63) - 1
# Members that hold the contents of stored messages, which no table but `frames` shows.
_CONTENTS = ("data", "hdrs")


def read_object(content: bytes) -> Object | None:
    """The payload as a JSON object; None if it is not one."""
    if content[:1] != b"{" and content.lstrip()[:1] != b"{":
        return None
    try:
        value = _DECODER.decode(content.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def why_unread(frame: LayerFrame) -> str:
    """The anomaly of a payload that should be a JSON object and could not be read."""
    cut = frame.captured_bytes is not None
    return Anomaly.TRUNCATED.value if cut else Anomaly.BAD_JSON.value


def masked_json(value: Mapping[str, object], secrets: Secrets) -> str:
    """The object on one line, without its secrets, those of the session, and stored contents. Long members of
    a long one are cut."""
    value = dict(value)
    message = value.get("message")
    if isinstance(message, dict):
        hidden = {name: MASK for name in _CONTENTS if name in message}
        value["message"] = {**message, **hidden}
    if str(value.get("type", "")).endswith(".api_audit"):
        value |= _audited(value, secrets)
    try:
        masked = masked_values(value, secrets)
        text = _line(masked)
        return text if len(text) <= _SHOWN else _line(_shortened(masked))
    except (ValueError, RecursionError):
        return MASK


def _audited(value: Object, secrets: Secrets) -> Object:
    """The request and response in an audit advisory, which contains them as strings, parsed and masked."""
    found: Object = {}
    for name in ("request", "response"):
        body = value.get(name)
        if isinstance(body, str) and body:
            inner = read_object(body.encode("utf-8", "replace"))
            found[name] = MASK if inner is None else masked_json(inner, secrets)
    return found


def _line(value: object) -> str:
    return printable_json(_ENCODER.encode(value))


def _shortened(value: Object) -> Object:
    """The object with long lists and objects replaced by their number of items, and long texts cut."""
    found: Object = {}
    for name, item in value.items():
        if len(_line(item)) <= _PIECE:
            found[name] = item
        elif isinstance(item, (list, dict)):
            found[name] = f"{len(item)} items"
        else:
            found[name] = f"{str(item)[:_PIECE]}..."
        if len(found) >= 64:  # no object of NATS has so many members
            break
    return found


def text(value: Object, name: str) -> str:
    """A member that is a string; empty if it is not."""
    found = value.get(name)
    return found if isinstance(found, str) else ""


def number(value: Object, name: str) -> int | None:
    """A member that is an integer of 64 bits; None if it is not."""
    found = value.get(name)
    return found if type(found) is int and -(1 << 63) <= found < 1 << 64 else None


def flag(value: Object, name: str) -> bool | None:
    """A member that is true or false; None if it is not."""
    found = value.get(name)
    return found if isinstance(found, bool) else None


def member(value: Object, name: str) -> Object:
    """A member that is an object; empty if it is not."""
    found = value.get(name)
    return cast(Object, found) if isinstance(found, dict) else {}


def error_of(value: Object, secrets: Secrets) -> tuple[int | None, int | None, str | None]:
    """`code`, `err_code` and the description of an error response (see `outcomes`), without secrets."""
    error = api_error(value)
    described = error.description and secrets.masked(error.description)
    return error.code, error.err_code, described or None


def texts(value: Object, name: str) -> list[str] | None:
    """The strings in a member that is a list, the first 256; None if there are none."""
    found = value.get(name)
    items = found if isinstance(found, list) else ()
    return [item for item in items if isinstance(item, str) and item][:_TEXTS] or None


class Member(NamedTuple):
    """The member of a JSON object that a column shows, in the declaration of the column: `config.ack_wait` is
    in the member `config`."""

    path: str


_Read = Callable[[Object, str], object]
_READ: dict[Type, _Read] = {
    Type.TEXT: lambda value, name: text(value, name) or None,
    Type.INTEGER: number,
    Type.BOOLEAN: flag,
    Type.TEXTS: texts,
}


@cache
def _members(record: type) -> dict[str, list[tuple[str, str, _Read]]]:
    """The columns of a record that show members, each with the name of the member and what reads it, by the
    object that has the member; the name of the whole object is empty."""
    found: dict[str, list[tuple[str, str, _Read]]] = {}
    for name, (column, more) in declared(record).items():
        for source in more:
            if isinstance(source, Member):
                parent, _, member_name = source.path.rpartition(".")
                found.setdefault(parent, []).append((name, member_name, _READ[column.type]))
    return found


def fill(row: Record, value: Object) -> None:
    """Sets the columns of a row that show members of a JSON object. If the object with a member is missing,
    its columns stay as they are; if only the member is missing, they become absent."""
    members = _members(type(row))  # type: ignore[arg-type]  # a class can be hashed
    for parent, columns in members.items():
        holder = value.get(parent) if parent else value
        if isinstance(holder, dict):
            for column, name, read in columns:
                setattr(row, column, read(holder, name))


def status_text(frame: LayerFrame) -> str | None:
    """The text of an inline status, without secrets."""
    return frame.status_text and frame.secrets.masked(frame.status_text)


def header(frame: LayerFrame, name: str) -> str | None:
    """The first value of a header. Names are case-sensitive, as they are for the server."""
    values = frame.headers.get(name) if frame.headers else None
    return values[0] if values else None


def decimal(value: str | None) -> int | None:
    """The value of a header as a number; None if it is not a number of up to 20 digits."""
    if not value or not value.isascii() or not value.isdigit() or len(value) > 20:
        return None
    return int(value)


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


def _refuse(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# Made once: `json.loads` and `json.dumps` make a new one in each call that has options.
_DECODER = json.JSONDecoder(parse_constant=_refuse)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
