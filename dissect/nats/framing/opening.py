"""What the first bytes of both directions say about a connection; ports say nothing.

A server greets with INFO on every kind of connection that is not inside TLS or WebSocket; only a route's
CONNECT may be there earlier (server/route.go: createRoute). So a responder whose first bytes are anything
else speaks no NATS. A WebSocket carries NATS if its path or protocol says so, or the first frame does.
"""

from __future__ import annotations

import re
import zlib
from enum import Enum, auto

from natsync.protocol import Kind

HEAD_BYTES = 16 << 10
S2_MAGIC = b"\xff\x06\x00\x00S2sTwO"

_INFO = re.compile(rb"INFO[ \t]*\{", re.IGNORECASE)
_CONNECT = re.compile(rb"CONNECT[ \t]*\{", re.IGNORECASE)
_UPGRADE = re.compile(rb"\r\nUpgrade:[ \t]*websocket", re.IGNORECASE)
_NATS_HEADER = re.compile(rb"\r\n(?:Sec-WebSocket-Protocol:[^\r]*nats|Nats-)", re.IGNORECASE)


class Opening(Enum):
    """What a connection turned out to be."""

    WAIT = auto()  # not enough seen
    NATS = auto()
    TURNED = auto()  # NATS, and the responder is who was taken for the originator
    WEBSOCKET = auto()  # NATS in WebSocket
    OTHER = auto()


def opening(originator: bytes, responder: bytes, midstream: bool) -> Opening:
    """Judges by the first bytes of both sides (empty: none seen, or not the first).

    With `midstream` the originator is only who was seen first.
    """
    if _INFO.match(responder) or _CONNECT.match(originator):
        return Opening.NATS
    if _INFO.match(originator) or _CONNECT.match(responder):
        return Opening.TURNED if midstream else Opening.NATS
    if originator.startswith(S2_MAGIC) or responder.startswith(S2_MAGIC):
        return Opening.NATS
    if originator.startswith(b"GET "):
        return _websocket(originator, responder)
    if responder and not midstream and not b"INFO".startswith(responder[:4].upper()):
        return Opening.OTHER
    return Opening.WAIT


def websocket_kind(request: bytes) -> Kind:
    """The kind of NATS connection that a WebSocket request asks for (server/websocket.go)."""
    return Kind.LEAFNODE if _path(request).endswith(b"/leafnode") else Kind.CLIENT


def _websocket(request: bytes, response: bytes) -> Opening:
    if b"\r\n\r\n" not in request and len(request) < HEAD_BYTES:
        return Opening.WAIT
    if not _UPGRADE.search(request) or _path(request).endswith(b"/mqtt"):
        return Opening.OTHER
    if not response:
        return Opening.WAIT
    if not response.startswith(b"HTTP/1.1 101"[: len(response)]):
        return Opening.OTHER
    head, end, frame = response.partition(b"\r\n\r\n")
    if _path(request).endswith(b"/leafnode") or _NATS_HEADER.search(head):
        return Opening.WEBSOCKET
    if len(response) < HEAD_BYTES and (not end or len(frame) < 16):
        return Opening.WAIT
    return Opening.WEBSOCKET if _INFO.match(_payload(frame)) else Opening.OTHER


def _path(request: bytes) -> bytes:
    return request.split(b" ", 2)[1] if request.count(b" ") >= 2 else b""


def _payload(frame: bytes) -> bytes:
    """The first bytes inside an unmasked WebSocket frame (RFC 6455, 7692)."""
    size = {126: 4, 127: 10}.get(frame[1] & 127, 2) if len(frame) > 1 else 2
    data = frame[size:]
    if frame[:1] >= b"\xc0":
        try:
            return zlib.decompressobj(-15).decompress(data, 16)
        except zlib.error:
            return b""
    return data
