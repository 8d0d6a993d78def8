"""WebSocket: an HTTP upgrade, then frames that carry the NATS stream (server/websocket.go, RFC 6455).

A WebSocket carries NATS if its path or its headers say so, or if its first frame begins with INFO. Its frames
are not decoded: their bytes are opaque.
"""

from __future__ import annotations

import re
import zlib

from natsync.protocol import Kind

from .layer import Column, Found, Heads, Layer, Undecided

HEAD_BYTES = 16 << 10  # of a request or a response, at most
UPGRADE = re.compile(rb"\r\nUpgrade:[ \t]*websocket", re.IGNORECASE)
_NATS_HEADER = re.compile(rb"\r\n(?:Sec-WebSocket-Protocol:[^\r]*nats|Nats-)", re.IGNORECASE)
_INFO = re.compile(rb"INFO[ \t]*\{", re.IGNORECASE)
_SWITCHING = b"HTTP/1.1 101"


def _begins(heads: Heads) -> Found | Undecided | None:
    request, response = heads.originator, heads.responder
    if not request.startswith(b"GET "):
        return None
    incomplete = b"\r\n\r\n" not in request and len(request) < HEAD_BYTES
    if (incomplete or not response) and not heads.final:
        return Undecided.WAIT
    if not UPGRADE.search(request) or not response.startswith(_SWITCHING[: len(response)]):
        return None
    path = _path(request)
    if path.endswith(b"/mqtt"):
        return Found(LAYER) if response.startswith(_SWITCHING) else None
    head, end, frame = response.partition(b"\r\n\r\n")
    kind = Kind.LEAFNODE if path.endswith(b"/leafnode") else Kind.CLIENT
    if kind is Kind.LEAFNODE or _NATS_HEADER.search(head):
        return Found(LAYER, True, kind)
    if len(response) < HEAD_BYTES and (not end or len(frame) < 16) and not heads.final:
        return Undecided.WAIT
    if not response.startswith(_SWITCHING):
        return None
    carries_nats = _INFO.match(_payload(frame)) is not None
    return Found(LAYER, carries_nats, kind if carries_nats else None)


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


LAYER = Layer("websocket", Column.TRANSPORT, _begins)
