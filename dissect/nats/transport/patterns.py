"""How frames of NATS and messages of HTTP begin, as patterns for bytes of which nothing is known."""

from __future__ import annotations

import re

from .websocket.http_upgrade import UPGRADE

START = re.compile(
    rb"(?:H?PUB|H?MSG|SUB|UNSUB|RS\+|RS-|RMSG|LS\+|LS-|LMSG|A\+|A-|INFO|CONNECT|-ERR) "
    rb"|(?:PING|PONG|\+OK)\r\n"
)
"""How a frame begins, as real peers write it."""
START_BYTES = len(b"CONNECT ")
CANDIDATE = re.compile(rb"\n(?=%s)" % START.pattern)
"""The line end before a frame."""
FIRST_BYTES = frozenset(bytes([byte]) for byte in b"PHMSURLAIC+-phmsurlaic")
"""The bytes with which an operation may begin; operations are not case-sensitive (server/parser.go:
parse)."""

_INFO = re.compile(rb"INFO[ \t]*\{", re.IGNORECASE)
_CONNECT = re.compile(rb"CONNECT[ \t]*\{", re.IGNORECASE)
# The INFO with which a leafnode chooses its compression, before its CONNECT (server/leafnode.go:
# negotiateLeafCompression). Servers name themselves, but for commands of gateways, which compress nothing.
_CHOICE = re.compile(rb'INFO[ \t]*\{"server_id":""[^\r\n]*"compression":', re.IGNORECASE)
_HTTP = re.compile(
    rb"(?:(?!CONNECT )[A-Z]{3,7} [^ \r\n]{1,8000} HTTP/1\.[01]\r\n"
    rb"|HTTP/1\.[01] (?!200 (?i:connection established)\r)[1-5][0-9][0-9][ \r])"
)


def is_info(head: bytes) -> bool:
    """Whether a stream begins with INFO."""
    return _INFO.match(head) is not None


def is_opener(head: bytes) -> bool:
    """Whether these are the first bytes of the side that opened the connection."""
    return bool(_CONNECT.match(head) or _CHOICE.match(head))


def greets(head: bytes) -> bool:
    """Whether a stream begins with a handshake frame."""
    return begins_with_info(head) or bool(_CONNECT.match(head))


def begins_with_info(head: bytes) -> bool:
    """Whether a stream begins with an INFO, which may be cut off."""
    return bool(_INFO.match(head))


def may_begin_nats(head: bytes) -> bool:
    """Whether the first bytes of an originator may be a frame."""
    if len(head) < START_BYTES:
        return head[:1].isalpha()
    return bool(START.match(head) or _CONNECT.match(head))


def is_http(packet: bytes) -> bool:
    """Whether a packet begins with the first line of an HTTP request or response, except for WebSocket and
    the tunnel of a proxy."""
    return _HTTP.match(packet) is not None and not UPGRADE.search(packet)
