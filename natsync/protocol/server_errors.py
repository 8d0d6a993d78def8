"""The texts of -ERR: which of them end the connection, and what a permission violation names.

The texts are those of nats-server (server/errors.go, client.go, leafnode.go, route.go). They are capitalised
before 1.4.0 and lower case since then, so comparisons ignore case.
"""

from __future__ import annotations

import re

from .frames import Kind
from .structs import Struct

__all__ = ["Violation", "closes", "read_violation"]


class Violation(Struct, frozen=True):
    """An operation that was not permitted: `operation` is "publish" or "subscription". `sid` is set only if
    the server ends a live subscription (when it reloads its configuration). With `of_reply`, `subject` is the
    reply subject of the message."""

    operation: str
    subject: bytes
    queue: bytes = b""
    sid: bytes = b""
    of_reply: bool = False


# After any text that is not listed here, the sender closes the connection. On routes and gateways, the
# receiver closes it after every text. A violation closes a leafnode connection, but not a client's.
_VIOLATION_TEXT = "permissions violation"
_OPEN_TO_SERVERS = frozenset(
    {"maximum subscriptions exceeded", "failed account registration", "invalid subscription"}
)
_OPEN_TO_CLIENTS = frozenset(
    {
        "invalid subject",
        "invalid publish subject",
        "maximum subscriptions exceeded",
        "failed account registration",
    }
)


def closes(text: bytes, kind: Kind | None = Kind.CLIENT) -> bool:
    """Whether a connection of `kind` (None: as a client's) ends after an -ERR with this text."""
    lower = text.decode("utf-8", "replace").lower()
    if kind in (Kind.ROUTE, Kind.GATEWAY):
        return True
    if kind is Kind.LEAFNODE:
        return lower not in _OPEN_TO_SERVERS
    return lower not in _OPEN_TO_CLIENTS and not lower.startswith(_VIOLATION_TEXT)


# Not compiled here: most programs need neither, and `re` caches what it compiles.
_QUOTED = rb'"((?:[^"\\]|\\.)*)"'
_VIOLATION = (
    rb"(?i)permissions violation for (publish|subscription)( with reply of| to) "
    + _QUOTED
    + rb"(?: using queue "
    + _QUOTED
    + rb")?(?: \(sid "
    + _QUOTED
    + rb"\))?"
)
_ESCAPE = rb"(?s)\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|(.))"
_ESCAPED = dict(zip(b"abfnrtv", b"\a\b\f\n\r\t\v"))


def read_violation(text: bytes) -> Violation | None:
    """The operation and subject that a permission violation names; None for any other text."""
    found = re.match(_VIOLATION, text)
    if not found:
        return None
    operation, link, *names = found.groups()
    subject, queue, sid = (_unquote(name or b"") for name in names)
    of_reply = link.lower() != b" to"
    return Violation(operation.decode().lower(), subject, queue, sid, of_reply)


def _unquote(quoted: bytes) -> bytes:
    """The bytes that Go quoted with %q (strconv.Quote)."""
    return re.sub(_ESCAPE, _unescape, quoted)


def _unescape(found: re.Match[bytes]) -> bytes:
    byte, short, long, other = found.groups()
    if byte:
        return bytes([int(byte, 16)])
    if short or long:
        number = int(short or long, 16)
        return chr(number).encode("utf-8", "surrogatepass") if number < 0x110000 else found[0]
    return bytes([_ESCAPED.get(other[0], other[0])])
